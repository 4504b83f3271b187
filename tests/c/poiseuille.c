/* A flow between two walls (lattice Boltzmann, D2Q9, one relaxation time, a force along the walls) whose arrays are
 * memory of this program, given as host pointers: nothing is ever mapped, read or written through the API.  Prints the
 * greatest error against the parabola, and a checksum of all bytes. */
#include "opencl_check.h"

#include <math.h>

enum { WIDTH = 64, HEIGHT = 16, CELLS = WIDTH * HEIGHT, STEPS = 1200, LOOK_EVERY = 100 };
static const float OMEGA = 1.2f, FORCE = 1e-5f;

static const char *source =
    "__constant int CX[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, CY[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};\n"
    "__constant int BACK[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};\n"
    "__constant float WEIGHT[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};\n"
    "__kernel void po_step(__global const float *from, __global float *to, __global float *speed,\n"
    "                      __global const float *force, float omega)\n"
    "{\n"
    "    int x = get_global_id(0), y = get_global_id(1), w = get_global_size(0), h = get_global_size(1);\n"
    "    float f[9], density = 0, ux = 0, uy = 0;\n"
    "    for (int k = 0; k < 9; k++) {\n"
    "        int sx = (x - CX[k] + w) % w, sy = y - CY[k];\n"
    "        f[k] = sy < 0 || sy >= h ? from[BACK[k] * w * h + y * w + x] : from[k * w * h + sy * w + sx];\n"
    "        density += f[k];\n"
    "        ux += CX[k] * f[k];\n"
    "        uy += CY[k] * f[k];\n"
    "    }\n"
    "    float push = force[y];\n"
    "    ux = (ux + push / 2) / density;\n"
    "    uy /= density;\n"
    "    for (int k = 0; k < 9; k++) {\n"
    "        float along = CX[k] * ux + CY[k] * uy;\n"
    "        float calm = WEIGHT[k] * density * (1 + 3 * along + 4.5f * along * along - 1.5f * (ux * ux + uy * uy));\n"
    "        float pushed = (1 - omega / 2) * WEIGHT[k] * (3 * (CX[k] - ux) + 9 * along * CX[k]) * push;\n"
    "        to[k * w * h + y * w + x] = f[k] + omega * (calm - f[k]) + pushed;\n"
    "    }\n"
    "    speed[y * w + x] = ux;\n"
    "}\n";

static void *pages(size_t nbytes)
{
    void *made = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
    REQUIRE(made != NULL, "%s", "no memory");
    memset(made, 0, nbytes);
    return made;
}

static cl_mem over(cl_context context, void *memory, size_t nbytes)
{
    cl_int status;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, nbytes, memory, &status);
    CHECK(status);
    return made;
}

static double error_of(const float *speed)
{
    double nu = (1 / (double)OMEGA - 0.5) / 3, worst = 0, top = 0;
    for (int y = 0; y < HEIGHT; y++) {
        double exact = FORCE / (2 * nu) * (y + 0.5) * (HEIGHT - y - 0.5);
        top = fmax(top, exact);
        for (int x = 0; x < WIDTH; x++)
            worst = fmax(worst, fabs(speed[y * WIDTH + x] - exact));
    }
    return worst / top;
}

int main(void)
{
    static const float weights[9] = {4.f / 9,  1.f / 9,  1.f / 9,  1.f / 9, 1.f / 9,
                                     1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
    const size_t global[2] = {WIDTH, HEIGHT}, local[2] = {16, 2}, nbytes = 9 * CELLS * sizeof(float);
    cl_int status;
    cl_device_id device = first_device();
    cl_device_type type;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    if (!(type & CL_DEVICE_TYPE_CPU)) {
        printf("no CPU\n");
        return 0;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    cl_kernel kernel = clCreateKernel(built_program(context, device, source), "po_step", &status);
    CHECK(status);
    float *cells[2] = {pages(nbytes), pages(nbytes)}, *speed = pages(CELLS * sizeof *speed);
    float *force = pages(HEIGHT * sizeof *force);
    cl_mem buffers[2] = {over(context, cells[0], nbytes), over(context, cells[1], nbytes)};
    cl_mem speeds = over(context, speed, CELLS * sizeof *speed), forces = over(context, force, HEIGHT * sizeof *force);
    for (int k = 0; k < 9; k++) /* after the buffers were made */
        for (int i = 0; i < CELLS; i++)
            cells[0][k * CELLS + i] = weights[k];
    CHECK(clSetKernelArg(kernel, 2, sizeof speeds, &speeds));
    CHECK(clSetKernelArg(kernel, 3, sizeof forces, &forces));
    CHECK(clSetKernelArg(kernel, 4, sizeof OMEGA, &OMEGA));
    for (int step = 0; step < STEPS; step++) {
        if (step % LOOK_EVERY == 0) {
            CHECK(clFinish(queue));
            for (int y = 0; y < HEIGHT; y++) /* it grows at first */
                force[y] = step < LOOK_EVERY * 4 ? FORCE * (float)(step + LOOK_EVERY) / (LOOK_EVERY * 4) : FORCE;
            if (step)
                printf("step %d error %.17g\n", step, error_of(speed));
        }
        CHECK(clSetKernelArg(kernel, 0, sizeof *buffers, &buffers[step % 2]));
        CHECK(clSetKernelArg(kernel, 1, sizeof *buffers, &buffers[1 - step % 2]));
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL));
    }
    CHECK(clFinish(queue));
    unsigned long long sum = 0;
    for (int i = 0; i < 9 * CELLS; i++) {
        unsigned bits;
        memcpy(&bits, &cells[STEPS % 2][i], sizeof bits);
        sum = sum * 1099511628211ull + bits;
    }
    printf("error %.17g\nchecksum %016llx\n", error_of(speed), sum);
    return 0;
}
