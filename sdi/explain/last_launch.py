"""What a session remembers of each kernel's last launch, to explain it at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sdi.launch.arguments import Pointer
from sdi.launch.build.programs import Binding, Kernel

if TYPE_CHECKING:
    from sdi.explain.notes import KernelNote, LaunchNote


@dataclass(frozen=True, slots=True)
class Explained:
    """Notes on a kernel and its last launch; ``text``: the same as lines for people."""

    kernel: KernelNote
    launch: LaunchNote
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LastLaunch:
    """A launch, box k on member ``members[k]``.  Keeping it costs nothing; explaining it, milliseconds."""

    kernel: Kernel
    binding: Binding
    members: tuple[int, ...]

    def explained(self) -> Explained | None:
        """The notes; None for a kernel that was built without any."""
        note, binding = self.kernel.note, self.binding
        if note is None:
            return None
        from sdi.explain.notes import note_launch
        from sdi.explain.text import kernel_lines, member_lines

        nbytes = {used.buffer.id: used.buffer.nbytes for used in binding.arrangement.plan.buffers}
        access = self.kernel.access.bind(
            binding.arrangement.ndrange,
            tuple(value if isinstance(value, bytes) else None for value in binding.values),
            tuple(
                v.reach(nbytes[v.buffer]) if isinstance(v, Pointer) and v.buffer else None
                for v in binding.values
            ),
        )
        launch = note_launch(
            self.kernel.model,
            binding.arrangement.ndrange,
            binding.values,
            binding.arrangement.plan,
            access,
            binding.arrangement.why_whole,
            self.members,
        )
        return Explained(note, launch, (*kernel_lines(note, launch), *member_lines(launch)))
