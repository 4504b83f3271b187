"""The OpenCL C of an image: what its programs may use because every member has it.

The one place that says so: the extension string, the list of features and the macros that a program sees
are all made from it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import partial

from sdi.clc.frontend.base_header import (
    ALL_EXTENSIONS,
    ALL_FEATURES,
    AMD_QUERY,
    ATOMIC_FEATURES,
    FLOAT_ATOMIC_FEATURES,
    FLOAT_ATOMICS,
    GROUP_FEATURE,
    IMAGE_EXTENSIONS,
    IMAGE_FEATURES,
    IMAGE_OF_BUFFER,
    INTEL_QUERY,
    NVIDIA_EXTENSIONS,
    PTX_TARGET,
    SUB_GROUP_EXTENSIONS,
    SUB_GROUP_FEATURE,
    SUB_GROUP_SIZE,
    SUB_GROUPS,
    USUAL_TARGET,
    Language,
)
from sdi.clc.preprocess.compiler import Compiler
from sdi.clc.preprocess.dialect import common
from sdi.clc.preprocess.probe import Answers, Dialect
from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.errors import DeviceLost
from sdi.wire.opencl import NAME_VERSION, DeviceInfo, VendorId

_MACHINES: dict[int, str] = {VendorId.NVIDIA: PTX_TARGET}
"""clang's names of vendors' machines."""


def image_language(devices: Iterable[Device]) -> Language:
    """What all ``devices`` have, of what sdi can pass on."""
    facts = [d.capabilities for d in devices]
    images = bool(common_formats(facts))
    known = [set(f.info[DeviceInfo.EXTENSIONS].rstrip(b"\0").decode().split()) for f in facts]
    extensions = tuple(
        name
        for name in (
            *ALL_EXTENSIONS,
            *NVIDIA_EXTENSIONS,
            AMD_QUERY,
            INTEL_QUERY,
            IMAGE_OF_BUFFER,
            FLOAT_ATOMICS,
        )
        if all(name in had for had in known) and (images or name not in IMAGE_EXTENSIONS)
    )
    features = [name for name, needed in ALL_FEATURES.items() if not needed or needed in extensions]
    claimed = [_features(f) | {"__opencl_c_images"} for f in facts]
    wanted = (*ATOMIC_FEATURES, GROUP_FEATURE, *(IMAGE_FEATURES if images else ()))
    float_atomics: tuple[str, ...] = ()
    if FLOAT_ATOMICS in extensions:
        wanted += tuple(FLOAT_ATOMIC_FEATURES)
        float_atomics = _float_atomics(facts)
    features += [name for name in wanted if all(name in had for had in claimed)]
    sub_groups = _have_sub_groups(facts, known, claimed)
    if sub_groups:
        wanted_too = (*SUB_GROUP_EXTENSIONS, SUB_GROUP_SIZE)
        extensions += tuple(name for name in wanted_too if all(name in had for had in known))
        features += [SUB_GROUP_FEATURE] if all(SUB_GROUP_FEATURE in had for had in claimed) else []
    own = set().union(*known, *(_features(f) for f in facts))
    withheld = sorted(own - {*extensions, *features})
    return Language(
        extensions,
        tuple(features),
        images,
        _assembly(facts),
        tuple(withheld),
        sub_groups=sub_groups,
        float_atomics=float_atomics,
    )


def _float_atomics(facts: Sequence[Capabilities]) -> tuple[str, ...]:
    """What all members can do; see ``Language``."""
    return tuple(
        name
        for name, (parameter, bit) in FLOAT_ATOMIC_FEATURES.items()
        if all(int.from_bytes(f.info.get(parameter, b""), "little") & bit for f in facts)
    )


def _have_sub_groups(
    facts: Sequence[Capabilities], extensions: Sequence[set[str]], features: Sequence[set[str]]
) -> bool:
    """Whether an image may have sub-groups: all members do, and cut work-groups into them alike.

    How many work-items are in one shows in results, and is the compiler's choice.
    """
    have = all(SUB_GROUPS in e or SUB_GROUP_FEATURE in f for e, f in zip(extensions, features, strict=True))
    return have and len({(f.compiler, f.info.get(DeviceInfo.NAME)) for f in facts}) == 1


def _assembly(facts: Iterable[Capabilities]) -> str:
    """The machine, as clang calls it, whose inline assembly all members have."""
    found = {
        os.uname().machine
        if f.kind.is_host_processor
        else _MACHINES.get(int.from_bytes(f.info.get(DeviceInfo.VENDOR_ID, b""), "little"), USUAL_TARGET)
        for f in facts
    }
    return found.pop() if len(found) == 1 else USUAL_TARGET


def image_dialect(devices: Sequence[Device]) -> Dialect:
    """What the compilers of all ``devices`` have defined."""
    kinds: dict[str, list[Device]] = {}
    for device in devices:
        kinds.setdefault(device.capabilities.compiler, []).append(device)
    return common([Compiler(name, partial(_ask, alike)) for name, alike in kinds.items()])


def _ask(alike: Sequence[Device], questions: Sequence[str], options: Sequence[str]) -> Answers:
    """Any device will do that is not lost."""
    for device in alike:
        with contextlib.suppress(DeviceLost):
            return device.ask(questions, options)
    raise DeviceLost(alike[0].capabilities.name, "no device is left that could be asked for its macros")


def common_formats(facts: Iterable[Capabilities]) -> dict[tuple[int, int], int]:
    """The image formats that all members have, with the uses that all of them allow; see ``Capabilities``."""
    first, *others = facts
    found = {
        key: uses
        for key, own in first.formats.items()
        if (uses := _common(own, [f.formats.get(key, 0) for f in others]))
    }
    return dict(sorted(found.items()))


def _common(uses: int, others: Iterable[int]) -> int:
    for other in others:
        uses &= other
    return uses


def _features(facts: Capabilities) -> set[str]:
    data = facts.info.get(DeviceInfo.OPENCL_C_FEATURES, b"")
    whole = data[: len(data) // NAME_VERSION.size * NAME_VERSION.size]
    names = (name for _, name in NAME_VERSION.iter_unpack(whole))
    return {name.partition(b"\0")[0].decode(errors="replace") for name in names}  # then comes anything
