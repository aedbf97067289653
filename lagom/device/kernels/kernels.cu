/* SPDX-License-Identifier: Apache-2.0 */
/* The computation of an overlap workload on a GPU: kernels that cost what a description says. lagom/device/fitting.py
 * chooses among them and their sizes; the structures below are packed there, field by field. */
#include <cuda_bf16.h>

#include "ops.h"

/* ---- a matrix product: c[m][n] = a[m][k] b[n][k]^T, bf16, sums in f32 ---- */

struct GemmArgs {
  const uint16_t* a; /* bf16, k contiguous in both operands */
  const uint16_t* b;
  uint16_t* c;       /* n contiguous */
  uint32_t rows_of_tiles;
  uint32_t columns_of_tiles; /* the last column of tiles may be cut short: CTAs count down the columns */
  uint32_t k;        /* a multiple of kSlice */
};

constexpr int kSlice = 32;  /* of k, from memory at a time */
constexpr int kStages = 3;  /* slices on their way or in use */
constexpr int kRow = kSlice + 8; /* elements of a row in shared memory: with this gap no two rows share their banks */
constexpr int kWarpRows = 64, kWarpColumns = 32;

/* One slice of `Rows` rows, 16 bytes a thread at a time. */
template <int Rows, int Threads>
__device__ __forceinline__ void load_slice(uint16_t* shared, const uint16_t* from, uint32_t k) {
  constexpr int kPieces = kSlice / 8; /* of 16 bytes, a row */
#pragma unroll
  for (int i = threadIdx.x; i < Rows * kPieces; i += Threads) {
    int row = i / kPieces, piece = i % kPieces;
    copy_async(shared + row * kRow + piece * 8, from + (size_t)row * k + piece * 8);
  }
}

__device__ __forceinline__ uint32_t two(const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); }

template <int WarpsDown, int WarpsAcross>
__device__ __forceinline__ void gemm(const GemmArgs& args) {
  constexpr int kThreads = WarpsDown * WarpsAcross * 32;
  constexpr int kTileRows = WarpsDown * kWarpRows, kTileColumns = WarpsAcross * kWarpColumns;
  constexpr int kStage = (kTileRows + kTileColumns) * kRow; /* elements */
  LAGOM_SHARED(lagom_shared);
  uint16_t* stages = reinterpret_cast<uint16_t*>(lagom_shared);

  const uint32_t tile_row = blockIdx.x % args.rows_of_tiles, tile_column = blockIdx.x / args.rows_of_tiles;
  const uint16_t* a = args.a + (size_t)tile_row * kTileRows * args.k;
  const uint16_t* b = args.b + (size_t)tile_column * kTileColumns * args.k;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = warp / WarpsAcross * kWarpRows, column0 = warp % WarpsAcross * kWarpColumns;
  const int g = lane / 4, t = lane % 4;
  const int slices = args.k / kSlice;

  float sums[kWarpRows / 16][kWarpColumns / 8][4] = {};
  for (int slice = 0; slice < kStages - 1; slice++) {
    if (slice < slices) {
      uint16_t* stage = stages + slice * kStage;
      load_slice<kTileRows, kThreads>(stage, a + slice * kSlice, args.k);
      load_slice<kTileColumns, kThreads>(stage + kTileRows * kRow, b + slice * kSlice, args.k);
    }
    commit_copies();
  }
  for (int slice = 0; slice < slices; slice++) {
    wait_copies<kStages - 2>();
    __syncthreads(); /* the slice is there for all threads, and nobody reads the one before it any more */
    const int next = slice + kStages - 1;
    if (next < slices) {
      uint16_t* stage = stages + next % kStages * kStage;
      load_slice<kTileRows, kThreads>(stage, a + (size_t)next * kSlice, args.k);
      load_slice<kTileColumns, kThreads>(stage + kTileRows * kRow, b + (size_t)next * kSlice, args.k);
    }
    commit_copies();
    const uint16_t* left = stages + slice % kStages * kStage + (row0 + g) * kRow + 2 * t;
    const uint16_t* right = stages + slice % kStages * kStage + (kTileRows + column0 + g) * kRow + 2 * t;
#pragma unroll
    for (int depth = 0; depth < kSlice; depth += 16) {
      uint32_t columns[kWarpColumns / 8][2];
#pragma unroll
      for (int j = 0; j < kWarpColumns / 8; j++) {
        columns[j][0] = two(right + j * 8 * kRow + depth);
        columns[j][1] = two(right + j * 8 * kRow + depth + 8);
      }
#pragma unroll
      for (int i = 0; i < kWarpRows / 16; i++) {
        const uint16_t* at = left + i * 16 * kRow + depth;
        uint32_t rows[4] = {two(at), two(at + 8 * kRow), two(at + 8), two(at + 8 * kRow + 8)};
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; j++) multiply(sums[i][j], rows, columns[j]);
      }
    }
  }

  const size_t n = (size_t)args.columns_of_tiles * kTileColumns;
  uint16_t* c = args.c + ((size_t)tile_row * kTileRows + row0 + g) * n + tile_column * kTileColumns + column0 + 2 * t;
