// SPDX-License-Identifier: Apache-2.0
// CUDA's headers rename driver functions to their latest version (cuCtxDestroy is cuCtxDestroy_v2). Who asks dlsym for
// the plain name gets the first version from NVIDIA's library. Here are those whose first version takes the same
// parameters in a 64-bit process; the others took device addresses and sizes of 32 bits, and nobody asks for them.
// This file does not include CUDA's headers, which would rename its functions as well.
#include <cstdint>

#define PLAIN extern "C" __attribute__((visibility("default"))) int

#define SAME(name, latest, parameters, arguments)  \
  extern "C" int latest parameters;                \
  PLAIN name parameters { return latest arguments; }

SAME(cuDeviceGetUuid, cuDeviceGetUuid_v2, (void* uuid, int device), (uuid, device))
SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int device), (device))
SAME(cuCtxDestroy, cuCtxDestroy_v2, (void* context), (context))
SAME(cuCtxPushCurrent, cuCtxPushCurrent_v2, (void* context), (context))
SAME(cuCtxPopCurrent, cuCtxPopCurrent_v2, (void** context), (context))
SAME(cuStreamDestroy, cuStreamDestroy_v2, (void* stream), (stream))
SAME(cuEventDestroy, cuEventDestroy_v2, (void* event), (event))
SAME(cuEventElapsedTime, cuEventElapsedTime_v2, (float* ms, void* start, void* end), (ms, start, end))

// The first version has no place for the answer why; not found is an error there.
extern "C" int cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, void*);
PLAIN cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
