// SPDX-License-Identifier: Apache-2.0
// cudaMemcpyBatchAsync: many copies in one call. They follow each other in the stream, which is one of the orders that
// the program has to expect. Pageable memory is read when the attributes say so: before the call returns, or in stream
// order.
#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/error.h"

namespace hostcuda::rt {
namespace {

bool is_known(const cudaMemcpyAttributes& attributes) {
  const bool has_order = attributes.srcAccessOrder >= cudaMemcpySrcAccessOrderStream &&
                         attributes.srcAccessOrder <= cudaMemcpySrcAccessOrderAny;
  return has_order && (attributes.flags & ~static_cast<unsigned>(cudaMemcpyFlagPreferOverlapWithCompute)) == 0;
}

// The attributes of copy i are those with the largest index that is not above i; this is what CUDA asks of the indices.
bool are_known(const cudaMemcpyAttributes* attributes, const std::size_t* first, std::size_t attribute_count,
               std::size_t count) {
  if (attributes == nullptr || first == nullptr || attribute_count == 0 || attribute_count > count || first[0] != 0) {
    return false;
  }
  for (std::size_t k = 0; k < attribute_count; ++k) {
    if (!is_known(attributes[k]) || first[k] >= count || (k > 0 && first[k] <= first[k - 1])) return false;
  }
  return true;
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaMemcpyBatchAsync(void* const* dsts, const void* const* srcs, const size_t* sizes,
                                           size_t count, cudaMemcpyAttributes* attributes, size_t* first,
                                           size_t attribute_count, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (handle == nullptr || handle == cudaStreamLegacy || dsts == nullptr || srcs == nullptr || sizes == nullptr ||
      count == 0 || !are_known(attributes, first, attribute_count, count)) {
    return report(cudaErrorInvalidValue);
  }
  // All is checked before anything is enqueued.
  std::vector<CopyTask> tasks;
  for (std::size_t i = 0, k = 0; i < count; ++i) {
    if (k + 1 < attribute_count && first[k + 1] == i) ++k;
    CopyTask task = one_row(dsts[i], srcs[i], sizes[i]);
    CopyEnds ends;
    if (const cudaError_t error = plan(&task, cudaMemcpyDefault, &ends); error != cudaSuccess) return report(error);
    if (is_empty(task)) continue;
    if (ends.pageable_source && attributes[k].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall) stage(&task);
    tasks.push_back(std::move(task));
  }
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (stream->capture) return report(cudaErrorStreamCaptureUnsupported);
  for (CopyTask& task : tasks) {
    if (const cudaError_t error = submit(stream, std::move(task)); error != cudaSuccess) return report(error);
  }
  return cudaSuccess;
}
