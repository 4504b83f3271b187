"""What there is to say of each kernel's last launch, at a session's end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdi.dataclass import astuple, dataclass
from sdi.explain.notes import KernelNote, LaunchNote, note_launch
from sdi.explain.text import kernel_lines, member_lines
from sdi.launch.arguments import BufferArgument
from sdi.launch.counters import Counters, LastLaunch, PatternSums
from sdi.launch.patterns import described
from sdi.partition.learnt import Attempts


@dataclass(frozen=True, slots=True)
class Explained:
    """Notes on a kernel and its last launch; ``text``: the same as lines for people.

    ``patterns``: of all launches, see ``PatternSums``: argument and pattern, then its fields.
    """

    kernel: KernelNote
    launch: LaunchNote
    text: tuple[str, ...]
    patterns: Sequence[tuple[str | int, ...]] = ()


def explained(counters: Counters) -> dict[str, Explained]:
    """Of each kernel that was built to be explained, by name.

    Takes milliseconds, or as long as it takes to parse the programs that were known from earlier runs.
    """
    found = ((name, last.kernel.note and last.kernel.note(), last) for name, last in counters.last.items())
    nodes = counters.nodes if len({*counters.nodes}) > 1 else ()
    return {
        name: _explained(note, last, nodes, _rows(counters.patterns.get(name, {})))
        for name, note, last in found
        if isinstance(note, KernelNote)
    }


def _tried(attempts: Attempts) -> tuple[str, ...]:
    """What became of launches whose result was not known to be right before they ran."""
    count = attempts.stood + attempts.undone
    if not count:
        return ()
    return (f"  {count} launches were split at a risk, {attempts.undone} of them had to run again",)


def _rows(patterns: Mapping[tuple[str, str], PatternSums]) -> tuple[tuple[str | int, ...], ...]:
    return tuple((*named, *astuple(sums)) for named, sums in patterns.items())


def for_profile(found: Explained) -> dict[str, object]:
    """What a profile has of it."""
    return {
        "arguments": [[p.name, p.reads, p.writes] for p in found.launch.precision],
        "why_whole": found.launch.why_whole,
        "advice": found.kernel.advice,
        "lines": found.text,
        "patterns": found.patterns,
    }


def _explained(
    note: KernelNote, last: LastLaunch, nodes: Sequence[int], patterns: Sequence[tuple[str | int, ...]]
) -> Explained:
    binding = last.binding
    launch_plan = binding.launch_plan
    nbytes = {buffer.id: buffer.nbytes for buffer in launch_plan.chunks[0].buffers}
    access = last.kernel.access.bind(
        launch_plan.ndrange,
        tuple(value if isinstance(value, bytes) else None for value in binding.values),
        tuple(
            v.reach(nbytes[v.buffer]) if isinstance(v, BufferArgument) and v.buffer else None
            for v in binding.values
        ),
    )
    launch = note_launch(
        last.kernel.model,
        launch_plan.ndrange,
        binding.values,
        launch_plan.plan,
        access,
        launch_plan.why_whole,
        last.members,
    )
    brought = tuple(f"  {described(each)} for {each.argument}" for each in last.patterns)
    tried = _tried(last.kernel.attempts)
    lines = (*kernel_lines(note, launch), *tried, *brought, *member_lines(launch, nodes))
    return Explained(note, launch, lines, patterns)
