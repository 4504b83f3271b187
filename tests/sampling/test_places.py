"""However a program reads or writes memory, the front end and the access maps see that it does."""

from __future__ import annotations

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.model import Argument, CompiledProgram
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling.model import AccessRange

DECLARED = """
typedef float4 V;
typedef struct {
    float4 v; int n; float w[4]; float4 u[2]; union { int i; float f; } q;
} S;
typedef struct { global float4 *p; global S *s; global float *f; } SS;
float g4(global float4 *x) { return x->y; }
float gs(global S *x) { return x->u->y; }
void w4(global float4 *x) { x->y = 1; }
void ws(global S *x) { x->u->y = 1; }
"""
KERNEL = """
kernel void k%d(global void *a, global float *out, int i, local float4 *l) {
    global float4 *p = a; global S *s = a; global float *f = a; global float4 *pp = p + 1;
    global float4 *q2[2] = { p, p }; SS ss = { p, s, f };
    %s;
}
"""
READS = """
p->x
p->s0
p->xyzw.y
p->lo.x
p->hi.even
(*p).x
p[0].x
(p+1)->x
(&p[1])->x
(&*p)->x
p++->x
(++p)->x
(i?p:p+1)->x
(p)->x
((global V*)p)->w
((global float4*)f)->z
((global float8*)p)->s7
((global float3*)p)->z
f[1]
1[f]
*f
*(f+1)
*&f[1]
(&f[1])[0]
f[i++]
s->v.x
s->u->x
s->u[1].x
s->w[1]
*s->w
*(s->w+1)
(s->w)[2]
s[1].q.f
s->q.i
(*s).v.y
s->v.lo.x
(&s->v)->x
(&s->u[1])->y
(&s->v)[0].x
(s->u+1)->z
((global float*)s)[3]
as_int(p->x)
as_float4(*p).x
convert_int(p->x)
(int)p->x
-p->x
!p->x
p->x+1
i?p->x:0
(0,p->x)
fabs(p->x)
max(p->x,1.f)
dot(*p,(float4)1)
dot(p->xy,(float2)1)
((float4)(p->x,1,2,3)).x
((float2){p->x,1}).x
((float[2]){p->x,1})[0]
((S){.n=1,.v=*p}).v.x
vload4(0,f).x
vload2(0,f+1).y
vload_half(0,(global half*)f)
select(p->x,1.f,i)
shuffle(*p,(uint4)(0)).x
__builtin_shufflevector(*p,*p,0,1,2,3).x
__builtin_convertvector(*p,int4).x
__builtin_astype(f[0],int)
({ p->x; })
({ float t=f[1]; t; })
_Generic(i, int: f[1], default: 0)
__builtin_choose_expr(1, f[1], 0)
__builtin_expect(f[1]>0,1)
__builtin_fabsf(f[1])
__builtin_nontemporal_load(f)
any(isnan(*p))
(*(global int*)f)
(*(global float(*)[4])f)[1]
((global float(*)[4])f)[1][2]
((global float4(*)[4])f)[1]->x
((global float4(*)[4])f)[1][2].x
(**(global float(*)[4])f)
(float)(*(global uchar4*)f).x
((global uchar4*)f)->w
((global struct {float4 a;}*)f)->a.x
((global struct {float4 a[2];}*)f)->a->x
((global struct {float a[2];}*)f)->a[1]
((global union {float4 a; float b[4];}*)f)->b[1]
((global union {float4 a; float b[4];}*)f)->a.z
(p->x += 1)
p->x++
--p->y
f[1]++
(p->xy *= 2).x
s->n++
fmin(*f, p->y)
sizeof(p->x)+p->y
(p+(int)f[1])->x
p[(int)f[1]].x
p->yx.x
p->rgba.x
p->r
p->odd.x
(p->lo).lo
(*p).lo.hi
(*(p+1))[2]
p[1][2]
(*p)[i]
((global double2*)p)->x
((global int2*)p)->y
g4(p)
g4(&p[1])
gs(s)
((const global float4*)p)->x
((volatile global float4*)p)->x
pp->x
q2[0]->x
(*q2)->x
ss.p->x
ss.s->v.x
(&ss)->p->x
(&ss)->s->u->x
((SS*)&ss)->f[1]
"""
WRITES = """
p->x = 1
p->xy = (float2)(1)
p->lo.x = 1
p->lo = (float2)1
p->s0 += 1
p->x++
++p->x
(*p).x = 1
(*p).xy = 1
p[1].x = 1
p[1][2] = 1
(*p)[2] = 1
(p+1)->w = 1
p++->x = 1
(i?p:p+1)->x = 1
(i?p:pp)->x = 1
s->v.x = 1
s->u->x = 1
s->u[1].x = 1
s->w[1] = 1
*s->w = 1
*(s->w+1) = 1
s->q.i = 1
s->v = *p
*s = s[1]
s->u[0] = s->u[1]
(&s->v)->x = 1
(&s->u[1])->y = 1
((global float*)s)[3] = 1
1[f] = 2
*f = 1
*&f[1] = 1
(*(global float(*)[4])f)[1] = 1
((global float(*)[4])f)[1][2] = 1
((global float4(*)[4])f)[1]->x = 1
((global union {float4 a; float b[4];}*)f)->b[1] = 1
((global union {float4 a; float b[4];}*)f)->a.z = 1
ss.p->x = 1
ss.s->v.x = 1
(&ss)->p->x = 1
(&ss)->s->u->x = 1
q2[0]->x = 1
(*q2)->x = 1
w4(p)
w4(&p[1])
ws(s)
vstore4(*p,0,f)
vstore2((float2)1,0,f+1)
vstore_half(1.f,0,(global half*)f)
fract(1.5f,f)
modf(1.5f,f+1)
sincos(*p,p+1)
frexp(1.f,(global int*)f)
frexp(*p,(global int4*)f)
remquo(1.f,2.f,(global int*)f)
lgamma_r(1.f,(global int*)f)
fract(1.5f,&s->w[1])
atomic_xchg(f,1.f)
p->x = p->y = 1
(p->x = 1, p->y = 2)
out[0] = (p->x = 1)
out[0] = i ? (p->x = 1) : 0
if (i) p->x = 1
for (int j=0;j<3;j++) p->x = j
for (int j=0;j<3;p->x=j,j++) ;
while (i-- > 0) p[i].x = 1
do { p->x = 1; } while (0)
switch (i) { case 1: p->x = 1; }
float4 t = (p->x = 1, *p)
int z = (f[1] = 3) > 2
__builtin_nontemporal_store(1.f, f)
{ global float *r = s->w; r[1] = 1; }
{ global float4 **r = q2; r[1]->x = 1; }
{ SS *r = &ss; r->p->x = 1; }
{ SS r = ss; r.p->x = 1; }
{ struct { SS a; } r = { ss }; r.a.p->x = 1; }
{ SS r[2] = { ss, ss }; r[i].p->x = 1; }
({ p->x = 1; })
async_work_group_copy(p, l, 4, 0)
async_work_group_strided_copy(p, l, 4, 2, 0)
*((global float*)p + 2) = 1
((global char*)p)[3] = 1
(*(global char16*)p).s3 = 1
((global char16*)p)->s3 = 1
((global short8*)p)->lo.lo.x = 1
"""
READS_OF = READS.split("\n")[1:-1]
WRITES_OF = WRITES.split("\n")[1:-1]
NBYTES = 4096


