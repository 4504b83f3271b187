"""CUDA's numbers: the only place where they stand, for Python and, generated from here, for C.

Under their own names, whatever an enumeration of pycuda's lacks.  Source: CUDA driver API, "Data types used
by CUDA driver"; NVML reference, ``nvmlGpuP2PCapsIndex_t``.
"""

CUDA_ERROR_NOT_READY = 600
CU_EVENT_DISABLE_TIMING = 2
CU_STREAM_NON_BLOCKING = 1
CU_MEMORYTYPE_UNIFIED = 4
CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE = 1, 2
CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
CU_MEM_ALLOCATION_TYPE_PINNED = 1
CU_MEM_LOCATION_TYPE_DEVICE = 1
CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
NVML_P2P_STATUS_OK = 0
NVML_P2P_CAPS_INDEX_NVLINK = 2
