"""Wall time of two iterated kernels on the first OpenCL device: n-body and a Jacobi stencil.

An ordinary OpenCL program: run it on a plain driver and on the image (``sdi run -n N --split always``), and
compare.  Prints one line for each: kernel, size, iterations, milliseconds per iteration, checksum.
"""

from __future__ import annotations

import hashlib
import sys
import time

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void nbody(__global const float4 *in, __global float4 *out, int n)
{
    int i = get_global_id(0);
    float4 me = in[i];
    float3 force = (float3)(0.0f, 0.0f, 0.0f);
    for (int j = 0; j < n; j++) {
        float4 other = in[j];
        float3 d = other.xyz - me.xyz;
        float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + 0.01f);
        force += d * (other.w * r * r * r);
    }
    out[i] = (float4)(me.x + 0.001f * force.x, me.y + 0.001f * force.y, me.z + 0.001f * force.z, me.w);
}

__kernel void jacobi(__global const float *in, __global float *out, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1]
                                  + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
"""


def main(scale: int) -> None:
    """Measure both; sizes are divided by ``scale``."""
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    print(device.name)
    noise = np.random.default_rng(5)
    bodies, side = 262144 // scale, 16384 // scale
    cases = [
        ("nbody", noise.random((bodies, 4), np.float32), bodies, (bodies,), (256,), 6),
        ("jacobi", noise.random((side, side), np.float32), side, (side, side), (64, 4), 200),
    ]
    for name, data, size, global_size, local_size, iterations in cases:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        a, b = (cl.Buffer(context, flags, hostbuf=data) for _ in range(2))
        kernel = cl.Kernel(program, name)

        def iterate(times: int) -> None:
            for k in range(times):
                source, target = (a, b) if k % 2 == 0 else (b, a)  # noqa: B023
                kernel.set_args(source, target, np.int32(size))  # noqa: B023
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)  # noqa: B023
            queue.finish()

        iterate(2)
        start = time.perf_counter()
        iterate(iterations)
        seconds = time.perf_counter() - start
        out = np.empty_like(data)
        cl.enqueue_copy(queue, out, a)
        digest = hashlib.sha256(out.tobytes()).hexdigest()[:12]
        print(
            f"{name:7} {size:7} {iterations:4} iterations {seconds / iterations * 1e3:9.3f} ms each  {digest}"
        )
        a.release()
        b.release()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
