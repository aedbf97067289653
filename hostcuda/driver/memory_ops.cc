// SPDX-License-Identifier: Apache-2.0
// The driver's stream memory operations.
#include "runtime/memory_ops.h"

#include <optional>
#include <utility>

#include "driver/driver.h"

using namespace hostcuda;
using rt::MemoryOp;

namespace {

constexpr unsigned kMostOps = 255;

std::optional<rt::Condition> condition_of(unsigned flags) {
  switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: return rt::Condition::greater_or_equal;
    case CU_STREAM_WAIT_VALUE_EQ: return rt::Condition::equal;
    case CU_STREAM_WAIT_VALUE_AND: return rt::Condition::any_bit;
    case CU_STREAM_WAIT_VALUE_NOR: return rt::Condition::any_zero_bit;
    default: return std::nullopt;
  }
}

CUresult add_wait(std::vector<MemoryOp>* ops, CUdeviceptr address, std::uint64_t value, unsigned bytes,
                  unsigned flags) {
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;  // as the attributes say
  const auto condition = condition_of(flags);
  if (!condition) return CUDA_ERROR_INVALID_VALUE;
  ops->push_back({MemoryOp::Kind::wait, reinterpret_cast<void*>(address), value, bytes, *condition});
  return CUDA_SUCCESS;
}

CUresult add_write(std::vector<MemoryOp>* ops, CUdeviceptr address, std::uint64_t value, unsigned bytes,
                   unsigned flags) {
  if (flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) {  // gone from this API's version
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  ops->push_back({MemoryOp::Kind::write, reinterpret_cast<void*>(address), value, bytes, {}});
  return CUDA_SUCCESS;
}

CUresult add(std::vector<MemoryOp>* ops, const CUstreamBatchMemOpParams& told) {
  switch (told.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return add_wait(ops, told.waitValue.address, told.waitValue.value, 4, told.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return add_wait(ops, told.waitValue.address, told.waitValue.value64, 8, told.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return add_write(ops, told.writeValue.address, told.writeValue.value, 4, told.writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return add_write(ops, told.writeValue.address, told.writeValue.value64, 8, told.writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
      if (told.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU) return CUDA_ERROR_INVALID_VALUE;
      ops->push_back({});
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

template <typename Add, typename Value>
CUresult enqueue_one(CUstream stream, Add add_one, CUdeviceptr address, Value value, unsigned flags) {
  std::vector<MemoryOp> ops;
  if (const CUresult result = add_one(&ops, address, value, sizeof value, flags); result != CUDA_SUCCESS) return result;
  return rt::to_driver(rt::enqueue_memory_ops(stream, std::move(ops)));
}

}  // namespace

HC_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* told, unsigned flags) {
  if (flags != 0 || count > kMostOps || (told == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemoryOp> ops;
  for (unsigned i = 0; i < count; ++i) {
    if (const CUresult result = add(&ops, told[i]); result != CUDA_SUCCESS) return result;
  }
  return rt::to_driver(rt::enqueue_memory_ops(stream, std::move(ops)));
}

HC_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return enqueue_one(stream, add_wait, address, value, flags);
}

HC_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return enqueue_one(stream, add_wait, address, value, flags);
}

HC_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return enqueue_one(stream, add_write, address, value, flags);
}

HC_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return enqueue_one(stream, add_write, address, value, flags);
}
