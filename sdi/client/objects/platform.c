/* The platform: known without a service (but its vendor, and another name), valid in every process. */
#include "objects/event.h"

#define EXTENSIONS "cl_khr_icd cl_sdi_collectives"
#define UNKNOWN_VENDOR "sdi"
#define OWN_NAME "SDI"
#define OWN_VERSION "OpenCL 3.0 sdi " SDI_VERSION
#define EXPORTED __attribute__((visibility("default")))

EXPORTED cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint param, size_t size, void *value, size_t *size_ret);

struct name_version {
    cl_uint version;
    char name[64];
};

cl_int sdi_clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
    if ((platforms && num_entries == 0) || (!platforms && !num_platforms))
        return CL_INVALID_VALUE;
    sdi_library_path(); /* now, before the application changes its directory */
    if (num_platforms)
        *num_platforms = sdi_hidden() ? 0 : 1;
    if (sdi_hidden())
        return CL_PLATFORM_NOT_FOUND_KHR;
    sdi_leave_mark('p');
    if (platforms)
        platforms[0] = &sdi_platform;
    return CL_SUCCESS;
}

/* What the service says, which is started for it; `otherwise` where there is no image. */
static cl_int from_service(cl_uint fact, const char *otherwise, size_t size, void *value, size_t *size_ret)
{
    size_t nbytes;
    const void *found = !sdi_hidden() && sdi_session_start() ? sdi_fact(0, fact, &nbytes) : NULL;
    return found ? sdi_answer(found, nbytes, size, value, size_ret) : sdi_answer_text(otherwise, size, value, size_ret);
}

/* Whether another name is wanted, which the service knows: the members', perhaps. */
static bool has_other_name(void)
{
    const char *wanted = secure_getenv("SDI_PLATFORM_NAME");
    return wanted && wanted[0];
}

cl_int sdi_clGetPlatformInfo(cl_platform_id platform, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    static const struct name_version extensions[] = {{1u << 22, "cl_khr_icd"}, {1u << 22, "cl_sdi_collectives"}};
    if (!sdi_is_platform_id(platform))
        return CL_INVALID_PLATFORM;
    switch (param) {
    case CL_PLATFORM_PROFILE:
        return sdi_answer_text("FULL_PROFILE", size, value, size_ret);
    case CL_PLATFORM_VERSION:
        return has_other_name() ? from_service(SDI_FACT_PLATFORM_VERSION, OWN_VERSION, size, value, size_ret)
                                : sdi_answer_text(OWN_VERSION, size, value, size_ret);
    case CL_PLATFORM_NAME:
        return has_other_name() ? from_service(SDI_FACT_PLATFORM_NAME, OWN_NAME, size, value, size_ret)
                                : sdi_answer_text(OWN_NAME, size, value, size_ret);
    case CL_PLATFORM_VENDOR: /* the members' */
        return from_service(SDI_FACT_PLATFORM_VENDOR, UNKNOWN_VENDOR, size, value, size_ret);
    case CL_PLATFORM_EXTENSIONS:
        return sdi_answer_text(EXTENSIONS, size, value, size_ret);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return sdi_answer_text("SDI", size, value, size_ret);
    case CL_PLATFORM_HOST_TIMER_RESOLUTION:
        SDI_ANSWER(cl_ulong, 1);
    case CL_PLATFORM_NUMERIC_VERSION:
        SDI_ANSWER(cl_uint, 3u << 22);
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
        return sdi_answer(extensions, sizeof extensions, size, value, size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static struct sdi_extension_function *extension_functions;

void sdi_register_extension_function(struct sdi_extension_function *function)
{
    function->next = extension_functions;
    extension_functions = function;
}

void *sdi_clGetExtensionFunctionAddress(const char *name)
{
    if (!name)
        return NULL;
    for (const struct sdi_extension_function *at = extension_functions; at; at = at->next)
        if (strcmp(at->name, name) == 0)
            return (void *)at->function;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        name = "clGetPlatformIDs";
    if (strcmp(name, "clGetPlatformInfo") == 0)
        return (void *)clGetPlatformInfo;
    return (void *)sdi_find_function(name);
}

void *sdi_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    return sdi_is_platform_id(platform) ? sdi_clGetExtensionFunctionAddress(name) : NULL;
}

cl_int sdi_clUnloadCompiler(void)
{
    return CL_SUCCESS;
}

cl_int sdi_clUnloadPlatformCompiler(cl_platform_id platform)
{
    return sdi_is_platform_id(platform) ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

/* ---- what the library exports -------------------------------------------------------------------------- */

EXPORTED void *clGetExtensionFunctionAddress(const char *name);
EXPORTED cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms);

void *clGetExtensionFunctionAddress(const char *name)
{
    return sdi_clGetExtensionFunctionAddress(name);
}

cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
    return sdi_clGetPlatformIDs(num_entries, platforms, num_platforms);
}

/* By this name loaders ask while they look for platforms (pyopencl's for the vendor): that starts nothing.
 * Applications come through the dispatch table. */
cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (sdi_is_platform_id(platform) && !sdi_session.running) {
        if (param == CL_PLATFORM_VENDOR)
            return sdi_answer_text(UNKNOWN_VENDOR, size, value, size_ret);
        if (param == CL_PLATFORM_NAME || param == CL_PLATFORM_VERSION)
            return sdi_answer_text(param == CL_PLATFORM_NAME ? OWN_NAME : OWN_VERSION, size, value, size_ret);
    }
    return sdi_clGetPlatformInfo(platform, param, size, value, size_ret);
}
