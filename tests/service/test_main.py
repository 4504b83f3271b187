"""What a service loads before its application asks for anything."""

import subprocess
import sys

NOT_NEEDED = {
    "clang",
    "sdi.clc.frontend.link",
    "sdi.clc.frontend.parse",
    "sdi.devices.cuda.member",
    "sdi.devices.cuda.info",
    "sdi.explain.notes",
    "sdi.explain.text",
    "sdi.launch.verify.verify",
}


def test_a_service_starts_without_what_few_sessions_ask_for() -> None:
    text = "import sys, sdi.devices.discover, sdi.service.session; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "sdi.launch.programs.builds" in loaded
    assert not NOT_NEEDED & loaded
