/* The collective commands by the header that is installed: sums over all devices, each by another way. */
#include "opencl_check.h"

#include <CL/cl_sdi.h>

enum { DEVICES_MAX = 16, COUNT = 240 };

static cl_platform_id platform;

static void *found(const char *name)
{
    void *function = clGetExtensionFunctionAddressForPlatform(platform, name);
    REQUIRE(function, "no %s", name);
    return function;
}

static cl_mem buffer_of(cl_context context, size_t nbytes)
{
    cl_int status;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, nbytes, NULL, &status);
    CHECK(status);
    return buffer;
}

static void require_sum(cl_command_queue queue, cl_mem buffer, cl_uint num, cl_event after, const char *what)
{
    cl_int values[COUNT];
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 1, &after, NULL));
    for (cl_int i = 0; i < COUNT; i++)
        REQUIRE(values[i] == (cl_int)(num * (num - 1) / 2) + i * (cl_int)num, "%s: [%d] is %d", what, i, values[i]);
}

int main(void)
{
    cl_device_id devices[DEVICES_MAX];
    cl_command_queue queues[DEVICES_MAX];
    cl_mem sources[DEVICES_MAX], targets[DEVICES_MAX], gathered[DEVICES_MAX], parts[DEVICES_MAX];
    size_t offsets[DEVICES_MAX] = {0}, nbytes = COUNT * sizeof(cl_int);
    cl_uint num;
    cl_int status, values[COUNT];
    cl_event done;

    platform = first_platform();
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &num));
    size_t part = nbytes / num;
    REQUIRE(nbytes % num == 0, "%u devices", num);
    cl_context context = clCreateContext(NULL, num, devices, NULL, NULL, &status);
    CHECK(status);
    for (cl_uint k = 0; k < num; k++) {
        queues[k] = clCreateCommandQueue(context, devices[k], 0, &status);
        CHECK(status);
        sources[k] = buffer_of(context, nbytes);
        targets[k] = buffer_of(context, nbytes);
        gathered[k] = buffer_of(context, nbytes);
        parts[k] = buffer_of(context, part);
        for (cl_int i = 0; i < COUNT; i++)
            values[i] = (cl_int)k + i;
        CHECK(clEnqueueWriteBuffer(queues[k], sources[k], CL_TRUE, 0, nbytes, values, 0, NULL, NULL));
    }
    clEnqueueBroadcastBuffer_fn broadcast = (clEnqueueBroadcastBuffer_fn)found("clEnqueueBroadcastBuffer");
    clEnqueueScatterBuffer_fn scatter = (clEnqueueScatterBuffer_fn)found("clEnqueueScatterBuffer");
    clEnqueueGatherBuffer_fn gather = (clEnqueueGatherBuffer_fn)found("clEnqueueGatherBuffer");
    clEnqueueAllGatherBuffer_fn all_gather = (clEnqueueAllGatherBuffer_fn)found("clEnqueueAllGatherBuffer");
    clEnqueueAlltoAllBuffer_fn all_to_all = (clEnqueueAlltoAllBuffer_fn)found("clEnqueueAlltoAllBuffer");
    clEnqueueReduceBuffer_fn reduce = (clEnqueueReduceBuffer_fn)found("clEnqueueReduceBuffer");
    clEnqueueAllReduceBuffer_fn all_reduce = (clEnqueueAllReduceBuffer_fn)found("clEnqueueAllReduceBuffer");
    clEnqueueReduceScatterBuffer_fn reduce_scatter
        = (clEnqueueReduceScatterBuffer_fn)found("clEnqueueReduceScatterBuffer");
    clEnqueueScanBuffer_fn scan = (clEnqueueScanBuffer_fn)found("clEnqueueScanBuffer");

    CHECK(reduce(queues[0], num, sources, targets[0], offsets, 0, nbytes, CL_SDI_REDUCE_SUM, CL_SIGNED_INT32, 0, NULL,
                 &done));
    require_sum(queues[0], targets[0], num, done, "reduce");
    CHECK(all_reduce(queues, num, sources, targets, NULL, NULL, nbytes, CL_SDI_REDUCE_SUM, CL_SIGNED_INT32, 0, NULL,
                     &done));
    require_sum(queues[num - 1], targets[num - 1], num, done, "all reduce");
    CHECK(scan(queues, num, sources, targets, NULL, NULL, nbytes, CL_SDI_REDUCE_SUM, CL_SIGNED_INT32, 0, NULL, &done));
    require_sum(queues[num - 1], targets[num - 1], num, done, "scan");
    CHECK(reduce_scatter(queues, num, sources, parts, NULL, NULL, part, CL_SDI_REDUCE_SUM, CL_SIGNED_INT32, 0, NULL,
                         NULL));
    CHECK(gather(queues[0], num, parts, gathered[0], NULL, 0, part, 0, NULL, &done));
    require_sum(queues[0], gathered[0], num, done, "reduce, scatter and gather");
    CHECK(broadcast(queues, num, gathered[0], targets, 0, NULL, nbytes, 1, &done, NULL));
    CHECK(scatter(queues, num, targets[num - 1], parts, 0, NULL, part, 0, NULL, NULL));
    CHECK(all_gather(queues, num, parts, gathered, NULL, NULL, part, 0, NULL, &done));
    require_sum(queues[num - 1], gathered[num - 1], num, done, "broadcast, scatter and all gather");
    CHECK(all_to_all(queues, num, gathered, targets, NULL, NULL, part, 0, NULL, NULL));
    CHECK(all_to_all(queues, num, targets, gathered, NULL, NULL, part, 0, NULL, &done));
    require_sum(queues[0], gathered[0], num, done, "all to all, and back");
    cl_uint type;
    CHECK(clGetEventInfo(done, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    REQUIRE(type == CL_SDI_COMMAND_ALL_TO_ALL_BUFFER, "%x", type);
    printf("%u devices\n", num);
    return 0;
}
