"""Damages what real programs told their services, very often: ``make soak-wire``.

``python -m tests.service.soak [RECORDS] [SECONDS] [SEED] [SEQUENCES]``: RECORDS damaged records before the
door, then SECONDS with live services; they are of ``every_record`` and of SEQUENCES random sequences.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.image_runs import image_environ, run
from tests.service import live
from tests.service.mutations import damage_all
from tests.service.recorded import WANTED, environ, kinds, streams

RECORDING_S = 900.0


def record(folder: Path, first: int, num_sequences: int) -> None:
    """Run ``every_record``, and that many sequences, with and without images, and record them."""
    image = image_environ(2, SDI_SPLIT="always", **environ(folder))
    commands = [["tests.service.every_record"]]
    for seed in range(first, first + num_sequences, 2):
        commands.append(["tests.sequences.runner", str(seed), str(seed + 2)])
    for command in commands:
        ended = run([sys.executable, "-W", "ignore", "-m", *command], image, RECORDING_S)
        assert ended.returncode == 0 and not ended.remained, ended.describe()


def main(arguments: list[str]) -> int:
    """See the module."""
    num_records, seconds, seed, num_sequences = (
        int(arguments[i]) if i < len(arguments) else given for i, given in enumerate((1_000_000, 7200, 1, 20))
    )
    with tempfile.TemporaryDirectory(prefix="sdi-soak-") as folder:
        record(Path(folder), seed, num_sequences)
        recorded = streams(Path(folder))
    missing = WANTED - set().union(*map(kinds, recorded))
    assert not missing, f"no program has {missing}"
    print(f"recorded {sum(map(len, recorded))} records of {len(recorded)} programs", flush=True)
    fared = Counter[str]()
    for number, stream in enumerate(recorded):
        fared += damage_all(stream, seed + number, -(-num_records // len(recorded)))
    let_in = sum(count for what, count in fared.items() if what.endswith("let in"))
    print(f"in process: {fared.total()} damaged records, {let_in} let in, seed {seed}", flush=True)
    live.prepare()
    counts, wrong = live.live(recorded, range(seed, seed + 100_000_000), seconds)
    print("live:", ", ".join(f"{count} {what}" for what, count in counts.items()), f"; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
