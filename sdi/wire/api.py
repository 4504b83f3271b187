"""The API table: every slot of the ICD dispatch table, in the order that all loaders know.

``ENTRIES`` lists 149 functions (OpenCL 1.0 to 3.0 and the extensions that have slots of their own).  A line
of the table is ``result name(parameter types)``, then what happens to it:

* nothing: the client implements it as ``sdi_<name>``;
* ``!CODE``: the generated stub validates the object it is called for and returns CODE (creating functions:
  NULL, and CODE through their last argument);
* ``reserved``: belongs to systems other than Linux; the slot is filled all the same.

``INFO`` and ``WAIT`` stand for the parameters that many functions end with.  Handles are pointers to the
client's own structures; other OpenCL types are written as what they are (``cl_uint`` for enums of 32 bits,
``cl_ulong`` for bit fields).  Needs only the standard library.
"""

from __future__ import annotations

from sdi.dataclass import dataclass

NUM_SLOTS = 149

_ABBREVIATIONS = {
    "INFO": "cl_uint, size_t, void *, size_t *",
    "WAIT": "cl_uint, const cl_event *, cl_event *",
    "SIZES": "const size_t *",
    "CONTEXT_NOTIFY": "void (*)(const char *, const void *, size_t, void *), void *",
    "PROGRAM_NOTIFY": "void (*)(cl_program, void *), void *",
    "GL_OBJECTS": "cl_uint, const cl_mem *, cl_uint, const cl_event *, cl_event *",
}

