"""What a profile is told once: about the session at its begin and end, and about each way to run a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sdi.devices.base import Device
from sdi.launch.kernel import Arrangement
from sdi.partition.table import shape_of
from sdi.profile.record.recorder import Recorder
from sdi.vmem.accounting import Accounting
from sdi.vmem.links import Links


def opening(devices: Sequence[Device], application: int, split: str) -> dict[str, object]:
    """For ``Recorder``.  ``application``: its process."""
    members = [{"name": device.facts.name, "kind": device.facts.kind} for device in devices]
    return {"application": application, "members": members, "split": split}


def closing(explained: Mapping[str, object], links: Links, accounting: Accounting) -> dict[str, object]:
    """For ``Recorder.close``: what is known at the end only.  ``explained``: notes by kernel."""
    return {"explained": explained, "link_ns": links.rates(), "events": asdict(accounting.events)}


def shape_number(recorder: Recorder, kernel: str, arrangement: Arrangement) -> int:
    """The number by which launches refer to ``arrangement``; it is recorded when it is new."""
    if not arrangement.profiled:
        plan = arrangement.plan
        arrangement.profiled = recorder.shape(
            kernel=kernel,
            num_groups=arrangement.ndrange.num_groups,
            local_size=arrangement.ndrange.local_size,
            members=len(plan.boxes),
            cut=shape_of(plan.boxes),
            why_whole=arrangement.why_whole,
            waves=len(arrangement.waves),
            merged_nbytes=plan.merged_nbytes,
        )
    return arrangement.profiled
