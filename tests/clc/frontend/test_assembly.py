"""Inline assembly: what PTX may do beside its operands, and what CUDA members get of it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.clc.frontend.base_header import USUAL, Language
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from sdi.errors import BuildError
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import Precision, analyse
from tests.image_runs import image_environ, plain_environ, run

H100 = (9, 0)
CPU = Language(USUAL.extensions, USUAL.features, True, "x86_64")


def kernel(body: str, before: str = "") -> str:
    return f"""{before}
      kernel void k(global int *o, global float *f, local int *l, global long *q) {{
        int g = get_global_id(0); {body} }}"""


COMPUTES = {
    "three operands": 'asm("mad.lo.s32 %0, %1, %2, %0;" : "+r"(g) : "r"(g), "r"(3)); o[g] = g;',
    "two instructions": r"""
        asm volatile("add.u32 %0, %1, 1;\n\t" "xor.b32 %0, %0, 5;" : "=&r"(o[g]) : "r"(g));""",
    "a constant": '__asm__ __volatile__("shl.b32 %0, %0, %1;" : "+r"(o[g]) : "n"(1 + 2));',
    "predicates": """
        asm("{ .reg .pred p; setp.ne.u32 p|_, %1, 0; @!p mov.u32 %0, 3; }" : "+r"(o[g]) : "r"(g));""",
    "registers": 'asm("{.reg .b32 %%r<4>, t; mov.b32 %%r1, %0; add.u32 %0, %%r1, t;}" : "+r"(o[g]));',
    "names": 'asm("mov.u32 %[a], %[b];" : [a] "=r"(o[g]) : [b] "r"(g) : "cc");',
    "registers of its own": 'asm("mov.u32 %0, %%laneid; mov.u32 %0, %%tid.x;" : "=r"(o[g]));',
    "nothing": 'asm(""); asm volatile("{ .reg .u32 t; mov.u32 t, %laneid; }"); o[g] = g;',
    "a float and a double": """
        double d = f[g]; asm("fma.rn.f32 %0, %0, %0, %1;" : "+f"(f[g]) : "f"(2.0f));
        asm("add.f64 %0, %0, %1;" : "+d"(d) : "d"(1.0)); f[g] = d;""",
    "64 and 16 bits": """
        short s = g; asm("add.u64 %0, %0, %1;" : "+l"(q[g]) : "l"(g));
        asm("add.u16 %0, %0, 1;" : "+h"(s)); o[g] = s;""",
    "carries": """
        uint2 v; asm("add.cc.u32 %0, %2, %2; addc.u32 %1, %2, 0;" : "=r"(v.x), "=r"(v.y) : "r"(g));
        o[g] = v.x + v.y;""",
    "registers in braces": 'asm("mov.b64 %0, {%1, %2};" : "=l"(q[g]) : "r"(g), "r"(1));',
    "operands that fit no register": """
        char c = g; uchar u; float x; uint b;
        asm("add.u32 %0, %1, %2;" : "=r"(u) : "r"(c), "r"((short)2));
        asm("mov.b32 %0, %1;" : "=r"(x) : "r"(g)); asm("mov.b32 %0, %1;" : "=r"(b) : "r"(x));
        o[g] = u + b;""",
    "shared registers": """
        int x, y;
        asm("add.u32 %0, %2, %4; add.u32 %1, %3, %4;" : "=r"(x), "=r"(y) : "0"(g), "1"(g + 1), "r"(7));
        o[g] = x + y;""",
    "a comment": r'asm("// ld.global \"x\" \\ %% [\n add.u32 %0, %0, 1; /* bar.sync */" : "+r"(o[g]));',
    "one of two constraints": 'asm("add.u32 %0, %0, %1;" : "+r"(o[g]) : "ri"(5));',
    "an id as an operand": 'asm("add.u32 %0, %1, 1;" : "=r"(o[g]) : "r"((int)get_global_id(0)));',
}  # fmt: skip
MORE = {
    'asm("ld.global.u32 %0, [%1];" : "=r"(o[g]) : "l"(o));': "an operand that is a pointer",
    'asm("ld.shared.u32 %0, [%1];" : "=r"(o[g]) : "r"(l));': "an operand that is a pointer",
    'asm("ld.local.u32 %0, [%1];" : "=r"(o[g]) : "l"(&g));': "an operand that is a pointer",
    'asm volatile("red.global.add.u32 [%0], 1;" :: "l"((ulong)o));': "'red.global.add.u32'",
    'asm volatile("{ .reg .u32 t; mov.u32 t, %%laneid; }" ::: "memory");': "clobbers 'memory'",
    'asm volatile("bar.sync 0;");': "the inline assembly 'bar.sync'",
    'asm volatile("membar.gl;");': "the inline assembly 'membar.gl'",
    'asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, -1;" : "=r"(o[g]) : "r"(g));': "'shfl.sync.idx.b32'",
    'asm volatile("vote.sync.ballot.b32 %0, 1, -1;" : "=r"(o[g]));': "'vote.sync.ballot.b32'",
    'asm("{ bra done; done: }");': "the inline assembly 'bra'",
    'asm("exit;");': "the inline assembly 'exit'",
    'asm("mov.u32 %0, %%clock;" : "=r"(o[g]));': "'%clock' in inline assembly",
    'asm("mov.u64 %0, %%globaltimer;" : "=l"(q[g]));': "'%globaltimer' in inline assembly",
    'asm("mov.u32 %0, %%smid;" : "=r"(o[g]));': "'%smid' in inline assembly",
    'asm("mov.u32 %0, %%ctaid.x;" : "=r"(o[g]));': "'%ctaid' in inline assembly",
    'asm("mov.u32 %0, %%nctaid.y;" : "=r"(o[g]));': "'%nctaid' in inline assembly",
}


THROUGH_PARAMETERS = """
uint look_up(uint a, const uint table);
uint twice(uint a, const uint table) { return look_up(a, table + 1) + get_global_id(0); }
uint look_up(uint a, const uint table) {
  asm("lop3.b32 %0, %0, %0, %0, %1;" : "+r"(a) : "i"(table));
  return a;
}
#define AND 0x80
kernel void k(global uint *o) { o[0] = look_up(o[1], AND | 1) + twice(o[2], 3); }
"""
"""Constants that a function is given: compilers that put it in its caller's place know them."""


