// SPDX-License-Identifier: Apache-2.0
// Copies and fills, checked, before they go into a stream or a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "runtime/task.h"

namespace hostcuda::rt {

struct CopyEnds {
  bool pageable_source = false, pageable_destination = false;
  bool from_host = false, to_host = false;
};

// Checks a copy against what lies at its addresses and fills in its cost; `*ends` says what was found. An empty copy is
// right whatever its addresses are.
cudaError_t plan(CopyTask* task, cudaMemcpyKind kind, CopyEnds* ends);

// Takes the source's bytes along, so that the CPU may change them.
void stage(CopyTask* task);

// The same checks for a fill. Only memory that a device reaches can be filled.
cudaError_t plan(SetTask* task);

inline bool is_empty(const CopyTask& task) { return task.bytes == 0 || task.rows == 0 || task.planes == 0; }
inline bool is_empty(const SetTask& task) { return task.width == 0 || task.rows == 0 || task.planes == 0; }

CopyTask one_row(void* dst, const void* src, std::size_t bytes);
SetTask one_row(void* address, std::uint32_t value, unsigned value_bytes, std::size_t count);

// A fill that the program calls: checked, put into its stream, and waited for where CUDA does. Synchronous ones return
// at once as well, unless they fill memory that the CPU reads without asking.
cudaError_t set(SetTask task, cudaStream_t stream, bool blocking);

// A copy between linear memory; nothing where it is about arrays or cut off by pitches, which hostcuda has not.
std::optional<CopyTask> task_of(const cudaMemcpy3DParms& params);
// What such a copy's parameters were, for those who ask a node.
cudaMemcpy3DParms params_of(const CopyTask& task);

}  // namespace hostcuda::rt
