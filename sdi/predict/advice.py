"""What holds a program on so many members, and what to change: sentences that each rest on a figure."""

from __future__ import annotations

from dataclasses import dataclass

from sdi.predict.prediction import KernelOn, Moved, OnMembers, Prediction
from sdi.predict.simulate import (
    APPLICATION,
    BETWEEN,
    DOWNLOADS,
    ISSUING,
    KERNELS,
    MERGES,
    NETWORK,
    OWN_COPIES,
    PLANNING,
    STARTING,
    UPLOADS,
    WHOLE,
)
from sdi.sizes import size

_LEAST = 0.03
"""What takes a smaller part of the time is not worth a word."""
_MOST = 6
_NEARLY = 1.1


@dataclass(frozen=True, slots=True)
class Loss:
    """``ns`` of the time beyond what kernels take where they are shared out evenly.  ``says``: for people."""

    cause: str
    kernel: str
    of: str
    ns: float
    says: str


def losses(prediction: Prediction, on: OnMembers) -> list[Loss]:
    """What holds the program on so many members, most first; nothing that is hardly there."""
    sums: dict[tuple[str, str, str], float] = {}
    for part in on.parts:
        kernel = "" if part.cause in (APPLICATION, OWN_COPIES) else part.kernel
        key = part.cause, kernel, part.of
        sums[key] = sums.get(key, 0.0) + part.ns
    found = []
    for (cause, kernel, of), ns in sums.items():
        if cause in (KERNELS, WHOLE):
            ns -= _fair_ns(prediction, on, kernel)
        if ns < _LEAST * on.end_ns:
            continue
        said = _said(prediction, on, cause, kernel, of)
        found.append(Loss(cause, kernel, of, ns, f"{cause} take {100 * ns / on.end_ns:.0f} %{said}"))
    return sorted(found, key=lambda each: -each.ns)[:_MOST]


def _fair_ns(prediction: Prediction, on: OnMembers, kernel: str) -> float:
    """What a kernel takes on one member, by the number of members."""
    one = prediction.one.kernel(kernel)
    return 0.0 if one is None else (one.by_cause.get(KERNELS, 0.0)) / on.members


def _said(prediction: Prediction, on: OnMembers, cause: str, kernel: str, of: str) -> str:
    here = on.kernel(kernel)
    of_kernel = f" of the time, of kernel {kernel}" if kernel else " of the time"
    if cause == APPLICATION:
        return " of the time: what the application does between commands, which members don't shorten"
    if cause == OWN_COPIES:
        return (
            " of the time: between its memory and sdi's, for reads and writes; to map buffers that were made "
            "with CL_MEM_ALLOC_HOST_PTR needs none, and what stays on the members neither"
        )
    if cause == STARTING:
        return f"{of_kernel}: from issue to begin, as in the profile; in first launches drivers load code"
    if cause in (UPLOADS, DOWNLOADS, BETWEEN, NETWORK):
        return _of_copies(prediction, on, cause, of)
    if here is None:
        return of_kernel
    if cause == MERGES:
        return f"{of_kernel}: {_of_merges(prediction, kernel, of)}"
    if cause == PLANNING:
        return (
            f"{of_kernel}: launches unlike those before; with the same sizes, buffers and scalars that "
            "ranges depend on they are planned once"
        )
    if cause == ISSUING:
        return f"{of_kernel}: {_short(prediction, here)}"
    return f"{of_kernel}, {_not_split(prediction, here, on) if cause == WHOLE else _uneven(on, here)}"


def _of_copies(prediction: Prediction, on: OnMembers, cause: str, of: str) -> str:
    moved, once = on.moved.get(of, Moved(0, 0)), prediction.one.moved.get(of, Moved(0, 0))
    each = moved.nbytes / max(moved.copies, 1)
    text = f" of the time, for {of}: {moved.copies} copies of {size(each)} each, {size(moved.nbytes)} in all"
    if cause in (UPLOADS, DOWNLOADS) and moved.nbytes <= _NEARLY * once.nbytes:
        return f"{text}, as on one; more work for each byte, or data that stays on the members, would hide it"
    latency_ns = 1e3 * prediction.costs.copy_latency_us
    rate = (
        prediction.costs.network_gb_per_s if cause == NETWORK else prediction.costs.between_members_gb_per_s
    )
    if cause in (BETWEEN, NETWORK) and each / rate < latency_ns:
        return (
            f"{text}: so short that each costs its latency; larger launches, or several steps in one, "
            "have fewer"
        )
    if cause in (BETWEEN, NETWORK):
        return (
            f"{text}: what one member wrote and others read; where each work-group reads only what is near "
            "it less moves, and larger launches have more work for each byte"
        )
    return f"{text}, {size(once.nbytes)} on one: several members need the same bytes"


def _of_merges(prediction: Prediction, kernel: str, of: str) -> str:
    explained = prediction.program.session.explained.get(kernel)
    argument = of.partition(": ")[2]
    known = next((each for each in explained.arguments if each[0] == argument), None) if explained else None
    text = (
        f"several members may write the same bytes of {argument or 'a buffer'}, which are compared afterwards"
    )
    if known is not None and known[2] not in ("", "exact"):
        text += f" (writes are known as: {known[2]})"
    return f"{text}; indices that are affine in the ids, or that `sdi explain` calls exact, need no merging"


def _short(prediction: Prediction, here: KernelOn) -> str:
    one = prediction.one.kernel(here.kernel)
    ns = one.by_cause.get(KERNELS, 0.0) / here.launches if one is not None and here.launches else 0.0
    return (
        f"a launch takes {ns / 1e3:.0f} us on one member, "
        f"{here.by_cause.get(ISSUING, 0.0) / here.launches / 1e3:.0f} us to issue here; fewer and larger "
        "launches, or fewer members (-n), gain"
    )


def _not_split(prediction: Prediction, here: KernelOn, on: OnMembers) -> str:
    whole = here.assignments.get(1, 0)
    text = f"of which {whole} of {here.launches} launches run whole on one of {on.members} members"
    explained = prediction.program.session.explained.get(here.kernel)
    text += f": {here.why_whole}" if here.why_whole else ""
    if explained is not None and explained.advice and explained.why_whole == here.why_whole:
        text += f"; {explained.advice}"
    return text


def _uneven(on: OnMembers, here: KernelOn) -> str:
    parts = max(here.assignments)
    if parts < on.members:
        return f"which run in {parts} parts on {on.members} members: predicted to be faster than in more"
    size_text = f"{here.groups} work-groups of {here.local_items}"
    return f"beyond an even share: {size_text} are too few to fill {parts} members evenly"
