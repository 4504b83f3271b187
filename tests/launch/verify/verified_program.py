"""Doubles an array on the image with a kernel that prints once, and says what each call answered.

With a number: so many times, more of it each time, and nothing is waited for between.
"""

import sys

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void twice(__global float *out, __global const float *in)
{
    size_t i = get_global_id(0);
    out[i] = in[i] * 2;
    if (i == 5)
        printf("printed by item %d\\n", (int)i);
}
"""
ITEMS = 4096


def answer(call: object) -> str:
    try:
        call()
    except cl.Error as error:
        return cl.status_code.to_string(error.code)
    return "SUCCESS"


context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
kernel = cl.Program(context, SOURCE).build().twice
numbers = np.arange(ITEMS, dtype=np.float32)
given = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=numbers)
taken = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, numbers.nbytes)
times = int(sys.argv[1]) if sys.argv[1:] else 1
for number in range(1, times + 1):
    event = kernel(queue, (ITEMS * number // times,), (64,), taken, given)
result = np.zeros_like(numbers)
said = {
    "read": answer(lambda: cl.enqueue_copy(queue, result, taken)),
    "wait": answer(event.wait),
    "finish": answer(queue.finish),
    "create": answer(lambda: cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)),
    "right": bool((result == 2 * numbers).all()),
}
# In one piece: what the kernel prints comes from another process.
sys.stdout.write("".join(f"{name} {text}\n" for name, text in said.items()))
