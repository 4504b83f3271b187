/* Samplers: known to the client only; a kernel's argument is a copy of their modes. */
#include "objects/event.h"

static bool modes_valid(cl_ulong normalized, cl_ulong addressing, cl_ulong filter)
{
    return normalized <= 1 && addressing >= CL_ADDRESS_NONE && addressing <= CL_ADDRESS_MIRRORED_REPEAT
           && (filter == CL_FILTER_NEAREST || filter == CL_FILTER_LINEAR);
}

static cl_sampler create(cl_context context, const cl_ulong modes[3], const cl_ulong *properties, size_t num,
                         cl_int *errcode_ret)
{
    if (!context->limits.images)
        return sdi_fail(errcode_ret, CL_INVALID_OPERATION);
    if (!modes_valid(modes[0], modes[1], modes[2]))
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    sdi_lock();
    cl_sampler sampler = sdi_new(SDI_SAMPLER);
    if (sampler) {
        sampler->context = context;
        sdi_hold(context);
        sampler->normalized = (cl_uint)modes[0];
        sampler->addressing = (cl_uint)modes[1];
        sampler->filter = (cl_uint)modes[2];
        if (num)
            memcpy(sampler->properties, properties, num * sizeof *properties);
        sampler->num_properties = num;
    }
    sdi_unlock();
    if (!sampler)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    sdi_succeed(errcode_ret);
    return sampler;
}

cl_sampler sdi_clCreateSampler(cl_context context, cl_uint normalized, cl_uint addressing, cl_uint filter,
                               cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    const cl_ulong modes[3] = {normalized, addressing, filter};
    return create(context, modes, NULL, 0, errcode_ret);
}

cl_sampler sdi_clCreateSamplerWithProperties(cl_context context, const cl_ulong *properties, cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    cl_ulong modes[3] = {1, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST};
    bool given[3] = {false, false, false};
    size_t num = 0;
    for (; properties && properties[num]; num += 2) {
        cl_ulong mode = properties[num] - CL_SAMPLER_NORMALIZED_COORDS;
        if (properties[num] < CL_SAMPLER_NORMALIZED_COORDS || mode > 2 || given[mode])
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
        given[mode] = true;
        modes[mode] = properties[num + 1];
    }
    return create(context, modes, properties, properties ? num + 1 : 0, errcode_ret);
}

SDI_COUNTED(Sampler, cl_sampler, SDI_SAMPLER, CL_INVALID_SAMPLER)

static void drop(void *object)
{
    cl_sampler sampler = object;
    sdi_unhold(sampler->context);
}

SDI_AT_DROP(SDI_SAMPLER, drop)

cl_int sdi_clGetSamplerInfo(cl_sampler sampler, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_sampler(sampler))
        return CL_INVALID_SAMPLER;
    switch (param) {
    case CL_SAMPLER_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, sampler->object.refs);
    case CL_SAMPLER_CONTEXT:
        SDI_ANSWER(cl_context, sampler->context);
    case CL_SAMPLER_NORMALIZED_COORDS:
        SDI_ANSWER(cl_uint, sampler->normalized);
    case CL_SAMPLER_ADDRESSING_MODE:
        SDI_ANSWER(cl_uint, sampler->addressing);
    case CL_SAMPLER_FILTER_MODE:
        SDI_ANSWER(cl_uint, sampler->filter);
    case CL_SAMPLER_PROPERTIES:
        return sdi_answer(sampler->properties, sampler->num_properties * sizeof *sampler->properties, size, value,
                          size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}
