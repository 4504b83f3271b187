/* Bad calls of every entry point, one line each: "name expected got".  Exit status 1 when one is wrong.
 *
 * Where versions 1.2 and 3.0 of the specification differ, both codes are right.  Arguments: "freed" also uses
 * freed handles and handles of the wrong kind, at which a driver may crash; any other names a call to skip. */
#include "opencl_check.h"

#include <stdint.h>

static int calls, wrong;
static char **named;

/* Name a call and up to three codes that are right for it. */
#define BAD(name, call, ...)                                                                                   \
    do {                                                                                                       \
        const cl_int right[] = {__VA_ARGS__};                                                                  \
        if (is_named(name))                                                                                  \
            break;                                                                                             \
        report((name), (call), right, sizeof right / sizeof *right);                                           \
    } while (0)

/* The same for calls that create something: they must return NULL too. */
#define BAD_NEW(name, call, ...)                                                                               \
    do {                                                                                                       \
        const cl_int right[] = {__VA_ARGS__};                                                                  \
        if (is_named(name))                                                                                  \
            break;                                                                                             \
        cl_int code = 12345;                                                                                   \
        cl_int *const status = &code;                                                                          \
        const void *made = (call);                                                                             \
        if (made != NULL && code != CL_SUCCESS)                                                                \
            code = 12346;                                                                                      \
        report((name), code, right, sizeof right / sizeof *right);                                             \
    } while (0)

static int is_named(const char *name)
{
    for (char **one = named; *one != NULL; one++)
        if (strcmp(*one, name) == 0)
            return 1;
    return 0;
}

static void report(const char *name, cl_int got, const cl_int *right, size_t count)
{
    char expected[64] = "";
    int fine = 0;

    for (size_t i = 0; i < count; i++) {
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), i ? "|%d" : "%d", right[i]);
        fine |= got == right[i];
    }
    calls++;
    wrong += !fine;
    printf("%-58s %-12s %d%s\n", name, expected, got, fine ? "" : "   WRONG");
    fflush(stdout);
}

static const char *source = "__kernel void er_all(__global int *a, int v, __local int *t, __constant int *c)\n"
                            "{\n"
                            "    t[get_local_id(0)] = v + c[0];\n"
                            "    a[get_global_id(0)] = t[get_local_id(0)];\n"
                            "}\n"
                            "__kernel __attribute__((reqd_work_group_size(8, 1, 1)))\n"
                            "void er_sized(__global int *a) { a[get_global_id(0)] += 1; }\n"
                            "typedef struct { int x, y, z; } three_t;\n"
                            "__kernel void er_struct(three_t s, double d, char4 v) { }\n";

static const char *broken = "// A comment.\n"
                            "__kernel void er_broken(__global int *a)\n"
                            "{\n"
                            "    a[0] = 1 +;\n"
                            "}\n";

enum { SIZE = 1024 };

static cl_platform_id platform;
static cl_device_id device;
static cl_context context, stranger;
static cl_command_queue queue, strange_queue;
static cl_program program, unbuilt;
static cl_kernel kernel, sized, structs, strange_kernel;
static cl_mem buffer, other, strange_buffer, read_only, write_only, hidden;
static cl_event done, user, strange_event;
static const size_t global = 64, local = 8;
static char host[2 * SIZE];
static cl_uint count;
static size_t length;

static void CL_CALLBACK notify(cl_event event, cl_int status, void *data)
{
    (void)event, (void)status, (void)data;
}

static void CL_CALLBACK gone(cl_mem object, void *data)
{
    (void)object, (void)data;
}

static void prepare(void)
{
    cl_int status;
    const cl_int value = 3;

    platform = first_platform();
    device = first_device();
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    stranger = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    strange_queue = clCreateCommandQueue(stranger, device, 0, &status);
    CHECK(status);
    program = built_program(context, device, source);
    unbuilt = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    CHECK(status);
    kernel = clCreateKernel(program, "er_all", &status);
    CHECK(status);
    sized = clCreateKernel(program, "er_sized", &status);
    CHECK(status);
    structs = clCreateKernel(program, "er_struct", &status);
    CHECK(status);
    strange_kernel = clCreateKernel(built_program(stranger, device, source), "er_sized", &status);
    CHECK(status);
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    CHECK(status);
    other = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    CHECK(status);
    strange_buffer = clCreateBuffer(stranger, CL_MEM_READ_WRITE, SIZE, NULL, &status);
    CHECK(status);
    read_only = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY, SIZE, NULL, &status);
    CHECK(status);
    write_only = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_HOST_WRITE_ONLY, SIZE, NULL, &status);
    CHECK(status);
    hidden = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, SIZE, NULL, &status);
    CHECK(status);
    user = clCreateUserEvent(context, &status);
    CHECK(status);
    strange_event = clCreateUserEvent(stranger, &status);
    CHECK(status);
    CHECK(clSetUserEventStatus(strange_event, CL_COMPLETE));
    CHECK(clSetKernelArg(sized, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(strange_kernel, 0, sizeof strange_buffer, &strange_buffer));
    CHECK(clEnqueueFillBuffer(queue, buffer, &value, sizeof value, 0, SIZE, 0, NULL, &done));
    CHECK(clEnqueueFillBuffer(queue, other, &value, sizeof value, 0, SIZE, 0, NULL, NULL));
    CHECK(clFinish(queue));
}

