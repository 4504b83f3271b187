/* What a program with more rights than who started it sees of the library that it loads: "AT_SECURE PLATFORMS DEVICES". */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

typedef int (*get_platforms)(unsigned, void **, unsigned *);
typedef int (*get_devices)(void *, uint64_t, unsigned, void **, unsigned *);
typedef void *(*create_context)(const intptr_t *, uint64_t, void *, void *, int *);

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *(*find)(const char *) = NULL;
    void *platform = NULL, *device = NULL, *context = NULL;
    unsigned platforms = 0, devices = 0;
    if (library)
        find = (void *(*)(const char *))(intptr_t)dlsym(library, "clGetExtensionFunctionAddress");
    if (!find) {
        fprintf(stderr, "%s: %s\n", argv[0], dlerror());
        return 1;
    }
    ((get_platforms)(intptr_t)find("clIcdGetPlatformIDsKHR"))(1, &platform, &platforms);
    if (platform)
        ((get_devices)(intptr_t)find("clGetDeviceIDs"))(platform, UINT64_C(0xffffffff), 1, &device, &devices);
    /* Which needs no platform. */
    context = ((create_context)(intptr_t)find("clCreateContextFromType"))(NULL, UINT64_C(0xffffffff), NULL, NULL, NULL);
    printf("%lu %u %u\n", getauxval(AT_SECURE), platforms, devices + (context != NULL));
    return 0;
}
