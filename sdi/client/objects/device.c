/* The devices: the image, or each of its members; what they are comes from the service's facts. */
#include "objects/event.h"

static cl_device_id *all; /* client lock; by number */

static void forget(void)
{
    all = NULL;
}

SDI_AT_FORK(forget)

/* Client lock held.  Makes them, once; false: no memory. */
static bool make_all(void)
{
    if (all)
        return true;
    cl_device_id *made = calloc(sdi_session.num_devices, sizeof *made);
    for (cl_uint i = 0; made && i < sdi_session.num_devices; i++) {
        made[i] = sdi_new(SDI_DEVICE);
        if (made[i]) {
            made[i]->number = i;
            continue;
        }
        while (i--)
            sdi_discard(made[i]);
        free(made);
        return false;
    }
    all = made;
    return all != NULL;
}

cl_uint sdi_devices_of_type(cl_ulong type, cl_uint most, cl_device_id *devices)
{
    cl_uint num = 0;
    if (!sdi_session_start())
        return 0;
    sdi_lock();
    for (cl_uint i = 0; make_all() && i < sdi_session.num_devices; i++) {
        cl_ulong own = sdi_session.limits[i].type | (i == 0 ? CL_DEVICE_TYPE_DEFAULT : 0);
        if (!(type & own))
            continue;
        if (num < most)
            devices[num] = all[i];
        num++;
    }
    sdi_unlock();
    return num;
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
    sdi_leave_mark('d');
    cl_uint found = sdi_devices_of_type(type, devices ? num_entries : 0, devices);
    if (num_devices)
        *num_devices = found;
    return found ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
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
        if (param == CL_DEVICE_SVM_CAPABILITIES && !sdi_session.has_svm)
            SDI_ANSWER(cl_ulong, 0);
        const void *fact = param >= SDI_FACT_IMAGE_FORMATS ? NULL : sdi_fact(device->number, param, &nbytes);
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
