"""What programs send over the links of machines, as the kernel counts it: with headers and what is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cluster.machines import Link, on_machines, why_not
from tests.cluster.test_network import (
    BROADCAST,
    BROADCAST_NBYTES,
    LARGE,
    LARGE_BUFFERS,
    LARGE_NBYTES,
    START,
)

RATE = "500mbit"
WIDTH, HEIGHT, FEW, MANY = 16384, 64, 10, 60
ROW_NBYTES = 4 * WIDTH
STENCIL = f"""
import sys
n = {WIDTH} * {HEIGHT}
{START}
f = built("int x = get_global_id(0), y = get_global_id(1), at = y * {WIDTH} + x;"
          "if (y > 0 && y < {HEIGHT} - 1) b[at] = a[at - {WIDTH}] + a[at + {WIDTH}];")
for _ in range(int(sys.argv[1])):
    f(queue, ({WIDTH}, {HEIGHT}), (64, 1), a, b)
    a, b = b, a
queue.finish()
"""


@pytest.fixture(scope="module", autouse=True)
def machines() -> None:
    if reason := why_not():
        pytest.skip(reason)


def ran(folder: Path, program: str, ranks: int, *arguments: str, **settings: str) -> list[Link]:
    path = folder / "program.py"
    path.write_text(program)
    return on_machines(ranks, RATE, [sys.executable, "-W", "ignore", path, *arguments], **settings)


def test_a_stencils_steps_send_each_edge_row_to_a_neighbour_and_no_other_byte_through_the_root(
    tmp_path: Path,
) -> None:
    few, many = (ran(tmp_path, STENCIL, 4, str(steps)) for steps in (FEW, MANY))
    rows = [
        (
            (after.sent - before.sent) / (MANY - FEW) / ROW_NBYTES,
            (after.got - before.got) / (MANY - FEW) / ROW_NBYTES,
        )
        for before, after in zip(few, many, strict=True)
    ]
    for rank, (sent, got) in enumerate(rows):
        own = 1 if rank in (0, 3) else 2
        assert 0.95 * own <= sent <= 1.15 * own and 0.95 * own <= got <= 1.15 * own, rows


def test_a_broadcast_to_four_machines_sends_at_most_1_1_times_the_buffer_from_each(tmp_path: Path) -> None:
    links = ran(tmp_path, BROADCAST, 5)
    assert all(link.sent <= 1.1 * BROADCAST_NBYTES for link in links), links
    assert all(link.got >= BROADCAST_NBYTES for link in links[1:]), links


def test_of_data_twice_as_large_as_members_the_root_passes_only_what_the_program_writes_and_reads(
    tmp_path: Path,
) -> None:
    ranks = 3
    total = LARGE_BUFFERS * LARGE_NBYTES
    links = ran(tmp_path, LARGE, ranks, SDI_MEMBER_MEMORY=str(total // ranks // 2))
    others = total * (ranks - 1) // ranks
    assert others <= links[0].sent <= 1.15 * others and others <= links[0].got <= 1.15 * others, links