@pytest.fixture(scope="module")
def compiled() -> CompiledProgram:
    """A kernel for each."""
    statements = [f"out[get_global_id(0)] = {each}" for each in READS_OF] + WRITES_OF
    kernels = "".join(KERNEL % each for each in enumerate(statements))
    return compile_source(DECLARED + kernels, "-cl-std=CL1.2")


def first_argument(compiled: CompiledProgram, number: int) -> tuple[Argument, AccessRange]:
    """What the front end and the access maps say of the argument to which all pointers lead."""
    model = compiled.kernels[number]
    assert model.name == f"k{number}"
    ndrange = NDRange(1, (0, 0, 0), (128, 1, 1), (16, 1, 1))
    nbytes = tuple(NBYTES if each.nbytes else None for each in model.arguments)
    bound = access_of(compiled, model).bind(ndrange, (None, None, b"\1\0\0\0", None), nbytes)
    return model.arguments[0], bound.over(GroupBox((4, 0, 0), (8, 1, 1)))[0]


@pytest.mark.parametrize("number", range(len(READS_OF)), ids=READS_OF)
def test_reads_are_seen(compiled: CompiledProgram, number: int) -> None:
    model, access = first_argument(compiled, number)
    assert model.reads
    assert access.reads or access.reads_whole


@pytest.mark.parametrize("number", range(len(WRITES_OF)), ids=WRITES_OF)
def test_writes_are_seen(compiled: CompiledProgram, number: int) -> None:
    model, access = first_argument(compiled, len(READS_OF) + number)
    assert model.writes
    assert access.writes


def test_components_by_arrows_are_where_the_vector_is() -> None:
    source = """
    kernel void k(global const float4 *in, global float *out, local float4 *l, global float4 *w) {
        float4 v = in[get_global_id(0)], *pv = &v;
        pv->x = 3; l->lo.x = 2; w
#line 70
        ->y = 1; out[get_global_id(0)] = v.x;
    }
    kernel void waits(volatile global int4 *p) { while (p->x++ < 5); }"""
    kernel, waits = compile_source(source, "").kernels
    assert kernel.arguments[3].writes
    assert [(each.reads, each.writes) for each in kernel.arguments[:2]] == [(True, False), (False, True)]
    assert not kernel.why_whole and waits.why_whole
