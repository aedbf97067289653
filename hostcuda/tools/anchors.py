# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""What the rewriter changes in NCCL besides inline PTX, and how often each place must occur.

Anchors are as short as they can be while they still say what they mean, so that patches around them do not matter.
Replacements must keep every line of device macros joined by backslashes.
"""

from __future__ import annotations

import anchors_symmetric
from edits import Edit, Function

_SHIM = "::hostcuda::shim::"

_BY_REFERENCE = Edit(
    "ncclDevKernelArgs4K NCCL_GRID_CONSTANT const args4K",
    "ncclDevKernelArgs4K NCCL_GRID_CONSTANT const& args4K",
    1,
    "4 KiB of arguments on every fiber's stack would be a waste: kernels take them where the launch left them",
)

_COMMON_H = (
    Edit(
        "extern __shared__ ncclShmemData ncclShmem;",
        "#define ncclShmem (*reinterpret_cast<ncclShmemData*>(hostcuda_device_thread->static_shared))",
        1,
        "shared memory belongs to the CTA of the running fiber",
    ),
    Edit(
        "extern __shared__ ulong2 ncclShmemPerWarp[/*ncclShmemDynamicSize()/sizeof(ulong2)*/];",
        "#define ncclShmemPerWarp (reinterpret_cast<ulong2*>(hostcuda_device_thread->dynamic_shared))",
        1,
        "the same for dynamic shared memory; macros cannot be defined inside of the #if, so the indentation stays",
    ),
    Edit(_BY_REFERENCE.old, _BY_REFERENCE.new, 3, _BY_REFERENCE.why),
    Edit(
        "    ncclKernelMain<specializedFnId, RunWorkBatch<coll, ty, redop<ty>, algo, proto>>(&args4K.args); \\\n  }\n",
        "    ncclKernelMain<specializedFnId, RunWorkBatch<coll, ty, redop<ty>, algo, proto>>(&args4K.args); \\\n  } \\\n"
        "  HOSTCUDA_REGISTER_KERNEL(ncclDevKernel_##suffix, ncclDevKernelArgs4K, sizeof(ncclShmemData))\n",
        1,
        "hostcuda runs registered kernels only",
    ),
    Edit(
        "const& args4K) {}\n",
        "const&) {} \\\n  HOSTCUDA_REGISTER_LEFT_OUT(ncclDevKernel_##suffix)\n",
        1,
        "a kernel that this compute capability lacks must not look as if it had run",
    ),
    Edit(
        "    // Put NOT IMPLEMENTED behavior here.\n",
        '    ::hostcuda::simt::device_fail("NCCL has no device code for this collective, algorithm and protocol");\n',
        1,
        "the same for combinations without an implementation",
    ),
)

_COMMON_CU = (
    Edit(
        "\n__shared__ ncclShmemData ncclShmem;\n",
        "\nHOSTCUDA_REGISTER_KERNEL(ncclDevKernel_Generic, ncclDevKernelArgs4K, sizeof(ncclShmemData))\n",
        1,
        "shared memory needs no definition; the generic kernel is registered here",
    ),
    _BY_REFERENCE,
    Edit(
        "__device__ void ncclDevFunc_Nop() {}",
        "__device__ void ncclDevFunc_Nop() {\n"
        '  ::hostcuda::simt::device_fail("a device function that this build of NCCL leaves out was called");\n'
        "}",
        1,
        "functions left out of a build share this entry of the table; doing nothing would give wrong data",
    ),
)

_GIN_RESET = Function(
    "__global__ void ncclDevKernelGinResetSignalsAndCounters(",
    "__global__ void ncclDevKernelGinResetSignalsAndCounters(ncclDevComm) {}\n"
    "HOSTCUDA_REGISTER_LEFT_OUT(ncclDevKernelGinResetSignalsAndCounters)",
)

_ONERANK_CU = (
    Edit(
        "void oneRankReduce(void* dst, void* src, size_t nElts, uint64_t redOpArg, bool redOpArgIsPtr) {\n",
        "void oneRankReduce(HostcudaOneRankArgs const& args) {\n"
        "    auto [dst, src, nElts, redOpArg, redOpArgIsPtr] = args;\n",
        1,
        "kernels take one structure by reference",
    ),
    Edit(
        "namespace {\n  template<typename RedOp>\n",
        "namespace {\n"
        "  struct HostcudaOneRankArgs { void* dst; void* src; size_t nElts; uint64_t redOpArg; bool redOpArgIsPtr; };\n\n"
        "  template<typename RedOp>\n",
        1,
        "that structure",
    ),
    Edit(
        "  void* args[5] = {&dst, &src, &nElts, &redOp.scalarArg, &redOp.scalarArgIsPtr};\n",
        "  HostcudaOneRankArgs packed = {dst, const_cast<void*>(src), nElts, redOp.scalarArg, redOp.scalarArgIsPtr};\n"
        "  void* args[1] = {&packed};\n"
        '  ::hostcuda::shim::register_once(kernel, "oneRankReduce", sizeof packed);\n',
        1,
        "instances of the template register when they are first launched",
    ),
)

# ---- waiting ----

_PRIMITIVES_H = (
    Edit(
        "__device__ inline int checkAbort(int &abortCache, const int abortValue, int &spins) {\n",
        "template<bool InWarp = false>\n"
        "__device__ inline int checkAbort(int &abortCache, const int abortValue, int &spins) {\n",
        1,
        "inside of a warp vote the vote gives way, not every lane",
    ),
    Edit(
        "  if (++spins < NCCL_SPINS_BEFORE_CHECK_ABORT) return 0;\n  spins = 0;\n",
        f"  if (!(InWarp ? {_SHIM}poll_in_warp(spins) : {_SHIM}poll(spins))) return 0;\n",
        1,
        "every wait loop gives way to other fibers",
    ),
)


def _waited(pointer: str, needed: str) -> str:
    return f"{_SHIM}counter_waited({pointer}, {needed});"


def _stored(pointer: str, value: str) -> str:
    return f"{_SHIM}counter_stored({pointer}, {value});"


_SIMPLE_WAIT = (
    "while (connStepCache + (isSendNotRecv ? NCCL_STEPS : 0) < step + StepPerSlice) {\n"
    "{i}  connStepCache = loadStepValue(connStepPtr);\n"
    "{i}  if (checkAbort(flags, Aborted, spins)) break;\n"
)

_PRIMS_SIMPLE_H = (
    Edit(
        '        //if (spins == 0) printf("r=%d b=%d t=%d SPUN OUT got=%d want=%d\\n", ncclShmem.comm.rank, blockIdx.x,'
        " threadIdx.x, int(connStepCache + (isSendNotRecv ? NCCL_STEPS : 0)), int(step+StepPerSlice));\n"
        "      }\n",
        f"      }}\n      {_waited('connStepPtr', 'step + StepPerSlice - (isSendNotRecv ? NCCL_STEPS : 0)')}\n",
        1,
        "a wait ends when the step it needed was posted",
    ),
    Edit(
        "            if (checkAbort(flags, Aborted, spins)) break;\n          }\n",
        "            if (checkAbort(flags, Aborted, spins)) break;\n          }\n"
        f"          {_waited('connStepPtr', 'step + StepPerSlice - (isSendNotRecv ? NCCL_STEPS : 0)')}\n",
        1,
        "the same in process()",
    ),
    Edit(
        "st_relaxed_sys_global(connStepPtr, step);",
        f"{_stored('connStepPtr', 'step')} st_relaxed_sys_global(connStepPtr, step);",
        2,
        "posting a step records its time",
    ),
    Edit(
        "      *connStepPtr = step; // Return credits in case we rounded up.\n",
        f"      {_SHIM}store_counter(connStepPtr, step);\n",
        1,
        "credits returned by rounding up, too, and possibly to all members of a multicast address",
    ),
)

_LL_WAIT_SEND = (
    Edit(
        "        if (checkAbort(abort, 1, spins)) break;\n      }\n      if (sendConnFifo) {\n",
        "        if (checkAbort(abort, 1, spins)) break;\n      }\n"
        f"      {_waited('sendConnHeadPtr', 'sendConnHead + 1 - NCCL_STEPS')}\n"
        "      if (sendConnFifo) {\n",
        1,
        "LL and LL128 wait for credits only; data carries its own stamps",
    ),
    Edit(
        "if (recvConnHeadPtr) *recvConnHeadPtr = recvConnHead += 1;",
        f"if (recvConnHeadPtr) {{ {_stored('recvConnHeadPtr', 'recvConnHead + 1')} *recvConnHeadPtr = recvConnHead += 1; }}",
        1,
        "returning a credit records its time",
    ),
)

_PRIMS_LL_H = (
    *_LL_WAIT_SEND,
    Edit(
        "    int eltPerTrip = nthreads*EltPerLine;\n",
        "    int eltPerTrip = nthreads*EltPerLine;\n"
        f"    {_SHIM}LineCost hcCost(nthreads);\n"
        "    if (SRC) hcCost.load(srcElts, sizeof(uint64_t));\n"
        "    if (DST) hcCost.store(dstElts, sizeof(uint64_t));\n"
        "    if (RECV) for (int i=0; i < MaxRecv && i < fan.nrecv(); i++) hcCost.load(recvPtr(i), sizeof(ncclLLFifoLine));\n"
        "    if (SEND) for (int i=0; i < MaxSend && i < fan.nsend(); i++) hcCost.store(sendPtr(i), sizeof(ncclLLFifoLine));\n"
        "    hcCost.settle();\n",
        1,
        "a line costs time by the bytes it moves",
    ),
    Edit(
        "      int eltInLine = EltPerLine < nelem ? EltPerLine : nelem;\n",
        "      int eltInLine = EltPerLine < nelem ? EltPerLine : nelem;\n      hcCost.pay();\n",
        1,
        "each line",
    ),
)

_PRIMS_LL128_H = (
    *_LL_WAIT_SEND,
    Edit(
        "if (sendConnTailPtr) {\n#if",
        f"if (sendConnTailPtr) {{\n      {_stored('sendConnTailPtr', 'sendConnTail + 1')}\n#if",
        1,
        "the tail that a proxy reads",
    ),
    Edit(
        "load128(ptr+u*WARP_SIZE, ",
        f"{_SHIM}load_line128(ptr+u*WARP_SIZE, ",
        4,
        "lines of the FIFO carry stamps, the user's buffers do not",
    ),
    Edit(
        "store128(ptr+u*WARP_SIZE, ",
        f"{_SHIM}store_line128(ptr+u*WARP_SIZE, ",
        2,
        "the same for stores",
    ),
    Edit(
        "needReload &= (0 == checkAbort(abort, 1, spins));",
        "needReload &= (0 == checkAbort<true>(abort, 1, spins));",
        2,
        "the vote that follows gives way already; all lanes need not do so twice",
    ),
    Edit(
        "    nelem -= DataEltPerSlice*warp;\n",
        "    // A lane moves 64 bytes on the wire a slice, 60 of them data on average.\n"
        f"    {_SHIM}LineCost hcCost(nthreads);\n"
        "    constexpr int hcWire = WireWordPerSlice*int(sizeof(uint64_t))/WARP_SIZE;\n"
        "    constexpr int hcData = DataEltPerSlice*int(sizeof(T))/WARP_SIZE;\n"
        "    if (SRC) hcCost.load(srcPtr, hcData);\n"
        "    if (DST) hcCost.store(dstPtr, hcData);\n"
        "    if (RECV) for (int i=0; i < MaxRecv && i < fan.nrecv(); i++) hcCost.load(recvPtr(i), hcWire);\n"
        "    if (SEND) for (int i=0; i < MaxSend && i < fan.nsend(); i++) hcCost.store(sendPtr(i), hcWire);\n"
        "    hcCost.settle();\n"
        "    nelem -= DataEltPerSlice*warp;\n",
        1,
        "a slice costs time by the bytes it moves",
    ),
    Edit(
        "      const int eltInSlice = min(nelem, DataEltPerSlice);\n",
        "      const int eltInSlice = min(nelem, DataEltPerSlice);\n      hcCost.pay();\n",
        1,
        "each slice",
    ),
    Edit(
        "      int misalignment = reinterpret_cast<uintptr_t>(src) % 16;\n",
        "      __syncwarp();\n      int misalignment = reinterpret_cast<uintptr_t>(src) % 16;\n",
        1,
        "the slice before may still be read out of the warp's scratch: on a GPU the lanes are done with it together",
    ),
)

# ---- bulk data ----

_COMMON_KERNEL_H = (
    Edit(
        "(warp*BytePerHunk + lane*BytePerPack);",
        "(warp*BytePerHunk + lane*BytePerPack*Unroll);",
        2,
        "lanes that run one after the other each take consecutive bytes of their warp's hunk, not every 32nd pack: "
        "the same bytes move, in whole cache lines",
    ),
    Edit("minSrcs[0] += WARP_SIZE*BytePerPack;", "minSrcs[0] += BytePerPack;", 1, "consecutive packs"),
    Edit("minSrcs[s] += WARP_SIZE*BytePerPack;", "minSrcs[s] += BytePerPack;", 1, "consecutive packs"),
    Edit("        src += WARP_SIZE*BytePerPack;", "        src += BytePerPack;", 1, "consecutive packs"),
    Edit("minDsts[d] += WARP_SIZE*BytePerPack;", "minDsts[d] += BytePerPack;", 1, "consecutive packs"),
    Edit("        dst += WARP_SIZE*BytePerPack;", "        dst += BytePerPack;", 1, "consecutive packs"),
    Edit(
        "minSrcs[s] += (nWarps-1)*BytePerHunk;",
        "minSrcs[s] += nWarps*BytePerHunk - Unroll*BytePerPack;",
        1,
        "to the lane's place in the warp's next hunk",
    ),
    Edit(
        "minDsts[d] += (nWarps-1)*BytePerHunk;",
        "minDsts[d] += nWarps*BytePerHunk - Unroll*BytePerPack;",
        1,
        "to the lane's place in the warp's next hunk",
    ),
    Edit(
        "  IntBytes nBytesBehind = 0;\n  IntBytes nBytesAhead = nElts*sizeof(T);\n",
        "  IntBytes nBytesBehind = 0;\n  IntBytes nBytesAhead = nElts*sizeof(T);\n"
        f"  {_SHIM}charge_copy(thread, nThreads, nSrcs, srcPtrFn, nDsts, dstPtrFn, nBytesAhead);\n",
        1,
        "a copy or reduction costs time by the bytes it moves",
    ),
)

_REDUCE_KERNEL_H = (
    Edit(
        "recip =  UintType(-1)/divisor;",
        "recip =  divisor ? UintType(-1)/divisor : UintType(-1);",
        1,
        "x86 traps where a GPU gives all ones; some paths build the operator without its argument",
    ),
)

# ---- PAT: loops that wait without checkAbort ----

_PAT = (
    Edit(
        "!= 0) pollCount++;",
        f"!= 0) {{ pollCount++; {_SHIM}poll_unchecked(); }}",
        1,
        "a wait loop of its own",
    ),
    Edit(
        "== 0) pollCount++;",
        f"== 0) {{ pollCount++; {_SHIM}poll_unchecked(); }}",
        1,
        "a wait loop of its own",
    ),
    Edit(
        "while (parallelFactor == 0) parallelFactor = *pfPtr;",
        f"while (parallelFactor == 0) {{ parallelFactor = *pfPtr; {_SHIM}poll_unchecked(); }}",
        1,
        "a wait loop of its own",
    ),
)

# ---- host code ----

_ENQUEUE_CC = (
    Edit(
        "    CUCHECKGOTO(cuLaunchKernelEx(&launchConfig, fn, nullptr, extra), ret, do_return);\n",
        "    hostcudaAnnounce(comm, plan, nChannels);\n"
        "    CUCHECKGOTO(cuLaunchKernelEx(&launchConfig, fn, nullptr, extra), ret, do_return);\n",
        1,
        "the clock ties the ranks' launches together by communicator and number",
    ),
    Edit(
        "ncclResult_t ncclLaunchKernel(struct ncclComm* comm, struct ncclKernelPlan* plan) {\n",
        '#include "hostcuda_announce.h"\n\n'
        "ncclResult_t ncclLaunchKernel(struct ncclComm* comm, struct ncclKernelPlan* plan) {\n",
        1,
        "what to announce is worked out in a file of hostcuda's own",
    ),
)


_PROXY_CC = (
    Edit(
        "void* ncclProxyServiceUDS(void* _args);\n",
        '#include "hostcuda_helper.h"\nvoid* ncclProxyServiceUDS(void* _args);\n',
        1,
        "for the lines below",
    ),
    *(
        Edit(head, f"{head}  hostcudaThisThreadHelps();\n", 1, "what a proxy thread enqueues costs no modelled time")
        for head in (
            "void* ncclProxyProgress(void *proxyState_) {\n",
            "void* ncclProxyService(void* _args) {\n",
            "void* ncclProxyServiceUDS(void* _args) {\n",
        )
    ),
)

_INIT_CC = (
    Edit(
        "static ncclResult_t commFree(ncclComm_t comm) {\n",
        '#include "hostcuda_forget.h"\n\n'
        "static ncclResult_t commFree(ncclComm_t comm) {\n"
        "  if (comm != NULL) hostcudaCommunicatorEnds(comm->cudaDev, comm->commHash);\n",
        1,
        "hostcuda counts the launches of a communicator no longer than it lives",
    ),
    Edit(
        "static ncclResult_t devCommSetup(ncclComm_t comm) {\n",
        '#include "hostcuda_helper.h"\nstatic ncclResult_t devCommSetup(ncclComm_t comm) {\n',
        1,
        "for the lines below",
    ),
    Edit(
        "  tmpCommAndChans.comm.workCompleted = comm->profiler.workCompleted;\n",
        "  tmpCommAndChans.comm.workCompleted = comm->profiler.workCompleted;\n"
        "  if (ncclProfilerPluginLoaded()) {\n"
        "    hostcudaHoldsDeviceTimes(comm->profiler.workStarted, MAXCHANNELS);\n"
        "    hostcudaHoldsDeviceTimes(comm->profiler.workCompleted, MAXCHANNELS);\n"
        "  }\n",
        1,
        "kernels store times there for profilers",
    ),
)

_PROFILER_CC = (
    Edit(
        "static ncclResult_t profilerProxyProgress(",
        '#include "hostcuda_helper.h"\n'
        "// A communicator that ends waits for nothing more: whoever never synchronized gets times as they were stored.\n"
        "static bool isTold(const struct ncclProxyState* state, const struct ncclDevProfiler& seen, uint64_t base) {\n"
        "  const auto& event = seen.data[base%MAX_PROFILER_EVENTS_PER_CHANNEL];\n"
        "  return base <= event.counter && (hostcudaTimeIsKnown(event.timestamp) || state->progressState.stop);\n"
        "}\n\n"
        "static ncclResult_t profilerProxyProgress(",
        1,
        "an event is told once its time is known",
    ),
    *(
        Edit(
            f"sub->base <= {array}[sub->channelId].data[sub->base%MAX_PROFILER_EVENTS_PER_CHANNEL].counter)",
            f"isTold(proxyState, {array}[sub->channelId], sub->base))",
            1,
            "as above",
        )
        for array in ("workStarted", "workCompleted")
    ),
)

_GENERATE_PY = (
    Edit(
        'out("__global__ void %s(ncclDevKernelArgs4K const);\\n" % sym)',
        'out("__global__ void %s(ncclDevKernelArgs4K const&);\\n" % sym)',
        1,
        "as the kernels themselves",
    ),
)

EDITS: dict[str, tuple[Edit, ...]] = {
    "src/device/common.h": _COMMON_H,
    "src/device/common.cu": _COMMON_CU,
    "src/device/onerank.cu": _ONERANK_CU,
    "src/device/primitives.h": _PRIMITIVES_H,
    "src/device/prims_simple.h": _PRIMS_SIMPLE_H,
    "src/device/prims_ll.h": _PRIMS_LL_H,
    "src/device/prims_ll128.h": _PRIMS_LL128_H,
    "src/device/common_kernel.h": _COMMON_KERNEL_H,
    "src/device/reduce_kernel.h": _REDUCE_KERNEL_H,
    "src/device/all_gather.h": _PAT,
    "src/device/reduce_scatter.h": _PAT,
    "src/device/generate.py": _GENERATE_PY,
    "src/enqueue.cc": _ENQUEUE_CC,
    "src/init.cc": _INIT_CC,
    "src/proxy.cc": _PROXY_CC,
    "src/transport/profiler.cc": _PROFILER_CC,
    **anchors_symmetric.EDITS,
}

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "src/device/common.cu": (_GIN_RESET,),
}