static void platforms_and_devices(void)
{
    cl_device_id found;

    BAD("GetPlatformIDs: nothing to fill", clGetPlatformIDs(1, NULL, NULL), CL_INVALID_VALUE);
    BAD("GetPlatformIDs: no room", clGetPlatformIDs(0, &platform, NULL), CL_INVALID_VALUE);
    BAD("GetPlatformInfo: unknown", clGetPlatformInfo(platform, 0xDEAD, 0, NULL, NULL), CL_INVALID_VALUE);
    BAD("GetPlatformInfo: short", clGetPlatformInfo(platform, CL_PLATFORM_NAME, 1, host, NULL), CL_INVALID_VALUE);
    BAD("GetDeviceIDs: type 0", clGetDeviceIDs(platform, 0, 1, &found, NULL), CL_INVALID_DEVICE_TYPE);
    BAD("GetDeviceIDs: type 2^40", clGetDeviceIDs(platform, 1ul << 40, 1, &found, NULL), CL_INVALID_DEVICE_TYPE);
    BAD("GetDeviceIDs: no room", clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, &found, NULL), CL_INVALID_VALUE);
    BAD("GetDeviceIDs: nothing to fill", clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, NULL, NULL),
        CL_INVALID_VALUE);
    BAD("GetDeviceIDs: custom", clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, &found, NULL),
        CL_DEVICE_NOT_FOUND);
    BAD("GetDeviceInfo: NULL", clGetDeviceInfo(NULL, CL_DEVICE_NAME, sizeof host, host, NULL), CL_INVALID_DEVICE);
    BAD("GetDeviceInfo: unknown", clGetDeviceInfo(device, 0xDEAD, sizeof host, host, NULL), CL_INVALID_VALUE);
    BAD("GetDeviceInfo: short", clGetDeviceInfo(device, CL_DEVICE_NAME, 1, host, NULL), CL_INVALID_VALUE);
}