#pragma unroll
  for (int i = 0; i < kWarpRows / 16; i++) {
#pragma unroll
    for (int j = 0; j < kWarpColumns / 8; j++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
        *reinterpret_cast<__nv_bfloat162*>(c + (size_t)(i * 16 + half * 8) * n + j * 8) = pair;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) lagom_gemm_128(LAGOM_ARGUMENTS(GemmArgs) args) { gemm<2, 2>(args); }
extern "C" __global__ void __launch_bounds__(256) lagom_gemm_256(LAGOM_ARGUMENTS(GemmArgs) args) { gemm<2, 4>(args); }
extern "C" __global__ void __launch_bounds__(512) lagom_gemm_512(LAGOM_ARGUMENTS(GemmArgs) args) { gemm<4, 4>(args); }

/* ---- a stream of memory traffic with a little arithmetic ---- */

struct StreamArgs {
  const uint4* source;
  uint4* target;
  uint64_t source_vectors; /* 16 bytes each; what lies behind the last is the first again */
  uint64_t target_vectors;
  uint64_t reads;          /* vectors in all */
  uint64_t writes;
  uint32_t multiplies;     /* fused multiply-adds a thread and step */
  float factor, summand;
  float never;             /* a value that the arithmetic cannot reach, which the compiler does not know */
};

/* In step s, thread i of all T reads vector s T + i, adds it to its running sums, and writes those to vector s T + i. */
extern "C" __global__ void __launch_bounds__(1024) lagom_stream(LAGOM_ARGUMENTS(StreamArgs) args) {
  const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
  const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t most = args.reads > args.writes ? args.reads : args.writes;
  uint64_t from = first % args.source_vectors, to = first % args.target_vectors;
  const uint64_t from_step = threads % args.source_vectors, to_step = threads % args.target_vectors;
  uint4 sums = {0, 0, 0, 0};
  float value = (float)threadIdx.x;
#pragma unroll 4
  for (uint64_t at = first; at < most; at += threads) {
    if (at < args.reads) {
      uint4 read = args.source[from];
      sums.x += read.x;
      sums.y += read.y;
      sums.z += read.z;
      sums.w += read.w;
    }
    for (uint32_t i = 0; i < args.multiplies; i++) value = value * args.factor + args.summand;
    if (at < args.writes) args.target[to] = sums;
    from += from_step;
    if (from >= args.source_vectors) from -= args.source_vectors;
    to += to_step;
    if (to >= args.target_vectors) to -= args.target_vectors;
  }
  /* What was read and computed must look needed. */
  if (value == args.never || (args.writes == 0 && sums.x == 0x9e3779b9u && sums.y == 0x7f4a7c15u && sums.w == sums.z))
    args.target[0] = sums;
}
