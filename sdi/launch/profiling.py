"""What a profile is told once: about the session at its begin and end, and about each way to run a launch."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sdi.devices.base import Device
from sdi.launch.kernel import LaunchPlan
from sdi.partition.table import shape_of
from sdi.profile.record.recorder import Recorder
from sdi.vmem.accounting import Accounting
from sdi.vmem.links import Links


def opening(devices: Sequence[Device], application: int, split: str) -> dict[str, object]:
    """For ``Recorder``.  ``application``: its process."""
    members, told = [], set[tuple[str, str]]()
    for known in [device.capabilities for device in devices]:
        info = {str(param): b64encode(value).decode() for param, value in known.info.items()}
        alike = (known.kind.name, known.name)
        members.append(
            {
                "name": known.name,
                "kind": known.kind.name,
                "node": known.node,
                "is_near": known.is_near,
                "memory_nbytes": known.memory_nbytes,
                "info": {} if alike in told else info,
                "formats": [] if alike in told else [[*key, uses] for key, uses in known.formats.items()],
            }
        )
        told.add(alike)
    return {"application": application, "members": members, "split": split}


def closing(explained: Mapping[str, object], links: Links, accounting: Accounting) -> dict[str, object]:
    """For ``Recorder.close``: what is known at the end only.  ``explained``: notes by kernel."""
    return {"explained": explained, "link_ns": links.rates(), "events": asdict(accounting.events)}


def shape_number(recorder: Recorder, kernel: str, launch_plan: LaunchPlan) -> int:
    """The number by which launches refer to ``launch_plan``; it is recorded when it is new."""
    if not launch_plan.profiled:
        plan = launch_plan.plan
        launch_plan.profiled = recorder.shape(
            kernel=kernel,
            num_groups=launch_plan.ndrange.num_groups,
            local_size=launch_plan.ndrange.local_size,
            members=len(plan.boxes),
            cut=shape_of(plan.boxes),
            why_whole=launch_plan.why_whole,
            chunks=len(launch_plan.chunks),
            merged_nbytes=plan.merged_nbytes,
            regions=len(launch_plan.reached.buffers),
            reached_nbytes=sum(buffer.nbytes for buffer in launch_plan.reached.buffers),
        )
    return launch_plan.profiled
