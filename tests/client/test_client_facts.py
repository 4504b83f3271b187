"""A program that prints what another driver says about its device, for a fake service to repeat."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_uint32, c_void_p

from tests.client.test_client_binding import Cl


def print_facts(cl: Cl) -> None:
    """JSON: hexadecimal bytes by parameter."""
    platforms, device = (c_void_p * 8)(), c_void_p()
    num = c_uint32()
    cl.check(cl.clGetPlatformIDs(8, platforms, byref(num)))
    names = {p: cl.text("clGetPlatformInfo", p, 0x0902) for p in platforms[: num.value] if p}
    platform = next(p for p, name in names.items() if name != "SDI")
    cl.check(cl.clGetDeviceIDs(platform, 0xFFFFFFFF, 1, byref(device), None))
    facts = {}
    for param in [*range(0x1000, 0x1074), 0x4000]:
        size = ctypes.c_size_t()
        if cl.clGetDeviceInfo(device, param, 0, None, byref(size)) == 0:
            facts[param] = cl.info("clGetDeviceInfo", device, param).hex()
    print(json.dumps(facts))
