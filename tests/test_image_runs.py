"""Programs that hang are ended, and say where they and their services stand."""

import sys

from tests.image_runs import image_environ, run

HANGS = """
import pyopencl as cl
from tests.image_runs import end_after
from tests.programs.runner import choose_device
event = cl.UserEvent(cl.Context([choose_device()]))
end_after(0.0)
event.wait()
"""


def test_a_program_that_hangs_is_ended_and_its_service_says_where_it_stands() -> None:
    ended = run([sys.executable, "-c", HANGS], image_environ(1), 60.0)
    assert ended.returncode == 1 and not ended.remained, ended.describe()
    assert 'sdi/service/main.py"' in ended.stderr and '"<string>", line 7 in <module>' in ended.stderr