static void contexts_and_queues(void)
{
    const cl_device_id with_null[2] = {device, NULL};
    const cl_context_properties unknown[] = {0xDEAD, 1, 0};
    const cl_context_properties no_platform[] = {CL_CONTEXT_PLATFORM, 0, 0};
    const cl_context_properties fine[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    const cl_queue_properties bad_bits[] = {CL_QUEUE_PROPERTIES, 1 << 20, 0};
    const cl_queue_properties bad_name[] = {0xDEAD, 0, 0};

    BAD_NEW("CreateContext: no devices", clCreateContext(fine, 0, NULL, NULL, NULL, status), CL_INVALID_VALUE);
    BAD_NEW("CreateContext: devices NULL", clCreateContext(fine, 1, NULL, NULL, NULL, status), CL_INVALID_VALUE);
    BAD_NEW("CreateContext: 0 devices of a list", clCreateContext(fine, 0, &device, NULL, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateContext: a device is NULL", clCreateContext(fine, 2, with_null, NULL, NULL, status),
            CL_INVALID_DEVICE);
    BAD_NEW("CreateContext: unknown property", clCreateContext(unknown, 1, &device, NULL, NULL, status),
            CL_INVALID_PROPERTY);
    BAD_NEW("CreateContext: platform NULL", clCreateContext(no_platform, 1, &device, NULL, NULL, status),
            CL_INVALID_PLATFORM);
    BAD_NEW("CreateContext: data without callback", clCreateContext(fine, 1, &device, NULL, host, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateContextFromType: none", clCreateContextFromType(fine, CL_DEVICE_TYPE_CUSTOM, NULL, NULL, status),
            CL_DEVICE_NOT_FOUND);
    BAD_NEW("CreateContextFromType: type 0", clCreateContextFromType(fine, 0, NULL, NULL, status),
            CL_INVALID_DEVICE_TYPE);
    BAD("GetContextInfo: NULL", clGetContextInfo(NULL, CL_CONTEXT_DEVICES, 0, NULL, &length), CL_INVALID_CONTEXT);
    BAD("GetContextInfo: unknown", clGetContextInfo(context, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetContextInfo: short", clGetContextInfo(context, CL_CONTEXT_DEVICES, 1, host, NULL), CL_INVALID_VALUE);
    BAD("RetainContext: NULL", clRetainContext(NULL), CL_INVALID_CONTEXT);
    BAD("ReleaseContext: NULL", clReleaseContext(NULL), CL_INVALID_CONTEXT);

    BAD_NEW("CreateCommandQueue: NULL", clCreateCommandQueue(NULL, device, 0, status), CL_INVALID_CONTEXT);
    BAD_NEW("CreateCommandQueue: device NULL", clCreateCommandQueue(context, NULL, 0, status), CL_INVALID_DEVICE);
    BAD_NEW("CreateCommandQueue: unknown bits", clCreateCommandQueue(context, device, 1 << 20, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateCommandQueueWithProperties: unknown bits",
            clCreateCommandQueueWithProperties(context, device, bad_bits, status), CL_INVALID_VALUE);
    BAD_NEW("CreateCommandQueueWithProperties: unknown name",
            clCreateCommandQueueWithProperties(context, device, bad_name, status), CL_INVALID_VALUE);
    BAD("GetCommandQueueInfo: NULL", clGetCommandQueueInfo(NULL, CL_QUEUE_CONTEXT, 0, NULL, &length),
        CL_INVALID_COMMAND_QUEUE);
    BAD("GetCommandQueueInfo: unknown", clGetCommandQueueInfo(queue, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetCommandQueueInfo: short", clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, 1, host, NULL),
        CL_INVALID_VALUE);
    BAD("RetainCommandQueue: NULL", clRetainCommandQueue(NULL), CL_INVALID_COMMAND_QUEUE);
    BAD("ReleaseCommandQueue: NULL", clReleaseCommandQueue(NULL), CL_INVALID_COMMAND_QUEUE);
    BAD("Flush: NULL", clFlush(NULL), CL_INVALID_COMMAND_QUEUE);
    BAD("Finish: NULL", clFinish(NULL), CL_INVALID_COMMAND_QUEUE);
}

static void buffers(void)
{
    const cl_mem_flags rw = CL_MEM_READ_WRITE;
    cl_ulong largest = 0;

    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL));
    BAD_NEW("CreateBuffer: NULL", clCreateBuffer(NULL, rw, SIZE, NULL, status), CL_INVALID_CONTEXT);
    BAD_NEW("CreateBuffer: size 0", clCreateBuffer(context, rw, 0, NULL, status), CL_INVALID_BUFFER_SIZE);
    BAD_NEW("CreateBuffer: larger than allowed", clCreateBuffer(context, rw, largest + 1, NULL, status),
            CL_INVALID_BUFFER_SIZE);
    BAD_NEW("CreateBuffer: 2^63 bytes", clCreateBuffer(context, rw, (size_t)1 << 63, NULL, status),
            CL_INVALID_BUFFER_SIZE);
    BAD_NEW("CreateBuffer: two accesses", clCreateBuffer(context, rw | CL_MEM_WRITE_ONLY, SIZE, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateBuffer: unknown flag", clCreateBuffer(context, rw | 1ul << 40, SIZE, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateBuffer: use and allocate",
            clCreateBuffer(context, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, SIZE, host, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateBuffer: use and copy",
            clCreateBuffer(context, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, SIZE, host, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateBuffer: two host accesses",
            clCreateBuffer(context, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS, SIZE, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateBuffer: use NULL", clCreateBuffer(context, CL_MEM_USE_HOST_PTR, SIZE, NULL, status),
            CL_INVALID_HOST_PTR);
    BAD_NEW("CreateBuffer: copy NULL", clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, SIZE, NULL, status),
            CL_INVALID_HOST_PTR);
    BAD_NEW("CreateBuffer: pointer without flag", clCreateBuffer(context, rw, SIZE, host, status),
            CL_INVALID_HOST_PTR);
    BAD_NEW("CreateSubBuffer: NULL",
            clCreateSubBuffer(NULL, 0, CL_BUFFER_CREATE_TYPE_REGION, host, status), CL_INVALID_MEM_OBJECT);
    BAD("RetainMemObject: NULL", clRetainMemObject(NULL), CL_INVALID_MEM_OBJECT);
    BAD("ReleaseMemObject: NULL", clReleaseMemObject(NULL), CL_INVALID_MEM_OBJECT);
    BAD("GetMemObjectInfo: NULL", clGetMemObjectInfo(NULL, CL_MEM_SIZE, 0, NULL, &length), CL_INVALID_MEM_OBJECT);
    BAD("GetMemObjectInfo: unknown", clGetMemObjectInfo(buffer, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetMemObjectInfo: short", clGetMemObjectInfo(buffer, CL_MEM_SIZE, 2, host, NULL), CL_INVALID_VALUE);
    BAD("SetMemObjectDestructorCallback: NULL", clSetMemObjectDestructorCallback(NULL, gone, NULL),
        CL_INVALID_MEM_OBJECT);
    BAD("SetMemObjectDestructorCallback: no function", clSetMemObjectDestructorCallback(buffer, NULL, NULL),
        CL_INVALID_VALUE);
}

static void programs(void)
{
    const char *strings[2] = {source, NULL};
    const unsigned char *garbage = (const unsigned char *)"this is no binary";
    const size_t garbage_size = 17, zero = 0;
    const cl_device_id nothing = NULL;
    cl_int loaded;
    cl_int status_of_new;
    cl_kernel made[4];

    BAD_NEW("CreateProgramWithSource: NULL", clCreateProgramWithSource(NULL, 1, strings, NULL, status),
            CL_INVALID_CONTEXT);
    BAD_NEW("CreateProgramWithSource: 0 strings", clCreateProgramWithSource(context, 0, strings, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateProgramWithSource: strings NULL", clCreateProgramWithSource(context, 1, NULL, NULL, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateProgramWithSource: a string is NULL",
            clCreateProgramWithSource(context, 2, strings, NULL, status), CL_INVALID_VALUE);
    BAD_NEW("CreateProgramWithBinary: garbage",
            clCreateProgramWithBinary(context, 1, &device, &garbage_size, &garbage, &loaded, status),
            CL_INVALID_BINARY);
    BAD_NEW("CreateProgramWithBinary: size 0",
            clCreateProgramWithBinary(context, 1, &device, &zero, &garbage, &loaded, status), CL_INVALID_VALUE);
    BAD_NEW("CreateProgramWithBinary: 0 devices",
            clCreateProgramWithBinary(context, 0, &device, &garbage_size, &garbage, &loaded, status),
            CL_INVALID_VALUE);
    BAD_NEW("CreateProgramWithBinary: NULL",
            clCreateProgramWithBinary(NULL, 1, &device, &garbage_size, &garbage, &loaded, status),
            CL_INVALID_CONTEXT);
    BAD("RetainProgram: NULL", clRetainProgram(NULL), CL_INVALID_PROGRAM);
    BAD("ReleaseProgram: NULL", clReleaseProgram(NULL), CL_INVALID_PROGRAM);
    BAD("BuildProgram: NULL", clBuildProgram(NULL, 1, &device, "", NULL, NULL), CL_INVALID_PROGRAM);
    BAD("BuildProgram: 0 devices of a list", clBuildProgram(unbuilt, 0, &device, "", NULL, NULL),
        CL_INVALID_VALUE);
    BAD("BuildProgram: devices NULL", clBuildProgram(unbuilt, 1, NULL, "", NULL, NULL), CL_INVALID_VALUE);
    BAD("BuildProgram: a device is NULL", clBuildProgram(unbuilt, 1, &nothing, "", NULL, NULL),
        CL_INVALID_DEVICE);
    BAD("BuildProgram: data without callback", clBuildProgram(unbuilt, 1, &device, "", NULL, host),
        CL_INVALID_VALUE);
    BAD("BuildProgram: unknown option", clBuildProgram(unbuilt, 1, &device, "-no-such-option", NULL, NULL),
        CL_INVALID_BUILD_OPTIONS);
    BAD("BuildProgram: has kernels", clBuildProgram(program, 1, &device, "", NULL, NULL), CL_INVALID_OPERATION);
    BAD("GetProgramInfo: NULL", clGetProgramInfo(NULL, CL_PROGRAM_DEVICES, 0, NULL, &length), CL_INVALID_PROGRAM);
    BAD("GetProgramInfo: unknown", clGetProgramInfo(program, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetProgramInfo: short", clGetProgramInfo(program, CL_PROGRAM_SOURCE, 3, host, NULL), CL_INVALID_VALUE);
    BAD("GetProgramBuildInfo: NULL",
        clGetProgramBuildInfo(NULL, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length), CL_INVALID_PROGRAM);
    BAD("GetProgramBuildInfo: device NULL",
        clGetProgramBuildInfo(program, NULL, CL_PROGRAM_BUILD_LOG, 0, NULL, &length), CL_INVALID_DEVICE);
    BAD("GetProgramBuildInfo: unknown", clGetProgramBuildInfo(program, device, 0xDEAD, 0, NULL, &length),
        CL_INVALID_VALUE);
    BAD("GetProgramBuildInfo: short",
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, 1, host, NULL), CL_INVALID_VALUE);

    cl_program fresh = clCreateProgramWithSource(context, 1, &source, NULL, &status_of_new);
    CHECK(status_of_new);
    BAD("GetProgramInfo: kernels before the build",
        clGetProgramInfo(fresh, CL_PROGRAM_NUM_KERNELS, sizeof length, &length, NULL),
        CL_INVALID_PROGRAM_EXECUTABLE);
    BAD_NEW("CreateKernel: before the build", clCreateKernel(fresh, "er_all", status),
            CL_INVALID_PROGRAM_EXECUTABLE);
    BAD("CreateKernelsInProgram: before the build", clCreateKernelsInProgram(fresh, 4, made, &count),
        CL_INVALID_PROGRAM_EXECUTABLE);
    CHECK(clReleaseProgram(fresh));

    cl_program failing = clCreateProgramWithSource(context, 1, &broken, NULL, &status_of_new);
    CHECK(status_of_new);
    BAD("BuildProgram: syntax error", clBuildProgram(failing, 1, &device, "", NULL, NULL),
        CL_BUILD_PROGRAM_FAILURE);
    static char log[1 << 14];
    cl_build_status build = CL_BUILD_NONE;
    CHECK(clGetProgramBuildInfo(failing, device, CL_PROGRAM_BUILD_STATUS, sizeof build, &build, NULL));
    CHECK(clGetProgramBuildInfo(failing, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    BAD("BuildProgram: status after a syntax error", build, CL_BUILD_ERROR);
    for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n"))
        printf("log| %s\n", line);
    BAD_NEW("CreateKernel: after a failed build", clCreateKernel(failing, "er_broken", status),
            CL_INVALID_PROGRAM_EXECUTABLE);
    CHECK(clReleaseProgram(failing));

    BAD_NEW("CreateKernel: NULL", clCreateKernel(NULL, "er_all", status), CL_INVALID_PROGRAM);
    BAD_NEW("CreateKernel: unknown name", clCreateKernel(program, "er_al", status), CL_INVALID_KERNEL_NAME);
    BAD_NEW("CreateKernel: empty name", clCreateKernel(program, "", status), CL_INVALID_KERNEL_NAME);
    BAD_NEW("CreateKernel: no kernel of this name", clCreateKernel(program, "three_t", status),
            CL_INVALID_KERNEL_NAME);
    BAD_NEW("CreateKernel: name NULL", clCreateKernel(program, NULL, status), CL_INVALID_VALUE);
    BAD("CreateKernelsInProgram: NULL", clCreateKernelsInProgram(NULL, 4, made, &count), CL_INVALID_PROGRAM);
    BAD("CreateKernelsInProgram: no room", clCreateKernelsInProgram(program, 1, made, &count), CL_INVALID_VALUE);
}

static void kernels(void)
{
    const cl_int value = 1;
    const double wide = 1;
    const cl_mem none = NULL;

    BAD("SetKernelArg: NULL", clSetKernelArg(NULL, 1, sizeof value, &value), CL_INVALID_KERNEL);
    BAD("SetKernelArg: index 4 of 4", clSetKernelArg(kernel, 4, sizeof value, &value), CL_INVALID_ARG_INDEX);
    BAD("SetKernelArg: index 2^32 - 1", clSetKernelArg(kernel, ~0u, sizeof value, &value), CL_INVALID_ARG_INDEX);
    BAD("SetKernelArg: int of 8 bytes", clSetKernelArg(kernel, 1, sizeof wide, &wide), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: int of 2 bytes", clSetKernelArg(kernel, 1, 2, &value), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: int of 0 bytes", clSetKernelArg(kernel, 1, 0, &value), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: int from NULL", clSetKernelArg(kernel, 1, sizeof value, NULL), CL_INVALID_ARG_VALUE);
    BAD("SetKernelArg: struct of 8 bytes", clSetKernelArg(structs, 0, 8, host), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: double of 4 bytes", clSetKernelArg(structs, 1, 4, &value), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: char4 of 3 bytes", clSetKernelArg(structs, 2, 3, host), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: buffer of 4 bytes", clSetKernelArg(kernel, 0, 4, &buffer), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: local of 0 bytes", clSetKernelArg(kernel, 2, 0, NULL), CL_INVALID_ARG_SIZE);
    BAD("SetKernelArg: local with a value", clSetKernelArg(kernel, 2, 64, &value), CL_INVALID_ARG_VALUE);
    BAD("SetKernelArg: NULL buffer is fine", clSetKernelArg(kernel, 0, sizeof none, &none), CL_SUCCESS);
    BAD("SetKernelArg: NULL for a buffer is fine", clSetKernelArg(kernel, 0, sizeof none, NULL), CL_SUCCESS);
    BAD("RetainKernel: NULL", clRetainKernel(NULL), CL_INVALID_KERNEL);
    BAD("ReleaseKernel: NULL", clReleaseKernel(NULL), CL_INVALID_KERNEL);
    BAD("GetKernelInfo: NULL", clGetKernelInfo(NULL, CL_KERNEL_NUM_ARGS, 0, NULL, &length), CL_INVALID_KERNEL);
    BAD("GetKernelInfo: unknown", clGetKernelInfo(kernel, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetKernelInfo: short", clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 2, host, NULL),
        CL_INVALID_VALUE);
    BAD("GetKernelWorkGroupInfo: NULL",
        clGetKernelWorkGroupInfo(NULL, device, CL_KERNEL_WORK_GROUP_SIZE, 0, NULL, &length), CL_INVALID_KERNEL);
    BAD("GetKernelWorkGroupInfo: unknown", clGetKernelWorkGroupInfo(kernel, device, 0xDEAD, 0, NULL, &length),
        CL_INVALID_VALUE);
    BAD("GetKernelWorkGroupInfo: short",
        clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, 1, host, NULL), CL_INVALID_VALUE);
    BAD("GetKernelArgInfo: NULL", clGetKernelArgInfo(NULL, 0, CL_KERNEL_ARG_NAME, 0, NULL, &length),
        CL_INVALID_KERNEL);
    BAD("GetKernelArgInfo: index", clGetKernelArgInfo(kernel, 4, CL_KERNEL_ARG_NAME, 0, NULL, &length),
        CL_INVALID_ARG_INDEX);
}

#define LAUNCH(q, k, dim, off, g, l) clEnqueueNDRangeKernel(q, k, dim, off, g, l, 0, NULL, NULL)

static void launches(void)
{
    const size_t zero = 0, odd = 5, high = ~(size_t)0 - 3, sizes[3] = {64, 0, 1}, wrong_local = 16;
    const cl_event empty = NULL;
    size_t largest, most[3], too_much;

    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof largest, &largest, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof most, most, NULL));
    too_much = 2 * (largest > most[0] ? largest : most[0]);

    cl_int status_of_new;
    cl_kernel unset = clCreateKernel(program, "er_all", &status_of_new);
    CHECK(status_of_new);
    BAD("EnqueueNDRangeKernel: no arguments set", LAUNCH(queue, unset, 1, NULL, &global, &local),
        CL_INVALID_KERNEL_ARGS);
    CHECK(clSetKernelArg(unset, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(unset, 1, sizeof(cl_int), host));
    CHECK(clSetKernelArg(unset, 3, sizeof other, &other));
    BAD("EnqueueNDRangeKernel: local argument not set", LAUNCH(queue, unset, 1, NULL, &global, &local),
        CL_INVALID_KERNEL_ARGS);
    BAD("EnqueueTask: local argument not set", clEnqueueTask(queue, unset, 0, NULL, NULL), CL_INVALID_KERNEL_ARGS);
    CHECK(clReleaseKernel(unset));

    BAD("EnqueueNDRangeKernel: queue NULL", LAUNCH(NULL, sized, 1, NULL, &global, &local),
        CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueNDRangeKernel: kernel NULL", LAUNCH(queue, NULL, 1, NULL, &global, &local), CL_INVALID_KERNEL);
    BAD("EnqueueNDRangeKernel: another context's kernel", LAUNCH(queue, strange_kernel, 1, NULL, &global, &local),
        CL_INVALID_CONTEXT);
    BAD("EnqueueNDRangeKernel: 0 dimensions", LAUNCH(queue, sized, 0, NULL, &global, &local),
        CL_INVALID_WORK_DIMENSION);
    BAD("EnqueueNDRangeKernel: 4 dimensions", LAUNCH(queue, sized, 4, NULL, &global, &local),
        CL_INVALID_WORK_DIMENSION);
    BAD("EnqueueNDRangeKernel: global NULL", LAUNCH(queue, sized, 1, NULL, NULL, &local),
        CL_INVALID_GLOBAL_WORK_SIZE, CL_SUCCESS);
    BAD("EnqueueNDRangeKernel: global 0", LAUNCH(queue, sized, 1, NULL, &zero, &local),
        CL_INVALID_GLOBAL_WORK_SIZE, CL_SUCCESS);
    BAD("EnqueueNDRangeKernel: global 64 x 0", LAUNCH(queue, kernel, 2, NULL, sizes, NULL),
        CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_KERNEL_ARGS, CL_SUCCESS);
    BAD("EnqueueNDRangeKernel: offset overflows", LAUNCH(queue, sized, 1, &high, &global, &local),
        CL_INVALID_GLOBAL_OFFSET);
    BAD("EnqueueNDRangeKernel: local 0", LAUNCH(queue, sized, 1, NULL, &global, &zero), CL_INVALID_WORK_GROUP_SIZE,
        CL_INVALID_WORK_ITEM_SIZE);
    BAD("EnqueueNDRangeKernel: local 5 of 64", LAUNCH(queue, sized, 1, NULL, &global, &odd),
        CL_INVALID_WORK_GROUP_SIZE);
    BAD("EnqueueNDRangeKernel: local is not what the kernel requires",
        LAUNCH(queue, sized, 1, NULL, &global, &wrong_local), CL_INVALID_WORK_GROUP_SIZE);
    BAD("EnqueueNDRangeKernel: local too large", LAUNCH(queue, sized, 1, NULL, &too_much, &too_much),
        CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE);
    BAD("EnqueueNDRangeKernel: wait list NULL",
        clEnqueueNDRangeKernel(queue, sized, 1, NULL, &global, &local, 1, NULL, NULL), CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueNDRangeKernel: wait list of 0",
        clEnqueueNDRangeKernel(queue, sized, 1, NULL, &global, &local, 0, &done, NULL),
        CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueNDRangeKernel: an event is NULL",
        clEnqueueNDRangeKernel(queue, sized, 1, NULL, &global, &local, 1, &empty, NULL),
        CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueNDRangeKernel: another context's event",
        clEnqueueNDRangeKernel(queue, sized, 1, NULL, &global, &local, 1, &strange_event, NULL),
        CL_INVALID_CONTEXT);
    BAD("EnqueueTask: queue NULL", clEnqueueTask(NULL, sized, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueTask: kernel NULL", clEnqueueTask(queue, NULL, 0, NULL, NULL), CL_INVALID_KERNEL);
    BAD("EnqueueTask: the kernel requires 8 items", clEnqueueTask(queue, sized, 0, NULL, NULL),
        CL_INVALID_WORK_GROUP_SIZE);
    BAD("EnqueueMarkerWithWaitList: NULL", clEnqueueMarkerWithWaitList(NULL, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueMarkerWithWaitList: wait list NULL", clEnqueueMarkerWithWaitList(queue, 1, NULL, NULL),
        CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueMarkerWithWaitList: another context's event",
        clEnqueueMarkerWithWaitList(queue, 1, &strange_event, NULL), CL_INVALID_CONTEXT);
    BAD("EnqueueBarrierWithWaitList: NULL", clEnqueueBarrierWithWaitList(NULL, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueBarrierWithWaitList: wait list NULL", clEnqueueBarrierWithWaitList(queue, 1, NULL, NULL),
        CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueMarker: NULL", clEnqueueMarker(NULL, NULL), CL_INVALID_COMMAND_QUEUE, CL_INVALID_VALUE);
    BAD("EnqueueBarrier: NULL", clEnqueueBarrier(NULL), CL_INVALID_COMMAND_QUEUE);
}

#define READ(q, b, off, n, p) clEnqueueReadBuffer(q, b, CL_TRUE, off, n, p, 0, NULL, NULL)
#define WRITE(q, b, off, n, p) clEnqueueWriteBuffer(q, b, CL_TRUE, off, n, p, 0, NULL, NULL)
#define COPY(q, a, b, from, to, n) clEnqueueCopyBuffer(q, a, b, from, to, n, 0, NULL, NULL)
#define FILL(q, b, size, off, n) clEnqueueFillBuffer(q, b, host, size, off, n, 0, NULL, NULL)
#define MAP(q, b, flags, off, n) clEnqueueMapBuffer(q, b, CL_TRUE, flags, off, n, 0, NULL, NULL, status)

static void transfers(void)
{
    const size_t high = ~(size_t)0;
    const cl_event empty = NULL;

    BAD("EnqueueReadBuffer: queue NULL", READ(NULL, buffer, 0, 4, host), CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueReadBuffer: buffer NULL", READ(queue, NULL, 0, 4, host), CL_INVALID_MEM_OBJECT);
    BAD("EnqueueReadBuffer: another context's buffer", READ(queue, strange_buffer, 0, 4, host),
        CL_INVALID_CONTEXT);
    BAD("EnqueueReadBuffer: past the end", READ(queue, buffer, SIZE - 3, 4, host), CL_INVALID_VALUE);
    BAD("EnqueueReadBuffer: offset past the end", READ(queue, buffer, SIZE + 1, 4, host), CL_INVALID_VALUE);
    BAD("EnqueueReadBuffer: size overflows", READ(queue, buffer, 8, high - 4, host), CL_INVALID_VALUE);
    BAD("EnqueueReadBuffer: offset overflows", READ(queue, buffer, high - 1, 4, host), CL_INVALID_VALUE);
    BAD("EnqueueReadBuffer: size 0", READ(queue, buffer, 0, 0, host), CL_INVALID_VALUE, CL_SUCCESS);
    BAD("EnqueueReadBuffer: pointer NULL", READ(queue, buffer, 0, 4, NULL), CL_INVALID_VALUE);
    BAD("EnqueueReadBuffer: the host may only write", READ(queue, write_only, 0, 4, host), CL_INVALID_OPERATION);
    BAD("EnqueueReadBuffer: the host has no access", READ(queue, hidden, 0, 4, host), CL_INVALID_OPERATION);
    BAD("EnqueueReadBuffer: wait list NULL", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, host, 1, NULL, NULL),
        CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueReadBuffer: an event is NULL",
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, host, 1, &empty, NULL), CL_INVALID_EVENT_WAIT_LIST);
    BAD("EnqueueReadBuffer: another context's event",
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, host, 1, &strange_event, NULL), CL_INVALID_CONTEXT);

    BAD("EnqueueWriteBuffer: queue NULL", WRITE(NULL, buffer, 0, 4, host), CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueWriteBuffer: buffer NULL", WRITE(queue, NULL, 0, 4, host), CL_INVALID_MEM_OBJECT);
    BAD("EnqueueWriteBuffer: another context's buffer", WRITE(queue, strange_buffer, 0, 4, host),
        CL_INVALID_CONTEXT);
    BAD("EnqueueWriteBuffer: past the end", WRITE(queue, buffer, 1, SIZE, host), CL_INVALID_VALUE);
    BAD("EnqueueWriteBuffer: offset overflows", WRITE(queue, buffer, high - 1, 4, host), CL_INVALID_VALUE);
    BAD("EnqueueWriteBuffer: size 0", WRITE(queue, buffer, 0, 0, host), CL_INVALID_VALUE, CL_SUCCESS);
    BAD("EnqueueWriteBuffer: pointer NULL", WRITE(queue, buffer, 0, 4, NULL), CL_INVALID_VALUE);
    BAD("EnqueueWriteBuffer: the host may only read", WRITE(queue, read_only, 0, 4, host), CL_INVALID_OPERATION);
    BAD("EnqueueWriteBuffer: the host has no access", WRITE(queue, hidden, 0, 4, host), CL_INVALID_OPERATION);
    BAD("EnqueueWriteBuffer: wait list of 0",
        clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, 4, host, 0, &done, NULL), CL_INVALID_EVENT_WAIT_LIST);

    BAD("EnqueueCopyBuffer: queue NULL", COPY(NULL, buffer, other, 0, 0, 4), CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueCopyBuffer: source NULL", COPY(queue, NULL, other, 0, 0, 4), CL_INVALID_MEM_OBJECT);
    BAD("EnqueueCopyBuffer: target NULL", COPY(queue, buffer, NULL, 0, 0, 4), CL_INVALID_MEM_OBJECT);
    BAD("EnqueueCopyBuffer: another context's source", COPY(queue, strange_buffer, other, 0, 0, 4),
        CL_INVALID_CONTEXT);
    BAD("EnqueueCopyBuffer: another context's target", COPY(queue, buffer, strange_buffer, 0, 0, 4),
        CL_INVALID_CONTEXT);
    BAD("EnqueueCopyBuffer: past the source's end", COPY(queue, buffer, other, SIZE - 4, 0, 8), CL_INVALID_VALUE);
    BAD("EnqueueCopyBuffer: past the target's end", COPY(queue, buffer, other, 0, SIZE - 4, 8), CL_INVALID_VALUE);
    BAD("EnqueueCopyBuffer: offset overflows", COPY(queue, buffer, other, high, 0, 8), CL_INVALID_VALUE);
    BAD("EnqueueCopyBuffer: size 0", COPY(queue, buffer, other, 0, 0, 0), CL_INVALID_VALUE, CL_SUCCESS);
    BAD("EnqueueCopyBuffer: overlap", COPY(queue, buffer, buffer, 0, 8, 16), CL_MEM_COPY_OVERLAP);
    BAD("EnqueueCopyBuffer: overlap downwards", COPY(queue, buffer, buffer, 8, 0, 16), CL_MEM_COPY_OVERLAP);
    BAD("EnqueueCopyBuffer: onto itself", COPY(queue, buffer, buffer, 8, 8, 16), CL_MEM_COPY_OVERLAP);
    BAD("EnqueueCopyBuffer: side by side is fine", COPY(queue, other, other, 0, 16, 16), CL_SUCCESS);

    BAD("EnqueueFillBuffer: queue NULL", FILL(NULL, buffer, 4, 0, 16), CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueFillBuffer: buffer NULL", FILL(queue, NULL, 4, 0, 16), CL_INVALID_MEM_OBJECT);
    BAD("EnqueueFillBuffer: another context's buffer", FILL(queue, strange_buffer, 4, 0, 16), CL_INVALID_CONTEXT);
    BAD("EnqueueFillBuffer: pattern NULL", clEnqueueFillBuffer(queue, buffer, NULL, 4, 0, 16, 0, NULL, NULL),
        CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: pattern of 0 bytes", FILL(queue, buffer, 0, 0, 16), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: pattern of 3 bytes", FILL(queue, buffer, 3, 0, 12), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: pattern of 256 bytes", FILL(queue, buffer, 256, 0, 256), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: offset between patterns", FILL(queue, buffer, 8, 4, 16), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: size between patterns", FILL(queue, buffer, 8, 0, 12), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: past the end", FILL(queue, buffer, 4, SIZE - 4, 8), CL_INVALID_VALUE);
    BAD("EnqueueFillBuffer: offset overflows", FILL(queue, buffer, 4, high - 7, 8), CL_INVALID_VALUE);

    BAD_NEW("EnqueueMapBuffer: queue NULL", MAP(NULL, buffer, CL_MAP_READ, 0, 4), CL_INVALID_COMMAND_QUEUE);
    BAD_NEW("EnqueueMapBuffer: buffer NULL", MAP(queue, NULL, CL_MAP_READ, 0, 4), CL_INVALID_MEM_OBJECT);
    BAD_NEW("EnqueueMapBuffer: another context's buffer", MAP(queue, strange_buffer, CL_MAP_READ, 0, 4),
            CL_INVALID_CONTEXT);
    BAD_NEW("EnqueueMapBuffer: past the end", MAP(queue, buffer, CL_MAP_READ, SIZE - 3, 4), CL_INVALID_VALUE);
    BAD_NEW("EnqueueMapBuffer: size 0", MAP(queue, buffer, CL_MAP_READ, 0, 0), CL_INVALID_VALUE);
    BAD_NEW("EnqueueMapBuffer: unknown flag", MAP(queue, buffer, 1 << 20, 0, 4), CL_INVALID_VALUE);
    BAD_NEW("EnqueueMapBuffer: read and invalidate",
            MAP(queue, buffer, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 4), CL_INVALID_VALUE);
    BAD_NEW("EnqueueMapBuffer: the host may only write", MAP(queue, write_only, CL_MAP_READ, 0, 4),
            CL_INVALID_OPERATION);
    BAD_NEW("EnqueueMapBuffer: the host may only read", MAP(queue, read_only, CL_MAP_WRITE, 0, 4),
            CL_INVALID_OPERATION);
    BAD_NEW("EnqueueMapBuffer: the host has no access", MAP(queue, hidden, CL_MAP_READ, 0, 4),
            CL_INVALID_OPERATION);
    BAD("EnqueueUnmapMemObject: queue NULL", clEnqueueUnmapMemObject(NULL, buffer, host, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    BAD("EnqueueUnmapMemObject: buffer NULL", clEnqueueUnmapMemObject(queue, NULL, host, 0, NULL, NULL),
        CL_INVALID_MEM_OBJECT);
    BAD("EnqueueUnmapMemObject: not mapped", clEnqueueUnmapMemObject(queue, buffer, host, 0, NULL, NULL),
        CL_INVALID_VALUE);
    BAD("EnqueueUnmapMemObject: pointer NULL", clEnqueueUnmapMemObject(queue, buffer, NULL, 0, NULL, NULL),
        CL_INVALID_VALUE);
}

static void events(void)
{
    const cl_event with_null[2] = {done, NULL}, mixed[2] = {done, strange_event};
    cl_ulong time;

    BAD("WaitForEvents: none", clWaitForEvents(0, &done), CL_INVALID_VALUE);
    BAD("WaitForEvents: list NULL", clWaitForEvents(1, NULL), CL_INVALID_VALUE);
    BAD("WaitForEvents: an event is NULL", clWaitForEvents(2, with_null), CL_INVALID_EVENT);
    BAD("WaitForEvents: of two contexts", clWaitForEvents(2, mixed), CL_INVALID_CONTEXT);
    BAD("GetEventInfo: NULL", clGetEventInfo(NULL, CL_EVENT_CONTEXT, 0, NULL, &length), CL_INVALID_EVENT);
    BAD("GetEventInfo: unknown", clGetEventInfo(done, 0xDEAD, 0, NULL, &length), CL_INVALID_VALUE);
    BAD("GetEventInfo: short", clGetEventInfo(done, CL_EVENT_CONTEXT, 1, host, NULL), CL_INVALID_VALUE);
    BAD("RetainEvent: NULL", clRetainEvent(NULL), CL_INVALID_EVENT);
    BAD("ReleaseEvent: NULL", clReleaseEvent(NULL), CL_INVALID_EVENT);
    BAD_NEW("CreateUserEvent: NULL", clCreateUserEvent(NULL, status), CL_INVALID_CONTEXT);
    BAD("SetUserEventStatus: NULL", clSetUserEventStatus(NULL, CL_COMPLETE), CL_INVALID_EVENT);
    BAD("SetUserEventStatus: a command's event", clSetUserEventStatus(done, CL_COMPLETE), CL_INVALID_EVENT);
    BAD("SetUserEventStatus: running", clSetUserEventStatus(user, CL_RUNNING), CL_INVALID_VALUE);
    BAD("SetUserEventStatus: complete is fine", clSetUserEventStatus(user, CL_COMPLETE), CL_SUCCESS);
    BAD("SetUserEventStatus: again", clSetUserEventStatus(user, CL_COMPLETE), CL_INVALID_OPERATION);
    BAD("SetEventCallback: NULL", clSetEventCallback(NULL, CL_COMPLETE, notify, NULL), CL_INVALID_EVENT);
    BAD("SetEventCallback: no function", clSetEventCallback(done, CL_COMPLETE, NULL, NULL), CL_INVALID_VALUE);
    BAD("SetEventCallback: queued", clSetEventCallback(done, CL_QUEUED, notify, NULL), CL_INVALID_VALUE);
    BAD("SetEventCallback: type 7", clSetEventCallback(done, 7, notify, NULL), CL_INVALID_VALUE);
    BAD("GetEventProfilingInfo: NULL",
        clGetEventProfilingInfo(NULL, CL_PROFILING_COMMAND_START, sizeof time, &time, NULL), CL_INVALID_EVENT);
    BAD("GetEventProfilingInfo: not enabled",
        clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_START, sizeof time, &time, NULL),
        CL_PROFILING_INFO_NOT_AVAILABLE);
    BAD("GetEventProfilingInfo: a user event",
        clGetEventProfilingInfo(user, CL_PROFILING_COMMAND_START, sizeof time, &time, NULL),
        CL_PROFILING_INFO_NOT_AVAILABLE);
}

/* Handles that are no longer, or never were, what they are used as. */
static void freed(void)
{
    cl_int status_of_new;
    cl_mem mem = clCreateBuffer(context, 0, 64, NULL, &status_of_new);
    cl_event event = clCreateUserEvent(context, &status_of_new);
    cl_kernel old_kernel = clCreateKernel(program, "er_all", &status_of_new);
    cl_program old_program = clCreateProgramWithSource(context, 1, &source, NULL, &status_of_new);
    cl_command_queue old_queue = clCreateCommandQueue(context, device, 0, &status_of_new);
    cl_context old_context = clCreateContext(NULL, 1, &device, NULL, NULL, &status_of_new);

    CHECK(status_of_new);
    CHECK(clSetUserEventStatus(event, CL_COMPLETE));
    CHECK(clReleaseMemObject(mem));
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseKernel(old_kernel));
    CHECK(clReleaseProgram(old_program));
    CHECK(clReleaseCommandQueue(old_queue));
    CHECK(clReleaseContext(old_context));

    BAD("freed buffer: release", clReleaseMemObject(mem), CL_INVALID_MEM_OBJECT);
    BAD("freed buffer: info", clGetMemObjectInfo(mem, CL_MEM_SIZE, 0, NULL, &length), CL_INVALID_MEM_OBJECT);
    BAD("freed buffer: read", READ(queue, mem, 0, 4, host), CL_INVALID_MEM_OBJECT);
    BAD("freed buffer: argument", clSetKernelArg(kernel, 0, sizeof mem, &mem), CL_INVALID_MEM_OBJECT,
        CL_INVALID_ARG_VALUE);
    BAD("freed event: wait", clWaitForEvents(1, &event), CL_INVALID_EVENT);
    BAD("freed event: wait list", clEnqueueMarkerWithWaitList(queue, 1, &event, NULL), CL_INVALID_EVENT_WAIT_LIST);
    BAD("freed event: status", clSetUserEventStatus(event, CL_COMPLETE), CL_INVALID_EVENT);
    BAD("freed event: callback", clSetEventCallback(event, CL_COMPLETE, notify, NULL), CL_INVALID_EVENT);
    BAD("freed kernel: argument", clSetKernelArg(old_kernel, 1, 4, host), CL_INVALID_KERNEL);
    BAD("freed kernel: launch", LAUNCH(queue, old_kernel, 1, NULL, &global, &local), CL_INVALID_KERNEL);
    BAD("freed kernel: retain", clRetainKernel(old_kernel), CL_INVALID_KERNEL);
    BAD("freed program: build", clBuildProgram(old_program, 0, NULL, "", NULL, NULL), CL_INVALID_PROGRAM);
    BAD_NEW("freed program: kernel", clCreateKernel(old_program, "er_all", status), CL_INVALID_PROGRAM);
    BAD("freed queue: finish", clFinish(old_queue), CL_INVALID_COMMAND_QUEUE);
    BAD("freed queue: launch", LAUNCH(old_queue, sized, 1, NULL, &global, &local), CL_INVALID_COMMAND_QUEUE);
    BAD_NEW("freed context: buffer", clCreateBuffer(old_context, 0, 64, NULL, status), CL_INVALID_CONTEXT);
    BAD("freed context: release", clReleaseContext(old_context), CL_INVALID_CONTEXT);

    BAD("wrong kind: a queue as buffer", READ(queue, (cl_mem)queue, 0, 4, host), CL_INVALID_MEM_OBJECT);
    BAD("wrong kind: a buffer as queue", clFinish((cl_command_queue)buffer), CL_INVALID_COMMAND_QUEUE);
    BAD("wrong kind: a program as kernel", LAUNCH(queue, (cl_kernel)program, 1, NULL, &global, &local),
        CL_INVALID_KERNEL);
    BAD("wrong kind: a kernel as event", clWaitForEvents(1, (cl_event *)&kernel), CL_INVALID_EVENT);
    BAD("wrong kind: a queue as argument", clSetKernelArg(kernel, 0, sizeof queue, &queue), CL_INVALID_MEM_OBJECT,
        CL_INVALID_ARG_VALUE);
    BAD("wrong kind: a buffer as context", clRetainContext((cl_context)buffer), CL_INVALID_CONTEXT);
    BAD("wrong kind: a context as device", clGetDeviceInfo((cl_device_id)context, CL_DEVICE_NAME, 64, host, NULL),
        CL_INVALID_DEVICE);
    BAD_NEW("wrong kind: an event as program", clCreateKernel((cl_program)user, "er_all", status),
            CL_INVALID_PROGRAM);
    BAD("wrong kind: a device as platform", clGetPlatformInfo((cl_platform_id)device, CL_PLATFORM_NAME, 64, host, NULL),
        CL_INVALID_PLATFORM);
}

/* After all that, a launch still gives the right result, and no refused call has changed anything. */
static void still_alive(void)
{
    cl_int data[SIZE / 4];

    memset(host, 0, sizeof host);
    CHECK(READ(queue, buffer, 0, SIZE, data));
    for (int i = 0; i < SIZE / 4; i++)
        REQUIRE(data[i] == 3 || wrong, "[%d] is %d, changed by a bad call", i, data[i]);
    CHECK(FILL(queue, buffer, 4, 0, SIZE));
    CHECK(LAUNCH(queue, sized, 1, NULL, &global, &local));
    CHECK(READ(queue, buffer, 0, SIZE, data));
    for (int i = 0; i < SIZE / 4; i++)
        REQUIRE(data[i] == (i < 64), "[%d] is %d", i, data[i]);
}

int main(int argc, char **argv)
{
    named = argv + (argc > 0);
    prepare();
    platforms_and_devices();
    contexts_and_queues();
    buffers();
    programs();
    kernels();
    launches();
    transfers();
    events();
    if (is_named("freed"))
        freed();
    still_alive();
    printf("%d calls, %d wrong\n", calls, wrong);
    return wrong != 0;
}
