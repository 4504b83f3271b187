/* The one device: what it is comes from the service's facts. */
#include "objects/event.h"

static cl_device_id device; /* client lock */

static void forget(void)
{
    device = NULL;
}

SDI_AT_FORK(forget)

/* NULL: there is no image, or no memory. */
static cl_device_id find(void)
{
    if (!sdi_session_start())
        return NULL;
    sdi_lock();
    if (!device)
        device = sdi_new(SDI_DEVICE);
    cl_device_id found = device;
    sdi_unlock();
    return found;
}

cl_int sdi_clGetDeviceIDs(cl_platform_id platform, cl_ulong type, cl_uint num_entries, cl_device_id *devices,
                          cl_uint *num_devices)
{
    if (!sdi_is_platform_id(platform))
        return CL_INVALID_PLATFORM;
    if (type != CL_DEVICE_TYPE_ALL && (type == 0 || type & ~CL_DEVICE_TYPE_KNOWN))
        return CL_INVALID_DEVICE_TYPE;
    if ((devices && num_entries == 0) || (!devices && !num_devices))
        return CL_INVALID_VALUE;
    if (num_devices)
        *num_devices = 0;
    sdi_leave_mark('d');
    cl_device_id found = find();
    if (!found || !(type & (sdi_session.limits.type | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    if (devices)
        devices[0] = found;
    if (num_devices)
        *num_devices = 1;
    return CL_SUCCESS;
}

cl_int sdi_clGetDeviceInfo(cl_device_id device, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_device_id(device))
        return CL_INVALID_DEVICE;
    switch (param) {
    case CL_DEVICE_PLATFORM:
        SDI_ANSWER(cl_platform_id, &sdi_platform);
    case CL_DEVICE_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, 1);
    case CL_DEVICE_PARENT_DEVICE:
        SDI_ANSWER(cl_device_id, NULL);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
        SDI_ANSWER(cl_uint, 0);
    case CL_DEVICE_PARTITION_PROPERTIES:
    case CL_DEVICE_PARTITION_TYPE:
        SDI_ANSWER(intptr_t, 0);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN:
        SDI_ANSWER(cl_ulong, 0);
    default: {
        size_t nbytes;
        const void *fact = param >= SDI_FACT_IMAGE_FORMATS ? NULL : sdi_fact(param, &nbytes);
        return fact ? sdi_answer(fact, nbytes, size, value, size_ret) : CL_INVALID_VALUE;
    }
    }
}

/* A root device is not counted. */
cl_int sdi_clRetainDevice(cl_device_id device)
{
    return sdi_is_device_id(device) ? CL_SUCCESS : CL_INVALID_DEVICE;
}

cl_int sdi_clReleaseDevice(cl_device_id device)
{
    return sdi_clRetainDevice(device);
}

cl_int sdi_clRetainDeviceEXT(cl_device_id device)
{
    return sdi_clRetainDevice(device);
}

cl_int sdi_clReleaseDeviceEXT(cl_device_id device)
{
    return sdi_clRetainDevice(device);
}

/* The device's clock is the host's: CLOCK_MONOTONIC, as in profiling. */
cl_int sdi_clGetDeviceAndHostTimer(cl_device_id device, cl_ulong *device_timestamp, cl_ulong *host_timestamp)
{
    if (!sdi_is_device_id(device))
        return CL_INVALID_DEVICE;
    if (!device_timestamp || !host_timestamp)
        return CL_INVALID_VALUE;
    *device_timestamp = *host_timestamp = sdi_now_ns();
    return CL_SUCCESS;
}

cl_int sdi_clGetHostTimer(cl_device_id device, cl_ulong *host_timestamp)
{
    if (!sdi_is_device_id(device))
        return CL_INVALID_DEVICE;
    if (!host_timestamp)
        return CL_INVALID_VALUE;
    *host_timestamp = sdi_now_ns();
    return CL_SUCCESS;
}