@pytest.mark.parametrize(
    "source",
    [
        *(kernel("".join(f"\n{{ {body} }}" for body in bodies)) for bodies in (COMPUTES.values(), MORE)),
        THROUGH_PARAMETERS,
    ],
    ids=["computes", "does more", "constants through parameters"],
)
def test_it_compiles_for_cuda(source: str) -> None:
    compiled = compile_source(source, "")
    program = translate(compiled.text, compiled.member_options)
    try:
        version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    assert compile_text(program.text, nvrtc_options(compiled.member_options, program.contracts), H100)


@pytest.mark.parametrize("name", COMPUTES)
def test_assembly_that_computes_touches_its_operands_alone(name: str) -> None:
    compiled = compile_source(kernel(COMPUTES[name]), "")
    (found,) = compiled.kernels
    assert found.why_whole == ""
    touched = {a.name: a.reads + 2 * a.writes for a in found.arguments}
    assert touched["l"] == 0 and all(touched[n] == 0 for n in "ofq" if f"{n}[" not in COMPUTES[name])


@pytest.mark.parametrize("body", MORE)
def test_assembly_that_does_more_keeps_a_kernel_whole(body: str) -> None:
    compiled = compile_source(kernel("\n" + body), "")
    (found,) = compiled.kernels
    assert found.why_whole.startswith("line 4: uses ") and MORE[body] in found.why_whole
    assert all(a.reads and a.writes for a in found.arguments if a.name != "l")


def test_outputs_in_memory_are_stores_of_their_size() -> None:
    (found,) = compile_source(kernel('asm("add.u16 %0, %0, 1;" : "+h"(((global short *)o)[g]));'), "").kernels
    o = found.arguments[0]
    assert (o.reads, o.writes, o.unit_nbytes) == (True, True, 2)


def precision_of(body: str) -> tuple[Precision, list[tuple[int, int]]]:
    """What the second of two groups of eight writes to ``o``."""
    compiled = compile_source(kernel(body), "")
    (function,) = [f for f in compiled.tree.functions.values() if f.name == "k"]
    bound = analyse(compiled.tree, function).bind(
        NDRange(1, (0, 0, 0), (16, 1, 1), (8, 1, 1)), (None,) * 4, (64, 64, None, 128)
    )
    found = bound.over(GroupBox((1, 0, 0), (2, 1, 1)))[0]
    return found.precision, [(r.start, r.stop) for r in found.writes.runs()]


