/* OpenCL's types, as far as the client needs them; its numbers are generated from sdi/wire/opencl.py.  So building
 * the library needs no OpenCL header.  Source: the OpenCL 3.0 specification and its registry. */
#ifndef SDI_CL_H
#define SDI_CL_H

#include <stddef.h>
#include <stdint.h>

#include "sdi_numbers.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;

/* Handles are pointers to our own structures (objects/); an image is a buffer with a shape. */
typedef struct sdi_platform *cl_platform_id;
typedef struct sdi_device *cl_device_id;
typedef struct sdi_context *cl_context;
typedef struct sdi_queue *cl_command_queue;
typedef struct sdi_buffer *cl_mem;
typedef struct sdi_sampler *cl_sampler;
typedef struct sdi_program *cl_program;
typedef struct sdi_kernel *cl_kernel;
typedef struct sdi_event *cl_event;

#endif
