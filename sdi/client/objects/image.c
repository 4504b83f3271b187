/* Images: buffers of the service whose shape only the client knows; it goes with each launch that uses them. */
#include "objects/memory.h"

/* cl_image_desc and cl_image_format, as the application has them. */
struct descriptor {
    cl_uint type;
    size_t width, height, depth, layers, row_pitch, slice_pitch;
    cl_uint num_mip_levels, num_samples;
    cl_mem source;
};
struct format {
    cl_uint order, data_type;
};

/* ---- formats -------------------------------------------------------------------------------------------------- */

static size_t channels(cl_uint order)
{
    switch (order) {
    case CL_R:
    case CL_A:
    case CL_INTENSITY:
    case CL_LUMINANCE:
        return 1;
    case CL_RG:
    case CL_RA:
        return 2;
    case CL_RGBA:
    case CL_BGRA:
    case CL_ARGB:
    case CL_ABGR:
        return 4;
    default:
        return 0;
    }
}

static size_t channel_nbytes(cl_uint data_type)
{
    switch (data_type) {
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
        return 1;
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT:
        return 2;
    case CL_SIGNED_INT32:
    case CL_UNSIGNED_INT32:
    case CL_FLOAT:
        return 4;
    default:
        return 0;
    }
}

/* Which of the accesses in sdi_wire_format_entry.uses an image with these flags needs. */
static uint32_t access_bit(cl_uint type, cl_ulong flags)
{
    int access = flags & CL_MEM_KERNEL_READ_AND_WRITE ? 3 : flags & CL_MEM_WRITE_ONLY ? 1
                                                            : flags & CL_MEM_READ_ONLY ? 2
                                                                                       : 0;
    return UINT32_C(1) << (4 * (type - CL_MEM_OBJECT_IMAGE2D) + (cl_uint)access);
}

/* The formats that all members have. */
static const unsigned char *formats(size_t *num)
{
    size_t nbytes = 0;
    const void *found = sdi_fact(0, SDI_FACT_IMAGE_FORMATS, &nbytes);
    *num = found ? nbytes / sizeof(struct sdi_wire_format_entry) : 0;
    return found;
}

static bool format_supported(struct format format, uint32_t use)
{
    size_t num;
    const unsigned char *at = formats(&num);
    for (size_t i = 0; i < num; i++) {
        struct sdi_wire_format_entry entry;
        memcpy(&entry, at + i * sizeof entry, sizeof entry);
        if (entry.order == format.order && entry.data_type == format.data_type)
            return (entry.uses & use) != 0;
    }
    return false;
}

static bool is_image_type(cl_uint type)
{
    return type > CL_MEM_OBJECT_BUFFER && type < CL_MEM_OBJECT_PIPE;
}

cl_int sdi_clGetSupportedImageFormats(cl_context context, cl_ulong flags, cl_uint type, cl_uint num_entries,
                                      void *entries, cl_uint *num_formats)
{
    if (!sdi_is_context(context))
        return CL_INVALID_CONTEXT;
    if (!sdi_mem_flags_valid(flags & ~CL_MEM_KERNEL_READ_AND_WRITE) || !is_image_type(type)
        || (num_entries == 0 && entries))
        return CL_INVALID_VALUE;
    size_t num;
    const unsigned char *at = formats(&num);
    cl_uint found = 0;
    for (size_t i = 0; i < num; i++) {
        struct sdi_wire_format_entry entry;
        memcpy(&entry, at + i * sizeof entry, sizeof entry);
        if (!(entry.uses & access_bit(type, flags)))
            continue;
        struct format format = {entry.order, entry.data_type};
        if (entries && found < num_entries)
            memcpy((char *)entries + found * sizeof format, &format, sizeof format);
        found++;
    }
    if (num_formats)
        *num_formats = found;
    return CL_SUCCESS;
}

