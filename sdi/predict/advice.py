"""What holds a program on so many members, and what to change: sentences that each rest on a figure."""

from __future__ import annotations

from sdi.dataclass import dataclass
from sdi.devices.capabilities import kind_named
from sdi.predict.prediction import KernelOn, Moved, OnMembers, RunPrediction
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
_NEARLY = 1.1


@dataclass(frozen=True, slots=True)
class Loss:
    """``ns`` of the time to the end, which kernels that are shared out evenly would not take.

    ``kernel``, ``of``: what most of it is for, with ``most_ns``.  ``says``: what to do about that.
    """

    cause: str
    ns: float
    kernel: str
    of: str
    most_ns: float
    says: str


def losses(prediction: RunPrediction, on: OnMembers) -> list[Loss]:
    """What holds the program on so many members, most first; nothing that is hardly there."""
    sums: dict[str, dict[tuple[str, str], float]] = {}
    for part in on.parts:
        key = ("", "") if part.cause in (APPLICATION, OWN_COPIES) else (part.kernel, part.of)
        by_kernel = sums.setdefault(part.cause, {})
        by_kernel[key] = by_kernel.get(key, 0.0) + part.ns
    found = []
    for cause, by_kernel in sums.items():
        if cause in (KERNELS, WHOLE):
            by_kernel = {
                key: max(0.0, ns - _fair_ns(prediction, on, key[0])) for key, ns in by_kernel.items()
            }
        ns = sum(by_kernel.values())
        if ns >= _LEAST * on.end_ns:
            (kernel, of), most_ns = max(by_kernel.items(), key=lambda each: each[1])
            found.append(Loss(cause, ns, kernel, of, most_ns, _said(prediction, on, cause, kernel, of)))
    return sorted(found, key=lambda each: -each.ns)


def sentence(loss: Loss, on: OnMembers) -> str:
    """For people."""
    text = f"{100 * loss.ns / on.end_ns:.0f} % {_NAMED.get(loss.cause, loss.cause)}"
    if loss.kernel:
        is_all = loss.most_ns >= 0.995 * loss.ns
        text += f", {'all' if is_all else f'{100 * loss.most_ns / loss.ns:.0f} %'} of it kernel {loss.kernel}"
    return f"{text}: {loss.says}"


_NAMED = {
    APPLICATION: "the application itself",
    KERNELS: "kernels that are not shared out evenly",
    STARTING: "from issue to begin",
    PLANNING: "planning and first issue",
}


def _fair_ns(prediction: RunPrediction, on: OnMembers, kernel: str) -> float:
    """What a kernel takes on one member, by the number of members, or of machines whose cores they share."""
    one = prediction.one.kernel(kernel)
    kinds = [kind_named(member.kind) for member in prediction.program.session.members]
    count = on.machines if any(kind.is_host_processor for kind in kinds) else on.members
    return 0.0 if one is None else one.by_cause.get(KERNELS, 0.0) / count


def _said(prediction: RunPrediction, on: OnMembers, cause: str, kernel: str, of: str) -> str:
    here = on.kernel(kernel)
    if cause == APPLICATION:
        return "what it does between commands, which members don't shorten"
    if cause == OWN_COPIES:
        return (
            "between its memory and sdi's, for reads and writes; mapped buffers made with "
            "CL_MEM_ALLOC_HOST_PTR need none, and neither does what stays on the members"
        )
    if cause == STARTING:
        return "as long as in the profile; before first launches drivers load code"
    if cause in (UPLOADS, DOWNLOADS, BETWEEN, NETWORK):
        return _of_copies(prediction, on, cause, of)
    if cause == MERGES:
        return _of_merges(prediction, kernel, of)
    if cause == PLANNING:
        return (
            "launches unlike those before; with the same sizes, buffers and scalars that ranges depend on "
            "they are planned once"
        )
    if here is None:
        return ""
    if cause == ISSUING:
        return _short(prediction, here)
    return _not_split(prediction, here, on) if cause == WHOLE else _uneven(on, here)


def _of_copies(prediction: RunPrediction, on: OnMembers, cause: str, of: str) -> str:
    moved, once = on.moved.get(of, Moved(0, 0)), prediction.one.moved.get(of, Moved(0, 0))
    each = moved.nbytes / max(moved.copies, 1)
    text = f"{moved.copies} copies of {size(each)} for '{of}', {size(moved.nbytes)} in all"
    if cause in (UPLOADS, DOWNLOADS) and moved.nbytes <= _NEARLY * once.nbytes:
        return f"{text}, as on one; what stays on the members, or has more work done on it, moves less often"
    if cause in (UPLOADS, DOWNLOADS):
        return f"{text}, {size(once.nbytes)} on one: several members need the same bytes"
    is_far = cause == NETWORK
    costs = prediction.costs
    latency_ns = 1e3 * (costs.network_latency_us if is_far else costs.copy_latency_us)
    rate = costs.network_gb_per_s if is_far else costs.between_members_gb_per_s
    if each / rate < latency_ns:
        more = "larger launches, or several steps in one, need fewer"
        return f"{text}: short ones, which take their latency; {more}"
    return (
        f"{text}: what one member wrote others read; where each work-group reads only what is near it less "
        "moves, and larger launches have more work for each byte"
    )


def _of_merges(prediction: RunPrediction, kernel: str, of: str) -> str:
    explained = prediction.program.session.explained.get(kernel)
    argument = of.partition(": ")[2]
    known = [each for each in explained.arguments if each[0] == argument] if explained is not None else []
    text = f"several members may write the same bytes of {argument or 'a buffer'}, so they are compared"
    if known and known[0][2] not in ("", "exact"):
        text += f" (writes are known as: {known[0][2]})"
    return f"{text}; what `sdi explain` calls exact, as indices that are affine in the ids, needs no merging"


def _short(prediction: RunPrediction, here: KernelOn) -> str:
    one = prediction.one.kernel(here.kernel)
    ns = one.by_cause.get(KERNELS, 0.0) / here.launches if one is not None else 0.0
    issue_ns = here.by_cause.get(ISSUING, 0.0) / here.launches
    return (
        f"a launch takes {ns / 1e3:.0f} us on one member, and {issue_ns / 1e3:.0f} us until the next can be "
        "issued; fewer and larger launches gain, or fewer members"
    )


def _not_split(prediction: RunPrediction, here: KernelOn, on: OnMembers) -> str:
    whole = here.assignments.get(1, 0)
    text = f"{whole} of its {here.launches} launches run whole on one of {on.members} members"
    if here.why_fewer:
        text += f": {here.why_fewer}"
    explained = prediction.program.session.explained.get(here.kernel)
    if explained is not None and explained.advice and explained.why_whole == here.why_fewer:
        text += f"; {explained.advice}"
    return text


def _uneven(on: OnMembers, here: KernelOn) -> str:
    parts = max(here.assignments)
    if parts < on.members:
        why = here.why_fewer or "by these costs sdi chooses no more"
        return f"it runs in {parts} parts on {on.members} members: {why}"
    groups = f"{here.groups} work-groups of {here.local_items} work-items"
    return f"{groups} don't fill {parts} members evenly; more, or larger ones, do"