_TABLE = """
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *)
cl_int clGetPlatformInfo(cl_platform_id, INFO)
cl_int clGetDeviceIDs(cl_platform_id, cl_ulong, cl_uint, cl_device_id *, cl_uint *)
cl_int clGetDeviceInfo(cl_device_id, INFO)
cl_context clCreateContext(const intptr_t *, cl_uint, const cl_device_id *, CONTEXT_NOTIFY, cl_int *)
cl_context clCreateContextFromType(const intptr_t *, cl_ulong, CONTEXT_NOTIFY, cl_int *)
cl_int clRetainContext(cl_context)
cl_int clReleaseContext(cl_context)
cl_int clGetContextInfo(cl_context, INFO)
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_ulong, cl_int *)
cl_int clRetainCommandQueue(cl_command_queue)
cl_int clReleaseCommandQueue(cl_command_queue)
cl_int clGetCommandQueueInfo(cl_command_queue, INFO)
cl_int clSetCommandQueueProperty(cl_command_queue, cl_ulong, cl_uint, cl_ulong *) !CL_INVALID_OPERATION
cl_mem clCreateBuffer(cl_context, cl_ulong, size_t, void *, cl_int *)
cl_mem clCreateImage2D(cl_context, cl_ulong, const void *, size_t, size_t, size_t, void *, \
cl_int *)
cl_mem clCreateImage3D(cl_context, cl_ulong, const void *, size_t, size_t, size_t, size_t, size_t, \
void *, cl_int *)
cl_int clRetainMemObject(cl_mem)
cl_int clReleaseMemObject(cl_mem)
cl_int clGetSupportedImageFormats(cl_context, cl_ulong, cl_uint, cl_uint, void *, cl_uint *)
cl_int clGetMemObjectInfo(cl_mem, INFO)
cl_int clGetImageInfo(cl_mem, INFO)
cl_sampler clCreateSampler(cl_context, cl_uint, cl_uint, cl_uint, cl_int *)
cl_int clRetainSampler(cl_sampler)
cl_int clReleaseSampler(cl_sampler)
cl_int clGetSamplerInfo(cl_sampler, INFO)
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, SIZES, cl_int *)
cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id *, SIZES, \
const unsigned char **, cl_int *, cl_int *)
cl_int clRetainProgram(cl_program)
cl_int clReleaseProgram(cl_program)
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, PROGRAM_NOTIFY)
cl_int clUnloadCompiler(void)
cl_int clGetProgramInfo(cl_program, INFO)
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, INFO)
cl_kernel clCreateKernel(cl_program, const char *, cl_int *)
cl_int clCreateKernelsInProgram(cl_program, cl_uint, cl_kernel *, cl_uint *)
cl_int clRetainKernel(cl_kernel)
cl_int clReleaseKernel(cl_kernel)
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *)
cl_int clGetKernelInfo(cl_kernel, INFO)
cl_int clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, INFO)
cl_int clWaitForEvents(cl_uint, const cl_event *)
cl_int clGetEventInfo(cl_event, INFO)
cl_int clRetainEvent(cl_event)
cl_int clReleaseEvent(cl_event)
cl_int clGetEventProfilingInfo(cl_event, INFO)
cl_int clFlush(cl_command_queue)
cl_int clFinish(cl_command_queue)
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, WAIT)
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, WAIT)
cl_int clEnqueueCopyBuffer(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, WAIT)
cl_int clEnqueueReadImage(cl_command_queue, cl_mem, cl_uint, SIZES, SIZES, size_t, size_t, void *, \
WAIT)
cl_int clEnqueueWriteImage(cl_command_queue, cl_mem, cl_uint, SIZES, SIZES, size_t, size_t, const void *, \
WAIT)
cl_int clEnqueueCopyImage(cl_command_queue, cl_mem, cl_mem, SIZES, SIZES, SIZES, WAIT)
cl_int clEnqueueCopyImageToBuffer(cl_command_queue, cl_mem, cl_mem, SIZES, SIZES, size_t, \
WAIT)
cl_int clEnqueueCopyBufferToImage(cl_command_queue, cl_mem, cl_mem, size_t, SIZES, SIZES, \
WAIT)
void * clEnqueueMapBuffer(cl_command_queue, cl_mem, cl_uint, cl_ulong, size_t, size_t, WAIT, cl_int *)
void * clEnqueueMapImage(cl_command_queue, cl_mem, cl_uint, cl_ulong, SIZES, SIZES, size_t *, size_t *, \
WAIT, cl_int *)
cl_int clEnqueueUnmapMemObject(cl_command_queue, cl_mem, void *, WAIT)
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, SIZES, SIZES, SIZES, WAIT)
cl_int clEnqueueTask(cl_command_queue, cl_kernel, WAIT)
cl_int clEnqueueNativeKernel(cl_command_queue, void (*)(void *), void *, size_t, cl_uint, const cl_mem *, \
const void **, WAIT) !CL_INVALID_OPERATION
cl_int clEnqueueMarker(cl_command_queue, cl_event *)
cl_int clEnqueueWaitForEvents(cl_command_queue, cl_uint, const cl_event *)
cl_int clEnqueueBarrier(cl_command_queue)
void * clGetExtensionFunctionAddress(const char *)
cl_mem clCreateFromGLBuffer(cl_context, cl_ulong, cl_uint, cl_int *) !CL_INVALID_OPERATION
cl_mem clCreateFromGLTexture2D(cl_context, cl_ulong, cl_uint, cl_int, cl_uint, \
cl_int *) !CL_INVALID_OPERATION
cl_mem clCreateFromGLTexture3D(cl_context, cl_ulong, cl_uint, cl_int, cl_uint, \
cl_int *) !CL_INVALID_OPERATION
cl_mem clCreateFromGLRenderbuffer(cl_context, cl_ulong, cl_uint, cl_int *) !CL_INVALID_OPERATION
cl_int clGetGLObjectInfo(cl_mem, cl_uint *, cl_uint *) !CL_INVALID_OPERATION
cl_int clGetGLTextureInfo(cl_mem, INFO) !CL_INVALID_OPERATION
cl_int clEnqueueAcquireGLObjects(cl_command_queue, GL_OBJECTS) !CL_INVALID_OPERATION
cl_int clEnqueueReleaseGLObjects(cl_command_queue, GL_OBJECTS) !CL_INVALID_OPERATION
cl_int clGetGLContextInfoKHR(const intptr_t *, INFO) !CL_INVALID_OPERATION
reserved clGetDeviceIDsFromD3D10KHR
reserved clCreateFromD3D10BufferKHR
reserved clCreateFromD3D10Texture2DKHR
reserved clCreateFromD3D10Texture3DKHR
reserved clEnqueueAcquireD3D10ObjectsKHR
reserved clEnqueueReleaseD3D10ObjectsKHR
cl_int clSetEventCallback(cl_event, cl_int, void (*)(cl_event, cl_int, void *), void *)
cl_mem clCreateSubBuffer(cl_mem, cl_ulong, cl_uint, const void *, cl_int *)
cl_int clSetMemObjectDestructorCallback(cl_mem, void (*)(cl_mem, void *), void *)
cl_event clCreateUserEvent(cl_context, cl_int *)
cl_int clSetUserEventStatus(cl_event, cl_int)
cl_int clEnqueueReadBufferRect(cl_command_queue, cl_mem, cl_uint, SIZES, SIZES, SIZES, size_t, size_t, \
size_t, size_t, void *, WAIT)
cl_int clEnqueueWriteBufferRect(cl_command_queue, cl_mem, cl_uint, SIZES, SIZES, SIZES, size_t, size_t, \
size_t, size_t, const void *, WAIT)
cl_int clEnqueueCopyBufferRect(cl_command_queue, cl_mem, cl_mem, SIZES, SIZES, SIZES, size_t, size_t, \
size_t, size_t, WAIT)
cl_int clCreateSubDevicesEXT(cl_device_id, const cl_ulong *, cl_uint, cl_device_id *, \
cl_uint *) !CL_INVALID_OPERATION
cl_int clRetainDeviceEXT(cl_device_id)
cl_int clReleaseDeviceEXT(cl_device_id)
cl_event clCreateEventFromGLsyncKHR(cl_context, void *, cl_int *) !CL_INVALID_OPERATION
cl_int clCreateSubDevices(cl_device_id, const intptr_t *, cl_uint, cl_device_id *, \
cl_uint *) !CL_INVALID_VALUE
cl_int clRetainDevice(cl_device_id)
cl_int clReleaseDevice(cl_device_id)
cl_mem clCreateImage(cl_context, cl_ulong, const void *, const void *, void *, \
cl_int *)
cl_program clCreateProgramWithBuiltInKernels(cl_context, cl_uint, const cl_device_id *, const char *, \
cl_int *) !CL_INVALID_VALUE
cl_int clCompileProgram(cl_program, cl_uint, const cl_device_id *, const char *, cl_uint, \
const cl_program *, const char **, PROGRAM_NOTIFY)
cl_program clLinkProgram(cl_context, cl_uint, const cl_device_id *, const char *, cl_uint, \
const cl_program *, PROGRAM_NOTIFY, cl_int *)
cl_int clUnloadPlatformCompiler(cl_platform_id)
cl_int clGetKernelArgInfo(cl_kernel, cl_uint, INFO)
cl_int clEnqueueFillBuffer(cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, WAIT)
cl_int clEnqueueFillImage(cl_command_queue, cl_mem, const void *, SIZES, SIZES, WAIT)
cl_int clEnqueueMigrateMemObjects(cl_command_queue, cl_uint, const cl_mem *, cl_ulong, WAIT)
cl_int clEnqueueMarkerWithWaitList(cl_command_queue, WAIT)
cl_int clEnqueueBarrierWithWaitList(cl_command_queue, WAIT)
void * clGetExtensionFunctionAddressForPlatform(cl_platform_id, const char *)
cl_mem clCreateFromGLTexture(cl_context, cl_ulong, cl_uint, cl_int, cl_uint, cl_int *) !CL_INVALID_OPERATION
reserved clGetDeviceIDsFromD3D11KHR
reserved clCreateFromD3D11BufferKHR
reserved clCreateFromD3D11Texture2DKHR
reserved clCreateFromD3D11Texture3DKHR
reserved clCreateFromDX9MediaSurfaceKHR
reserved clEnqueueAcquireD3D11ObjectsKHR
reserved clEnqueueReleaseD3D11ObjectsKHR
reserved clGetDeviceIDsFromDX9MediaAdapterKHR
reserved clEnqueueAcquireDX9MediaSurfacesKHR
reserved clEnqueueReleaseDX9MediaSurfacesKHR
cl_mem clCreateFromEGLImageKHR(cl_context, void *, void *, cl_ulong, const intptr_t *, \
cl_int *) !CL_INVALID_OPERATION
cl_int clEnqueueAcquireEGLObjectsKHR(cl_command_queue, GL_OBJECTS) !CL_INVALID_OPERATION
cl_int clEnqueueReleaseEGLObjectsKHR(cl_command_queue, GL_OBJECTS) !CL_INVALID_OPERATION
cl_event clCreateEventFromEGLSyncKHR(cl_context, void *, void *, cl_int *) !CL_INVALID_OPERATION
cl_command_queue clCreateCommandQueueWithProperties(cl_context, cl_device_id, const cl_ulong *, cl_int *)
cl_mem clCreatePipe(cl_context, cl_ulong, cl_uint, cl_uint, const intptr_t *, \
cl_int *) !CL_INVALID_OPERATION
cl_int clGetPipeInfo(cl_mem, INFO) !CL_INVALID_MEM_OBJECT
void * clSVMAlloc(cl_context, cl_ulong, size_t, cl_uint)
void clSVMFree(cl_context, void *)
cl_int clEnqueueSVMFree(cl_command_queue, cl_uint, void **, void (*)(cl_command_queue, cl_uint, void **, \
void *), void *, WAIT)
cl_int clEnqueueSVMMemcpy(cl_command_queue, cl_uint, void *, const void *, size_t, \
WAIT)
cl_int clEnqueueSVMMemFill(cl_command_queue, void *, const void *, size_t, size_t, \
WAIT)
cl_int clEnqueueSVMMap(cl_command_queue, cl_uint, cl_ulong, void *, size_t, WAIT)
cl_int clEnqueueSVMUnmap(cl_command_queue, void *, WAIT)
cl_sampler clCreateSamplerWithProperties(cl_context, const cl_ulong *, cl_int *)
cl_int clSetKernelArgSVMPointer(cl_kernel, cl_uint, const void *)
cl_int clSetKernelExecInfo(cl_kernel, cl_uint, size_t, const void *)
cl_int clGetKernelSubGroupInfoKHR(cl_kernel, cl_device_id, cl_uint, size_t, const void *, size_t, void *, \
size_t *)
cl_kernel clCloneKernel(cl_kernel, cl_int *)
cl_program clCreateProgramWithIL(cl_context, const void *, size_t, cl_int *) !CL_INVALID_OPERATION
cl_int clEnqueueSVMMigrateMem(cl_command_queue, cl_uint, const void **, SIZES, cl_ulong, \
WAIT)
cl_int clGetDeviceAndHostTimer(cl_device_id, cl_ulong *, cl_ulong *)
cl_int clGetHostTimer(cl_device_id, cl_ulong *)
cl_int clGetKernelSubGroupInfo(cl_kernel, cl_device_id, cl_uint, size_t, const void *, size_t, void *, \
size_t *)
cl_int clSetDefaultDeviceCommandQueue(cl_context, cl_device_id, cl_command_queue) !CL_INVALID_OPERATION
cl_int clSetProgramReleaseCallback(cl_program, PROGRAM_NOTIFY) !CL_INVALID_OPERATION
cl_int clSetProgramSpecializationConstant(cl_program, cl_uint, size_t, const void *) !CL_INVALID_OPERATION
cl_mem clCreateBufferWithProperties(cl_context, const cl_ulong *, cl_ulong, size_t, void *, cl_int *)
cl_mem clCreateImageWithProperties(cl_context, const cl_ulong *, cl_ulong, const void *, const void *, \
void *, cl_int *)
cl_int clSetContextDestructorCallback(cl_context, void (*)(cl_context, void *), void *)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One slot.  ``error``: the code of its stub; empty when the client implements it.

    A reserved slot has no result and no parameters.
    """

    name: str
    result: str
    parameters: tuple[str, ...]
    error: str
    reserved: bool

    @property
    def implemented(self) -> bool:
        """Whether the client has a function of its own for this slot."""
        return not self.error and not self.reserved

    def prototype(self, name: str) -> str:
        """C declaration of this function under ``name``, without names of parameters."""
        return f"{self.result} {name}({', '.join(self.parameters) or 'void'})"


def _split(parameters: str) -> tuple[str, ...]:
    """The parameters of a list, cut at the commas outside parentheses."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(parameters):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(parameters[start:at].strip())
            start = at + 1
    found.append(parameters[start:].strip())
    return tuple(p for p in found if p and p != "void")


def _parse(line: str) -> Entry:
    text, _, error = line.partition("!")
    head, _, rest = text.strip().partition("(")
    result, _, name = head.rpartition(" ")
    for short, long in _ABBREVIATIONS.items():
        rest = rest.replace(short, long)
    if result == "reserved":
        return Entry(name, "", (), "", True)
    if not rest.endswith(")"):
        raise ValueError(f"{line!r}: not a declaration")
    return Entry(name, result, _split(rest[:-1]), error.strip(), False)


ENTRIES: tuple[Entry, ...] = tuple(_parse(line) for line in _TABLE.strip().splitlines())
assert len(ENTRIES) == NUM_SLOTS == len({e.name for e in ENTRIES})