ADD = 'asm("add.u32 %0, %0, 1;" : "+r"(g));'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int x = 0; " + ADD.replace("(g)", "(x)") + " o[g] = x;", Precision.EXACT),
        ('asm("mov.u32 %0, %1;" : "=r"(o[g]) : "r"(g));', Precision.EXACT),
        (ADD + " o[g] = 1;", Precision.MAY),
        ("int h = g; for (int i = 0; i < 2; i++) { o[g] = h; " + ADD + " }", Precision.MAY),
        ("int x; asm(\"mov.u32 %0, %%tid.x;\" : \"=r\"(x)); if (x) o[g] = 1;", Precision.MAY),
        ("int2 v = (int2)(g); " + ADD.replace("(g)", "(v.y)") + " o[v.y] = 1;", Precision.MAY),
        ("int2 v = (int2)(g); " + ADD.replace("(g)", "(v.y)") + " o[v.x] = 1;", Precision.EXACT),
    ],
)  # fmt: skip
def test_what_assembly_computes_is_not_known(body: str, expected: Precision) -> None:
    precision, ranges = precision_of(body)
    if expected is Precision.EXACT:
        assert (precision, ranges) == (expected, [(32, 64)])
    else:
        assert precision is not Precision.EXACT
        assert ranges[-1][1] == 64


def test_pointers_to_local_memory_count_from_its_begin() -> None:
    program = translate(kernel('asm("ld.shared.u32 %0, [%1];" : "=r"(o[g]) : "l"(l));'), ())
    assert "unsigned long _cl_a1 = (unsigned long)__cvta_generic_to_shared(l);" in program.text


def test_shared_registers_are_one_operand() -> None:
    body = 'int x; asm("add.u32 %0, %1, %2;" : "=r"(x) : "0"(g), "r"(5)); o[g] = x;'
    written = re.sub(r"\s+", " ", translate(kernel(body), ()).text)
    assert 'asm ("add.u32 %0, %0, %1;" : "+r"(_cl_a0) : "r"(5));' in written


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (kernel('\nasm goto("bra %l0;" :::: out); out: ;'), "<kernel>:4: error: this inline assembly"),
        (kernel('\nasm("add%=.u32 %0, %0, 1;" : "+r"(g));'), "<kernel>:4: error: this operand in the text"),
        (kernel('\nasm("" :: "m"(g));'), "<kernel>:4: error: the constraint 'm'"),
        (kernel("", 'asm(".global .u32 x;");'), "asm(\".global .u32 x;\")': not supported"),
    ],
)  # fmt: skip
def test_what_cuda_does_not_have_fails_with_the_line(source: str, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        translate(source, ())
    assert said in caught.value.log


def test_assembly_of_cpus_is_checked_for_cpus_and_keeps_a_kernel_whole() -> None:
    body = '__asm__("movl %1, %%eax" : "=a"(g) : "r"(g) : "ebx", "cc"); o[g] = g;'
    (found,) = compile_source(kernel(body), "", language=CPU).kernels
    assert found.why_whole == "line 3: uses inline assembly"
    with pytest.raises(BuildError, match="'=a' in asm"):
        compile_source(kernel(body), "")
    with pytest.raises(BuildError, match="'=h' in asm"):
        compile_source(kernel('__asm__("mov %1, %0" : "=h"(o[g]) : "r"(g));'), "", language=CPU)


def test_text_that_only_looks_like_ptx_is_not_believed_on_a_cpu() -> None:
    (found,) = compile_source(kernel(COMPUTES["three operands"]), "", language=CPU).kernels
    assert found.why_whole == "line 3: uses inline assembly"


ON_A_CPU = (
    """
import sys
import numpy as np
import pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
source = """
    + repr(
        kernel(
            'int x; __asm__("movl %1, %%eax; leal 3(%%eax), %0" : "=r"(x) : "r"(g) : "eax", "cc");'
            '__asm__ volatile("addl $1, (%0)" :: "r"(o + g) : "memory"); o[g] += x;'
        )
    )
    + """
kernel = cl.Kernel(cl.Program(context, source).build(["-w"]), "k")
values = np.arange(256, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
kernel(queue, (256,), (8,), buffer, buffer, cl.LocalMemory(4), buffer)
cl.enqueue_copy(queue, values, buffer)
assert (values == 2 * np.arange(256) + 4).all(), values
"""
)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="assembly of another machine")
@pytest.mark.parametrize("members", [0, 1, 3], ids=["plain", "N1", "N3"])
def test_assembly_of_cpus_runs_as_on_the_plain_driver(members: int, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    always = {"SDI_SPLIT": "always", "SDI_STATS": str(stats)}
    environ = image_environ(members, **always) if members else plain_environ()
    ended = run([sys.executable, "-W", "ignore", "-c", ON_A_CPU], environ, 100.0)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    if members > 1:
        why = json.loads(stats.read_text())["kernels"]["k"]["why_whole"]
        assert why.endswith("uses inline assembly")
