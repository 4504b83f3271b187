/* A layer for ICD loaders: counts launches and questions about devices, and writes them to $COUNTED at exit. */
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct _cl_icd_dispatch ours;
static const struct _cl_icd_dispatch *below;
static int launches, questions;

static cl_int CL_API_CALL count_launch(cl_command_queue queue, cl_kernel kernel, cl_uint work_dim,
                                       const size_t *offset, const size_t *global, const size_t *local,
                                       cl_uint waits, const cl_event *wait_list, cl_event *event)
{
    launches++;
    return below->clEnqueueNDRangeKernel(queue, kernel, work_dim, offset, global, local, waits, wait_list, event);
}

static cl_int CL_API_CALL count_question(cl_device_id device, cl_device_info name, size_t size, void *value,
                                         size_t *needed)
{
    questions++;
    return below->clGetDeviceInfo(device, name, size, value, needed);
}

static void report(void)
{
    const char *path = getenv("COUNTED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%d %d\n", launches, questions);
        fclose(file);
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *needed)
{
    cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (name != CL_LAYER_API_VERSION || (value && size < sizeof version))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, &version, sizeof version);
    if (needed)
        *needed = sizeof version;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const struct _cl_icd_dispatch *target,
                                            cl_uint *our_entries, const struct _cl_icd_dispatch **layer)
{
    if (entries < sizeof ours / sizeof(void *))
        return CL_INVALID_VALUE;
    below = target;
    ours = *target;
    ours.clEnqueueNDRangeKernel = count_launch;
    ours.clGetDeviceInfo = count_question;
    *our_entries = sizeof ours / sizeof(void *);
    *layer = &ours;
    atexit(report);
    return CL_SUCCESS;
}