/* CL_SUCCESS for what OpenCL allows, known to sdi or not, and for what drivers have beyond that. */
static cl_int check_format(struct format format)
{
    if (format_supported(format, UINT32_MAX))
        return CL_SUCCESS;
    bool is_packed = format.data_type >= CL_UNORM_INT16 + 1 && format.data_type < CL_SIGNED_INT8;
    bool is_known = (format.order >= CL_R && format.order <= CL_ABGR)
                    && (format.data_type >= CL_SNORM_INT8 && format.data_type <= CL_UNORM_INT_101010_2);
    bool is_rgb = format.order == CL_RGB || format.order == CL_RGBx;
    if (!is_known || is_rgb != is_packed || (format.data_type == CL_UNORM_INT_101010_2 && format.order != CL_RGBA))
        return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    bool is_normalized = format.data_type <= CL_UNORM_INT16 || format.data_type == CL_HALF_FLOAT
                         || format.data_type == CL_FLOAT;
    bool is_byte = format.data_type == CL_SNORM_INT8 || format.data_type == CL_UNORM_INT8
                   || format.data_type == CL_SIGNED_INT8 || format.data_type == CL_UNSIGNED_INT8;
    if (((format.order == CL_INTENSITY || format.order == CL_LUMINANCE) && !is_normalized)
        || ((format.order == CL_BGRA || format.order == CL_ARGB || format.order == CL_ABGR) && !is_byte))
        return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    return CL_SUCCESS;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* The pitches in bytes; false when given ones are too small or no multiples, or a number overflows.  `align`: rows of a 2D
 * image begin at multiples of it, whatever was given. */
static bool set_pitches(struct sdi_image *image, size_t row_pitch, size_t slice_pitch, size_t align, size_t *nbytes)
{
    cl_uint type = image->type;
    bool is_line_array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    bool has_slices = is_line_array || type == CL_MEM_OBJECT_IMAGE3D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    size_t least_row, least_slice, rows = is_line_array ? 1 : image->region[1];
    if (__builtin_mul_overflow(image->region[0], image->pixel_nbytes, &least_row))
        return false;
    row_pitch = row_pitch ? row_pitch : least_row;
    if (row_pitch < least_row || row_pitch % image->pixel_nbytes)
        return false;
    image->told_pitch = row_pitch;
    if (type == CL_MEM_OBJECT_IMAGE2D && align > 1) {
        size_t given;
        if (least_row > SIZE_MAX - align || __builtin_mul_overflow(row_pitch, rows, &given))
            return false;
        row_pitch = (least_row + align - 1) & ~(align - 1);
    }
    if (__builtin_mul_overflow(row_pitch, rows, &least_slice))
        return false;
    if (slice_pitch && has_slices && (slice_pitch < least_slice || slice_pitch % row_pitch))
        return false;
    slice_pitch = slice_pitch && has_slices ? slice_pitch : least_slice;
    image->row_pitch = row_pitch;
    image->slice_pitch = has_slices ? slice_pitch : 0;
    image->row = is_line_array ? slice_pitch : row_pitch;
    if (!is_line_array)
        image->plane = slice_pitch;
    else if (__builtin_mul_overflow(slice_pitch, image->region[1], &image->plane))
        return false;
    if (__builtin_mul_overflow(image->plane, image->region[2], nbytes))
        return false;
    image->told_nbytes = *nbytes - (row_pitch - image->told_pitch) * (is_line_array ? 0 : image->region[1]);
    return true;
}

/* Fills in what the descriptor says; its sizes must be valid. */
static void set_shape(struct sdi_image *image, const struct descriptor *given)
{
    cl_uint type = given->type;
    bool is_3d = type == CL_MEM_OBJECT_IMAGE3D, is_2d_array = type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    bool has_rows = is_3d || is_2d_array || type == CL_MEM_OBJECT_IMAGE2D;
    bool is_1d_array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    image->type = type;
    image->width = given->width;
    image->height = has_rows ? given->height : 0;
    image->depth = is_3d ? given->depth : 0;
    image->layers = is_2d_array || is_1d_array ? given->layers : 0;
    image->region[0] = given->width;
    image->region[1] = has_rows ? given->height : is_1d_array ? given->layers : 1;
    image->region[2] = is_3d ? given->depth : is_2d_array ? given->layers : 1;
}

static cl_int check_size(cl_context context, const struct sdi_image *image)
{
    const struct sdi_limits *limits = &context->limits;
    size_t most[3] = {limits->image2d[0], limits->image2d[1], 1};
    switch (image->type) {
    case CL_MEM_OBJECT_IMAGE3D:
        memcpy(most, limits->image3d, sizeof most);
        break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        most[2] = limits->image_layers;
        break;
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        most[1] = limits->image_layers;
        break;
    case CL_MEM_OBJECT_IMAGE1D_BUFFER:
        most[0] = limits->image_buffer;
        break;
    default:
        break;
    }
    for (int i = 0; i < 3; i++)
        if (image->region[i] > most[i])
            return CL_INVALID_IMAGE_SIZE;
    return CL_SUCCESS;
}

static cl_int check_descriptor(cl_context context, const struct descriptor *given, const void *host_ptr)
{
    if (!is_image_type(given->type) || given->num_mip_levels || given->num_samples)
        return CL_INVALID_IMAGE_DESCRIPTOR;
    if (!host_ptr && !given->source && (given->row_pitch || given->slice_pitch))
        return CL_INVALID_IMAGE_DESCRIPTOR;
    bool is_buffer = given->type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
    if (!given->source)
        return is_buffer ? CL_INVALID_IMAGE_DESCRIPTOR : CL_SUCCESS;
    if (!is_buffer && given->type != CL_MEM_OBJECT_IMAGE2D)
        return CL_INVALID_IMAGE_DESCRIPTOR;
    /* A plane over an image is for pairs of formats (RGBA and sRGBA, R and DEPTH) of which sdi has one each. */
    if (!is_buffer && sdi_is_image(given->source) && given->source->context == context)
        return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    return sdi_is_buffer(given->source) && given->source->context == context ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static cl_mem make(cl_context context, cl_ulong flags, struct sdi_image *image, size_t nbytes, void *host_ptr,
                   cl_int *errcode_ret)
{
    cl_ulong all_flags = flags;
    cl_mem object;
    if (image->source) {
        if (sdi_session_dead())
            return sdi_fail(errcode_ret, CL_OUT_OF_RESOURCES);
        if (!sdi_part_flags(image->source->flags, flags, &all_flags))
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
        object = sdi_new_view(image->source, all_flags, 0, nbytes);
        if (!object)
            return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        sdi_lock();
        sdi_hold(image->source);
        sdi_unlock();
    } else {
        object = sdi_new_memory(context, flags, nbytes, host_ptr, true, errcode_ret);
        if (!object)
            return NULL;
    }
    object->image = image;
    sdi_succeed(errcode_ret);
    return object;
}

static cl_mem create(cl_context context, const cl_ulong *properties, cl_ulong flags, const void *format_at,
                     const struct descriptor *given, void *host_ptr, cl_int *errcode_ret)
{
    struct format format;
    struct sdi_image shape = {.type = 0};
    size_t nbytes;
    if (properties && properties[0])
        return sdi_fail(errcode_ret, CL_INVALID_PROPERTY);
    if (!sdi_mem_flags_valid(flags))
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    if (!format_at)
        return sdi_fail(errcode_ret, CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    memcpy(&format, format_at, sizeof format);
    cl_int status = check_format(format);
    if (!status)
        status = given ? check_descriptor(context, given, host_ptr) : CL_INVALID_IMAGE_DESCRIPTOR;
    if (status)
        return sdi_fail(errcode_ret, status);
    set_shape(&shape, given);
    shape.order = format.order;
    shape.data_type = format.data_type;
    shape.source = given->source;
    shape.pixel_nbytes = channels(format.order) * channel_nbytes(format.data_type);
    if (!shape.region[0] || !shape.region[1] || !shape.region[2])
        return sdi_fail(errcode_ret, CL_INVALID_IMAGE_DESCRIPTOR);
    status = check_size(context, &shape);
    if (status)
        return sdi_fail(errcode_ret, status);
    if ((host_ptr != NULL) != ((flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0))
        return sdi_fail(errcode_ret, CL_INVALID_HOST_PTR);
    cl_ulong access = shape.source && !(flags & 7) ? shape.source->flags : flags;
    if (!shape.pixel_nbytes || !format_supported(format, access_bit(shape.type, access)))
        return sdi_fail(errcode_ret, CL_IMAGE_FORMAT_NOT_SUPPORTED);
    if (shape.source && given->row_pitch % shape.pixel_nbytes)
        return sdi_fail(errcode_ret, CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
    size_t align = shape.source || flags & CL_MEM_USE_HOST_PTR ? 1 : context->limits.image_row_align;
    if (!set_pitches(&shape, given->row_pitch, given->slice_pitch, align, &nbytes))
        return sdi_fail(errcode_ret, CL_INVALID_IMAGE_DESCRIPTOR);
    if (nbytes > context->limits.max_alloc_nbytes || (shape.source && nbytes > shape.source->nbytes))
        return sdi_fail(errcode_ret, CL_INVALID_IMAGE_SIZE);
    struct sdi_image *image = malloc(sizeof *image);
    if (!image)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    *image = shape;
    char *laid_out = NULL;
    if (host_ptr && shape.row_pitch != shape.told_pitch) {
        laid_out = calloc(1, nbytes);
        if (!laid_out) {
            free(image);
            return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        }
        for (size_t y = 0; y < shape.region[1]; y++)
            memcpy(laid_out + y * shape.row_pitch, (const char *)host_ptr + y * shape.told_pitch,
                   shape.region[0] * shape.pixel_nbytes);
    }
    cl_mem object = make(context, flags, image, nbytes, laid_out ? laid_out : host_ptr, errcode_ret);
    free(laid_out);
    if (!object)
        free(image);
    else
        object->num_properties = properties ? 1 : 0;
    return object;
}

static cl_mem create_from(cl_context context, const cl_ulong *properties, cl_ulong flags, const void *format,
                          const void *at, void *host_ptr, cl_int *errcode_ret)
{
    struct descriptor given;
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (!context->limits.images)
        return sdi_fail(errcode_ret, CL_INVALID_OPERATION);
    if (at)
        memcpy(&given, at, sizeof given);
    return create(context, properties, flags, format, at ? &given : NULL, host_ptr, errcode_ret);
}

cl_mem sdi_clCreateImage(cl_context context, cl_ulong flags, const void *format, const void *descriptor,
                         void *host_ptr, cl_int *errcode_ret)
{
    return create_from(context, NULL, flags, format, descriptor, host_ptr, errcode_ret);
}

cl_mem sdi_clCreateImageWithProperties(cl_context context, const cl_ulong *properties, cl_ulong flags,
                                       const void *format, const void *descriptor, void *host_ptr,
                                       cl_int *errcode_ret)
{
    return create_from(context, properties, flags, format, descriptor, host_ptr, errcode_ret);
}

/* The calls of OpenCL 1.1 know no descriptor: what is wrong with it is a wrong size. */
static cl_mem create_old(cl_context context, cl_ulong flags, const void *format, struct descriptor given,
                         void *host_ptr, cl_int *errcode_ret)
{
    cl_int status;
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (!context->limits.images)
        return sdi_fail(errcode_ret, CL_INVALID_OPERATION);
    cl_mem object = create(context, NULL, flags, format, &given, host_ptr, &status);
    if (!object)
        return sdi_fail(errcode_ret, status == CL_INVALID_IMAGE_DESCRIPTOR ? CL_INVALID_IMAGE_SIZE : status);
    sdi_succeed(errcode_ret);
    return object;
}

cl_mem sdi_clCreateImage2D(cl_context context, cl_ulong flags, const void *format, size_t width, size_t height,
                           size_t row_pitch, void *host_ptr, cl_int *errcode_ret)
{
    struct descriptor given = {
        .type = CL_MEM_OBJECT_IMAGE2D,
        .width = width,
        .height = height,
        .row_pitch = row_pitch,
    };
    return create_old(context, flags, format, given, host_ptr, errcode_ret);
}

cl_mem sdi_clCreateImage3D(cl_context context, cl_ulong flags, const void *format, size_t width, size_t height,
                           size_t depth, size_t row_pitch, size_t slice_pitch, void *host_ptr, cl_int *errcode_ret)
{
    struct descriptor given = {
        .type = CL_MEM_OBJECT_IMAGE3D,
        .width = width,
        .height = height,
        .depth = depth,
        .row_pitch = row_pitch,
        .slice_pitch = slice_pitch,
    };
    return create_old(context, flags, format, given, host_ptr, errcode_ret);
}

/* ---- information --------------------------------------------------------------------------------------------------- */

cl_int sdi_clGetImageInfo(cl_mem object, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_image(object))
        return CL_INVALID_MEM_OBJECT;
    const struct sdi_image *image = object->image;
    switch (param) {
    case CL_IMAGE_FORMAT:
        SDI_ANSWER(struct format, ((struct format){image->order, image->data_type}));
    case CL_IMAGE_ELEMENT_SIZE:
        SDI_ANSWER(size_t, image->pixel_nbytes);
    case CL_IMAGE_ROW_PITCH:
        SDI_ANSWER(size_t, image->told_pitch);
    case CL_IMAGE_SLICE_PITCH:
        SDI_ANSWER(size_t, image->slice_pitch);
    case CL_IMAGE_WIDTH:
        SDI_ANSWER(size_t, image->width);
    case CL_IMAGE_HEIGHT:
        SDI_ANSWER(size_t, image->height);
    case CL_IMAGE_DEPTH:
        SDI_ANSWER(size_t, image->depth);
    case CL_IMAGE_ARRAY_SIZE:
        SDI_ANSWER(size_t, image->layers);
    case CL_IMAGE_BUFFER:
        SDI_ANSWER(cl_mem, image->source);
    case CL_IMAGE_NUM_MIP_LEVELS:
    case CL_IMAGE_NUM_SAMPLES:
        SDI_ANSWER(cl_uint, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

bool sdi_image_fits(cl_mem object, const struct sdi_argument *argument)
{
    static const struct {
        const char *name;
        cl_uint type;
    } types[] = {SDI_IMAGE_TYPES};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(argument->type_name, types[i].name) == 0 && types[i].type != object->image->type)
            return false;
    return !(object->flags & CL_MEM_WRITE_ONLY && argument->access != CL_KERNEL_ARG_ACCESS_WRITE_ONLY)
           && !(object->flags & CL_MEM_READ_ONLY && argument->access != CL_KERNEL_ARG_ACCESS_READ_ONLY);
}
