# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""What the rewriter changes in NCCL's symmetric kernels and in the part of its device API that they are built on.

As in ``anchors.py``: every anchor says how often it occurs. Headers that NCCL's host code includes as well keep their
number of lines: what the host sees of them then stays the same to the byte, and compiler caches know it.
"""

from __future__ import annotations

from edits import Edit

_SHIM = "::hostcuda::shim::"

# ---- kernels and their memory ----

_GENERATE_PY = (
    Edit(
        "NCCL_GRID_CONSTANT const args4K",
        "NCCL_GRID_CONSTANT const& args4K",
        4,
        "kernels take their arguments where the launch left them",
    ),
    Edit("(ncclSymkDevWorkArgs4K const);", "(ncclSymkDevWorkArgs4K const&);", 2, "as the kernels themselves"),
    Edit(
        '      "    #endif\\n"\n      "  }}\\n"\n      "#endif"\n',
        '      "    #endif\\n"\n      "  }}\\n"\n'
        '      "  #if {arch_cond}\\n"\n'
        '      "    HOSTCUDA_REGISTER_KERNEL({cname}, ncclSymkDevWorkArgs4K, ::hostcuda::shim::kStashBytes)\\n"\n'
        '      "  #else\\n"\n'
        '      "    HOSTCUDA_REGISTER_LEFT_OUT({cname})\\n"\n'
        '      "  #endif\\n"\n'
        '      "#endif"\n',
        2,
        "hostcuda runs registered kernels only; one that this compute capability lacks must not look as if it had run",
    ),
)

_PRIMITIVES_CUH = (
    Edit(
        "extern __shared__ ulong2 ncclSymkSmem[];",
        "#define ncclSymkSmem (reinterpret_cast<ulong2*>(hostcuda_device_thread->dynamic_shared))",
        1,
        "shared memory belongs to the CTA of the running fiber",
    ),
    Edit(
        "void getWorkRangeFused(int blockIdx, int w,",
        "void getWorkRangeFused(int hcBlock, int w,",
        1,
        "blockIdx is a macro of the shim; as a parameter's name it would not compile",
    ),
    Edit("block = blockIdx - dw.sChannelId;", "block = hcBlock - dw.sChannelId;", 1, "where that parameter is read"),
)

# loadPack of elements that are not aligned to words: NCCL looks at words that it did not load, and writes one behind the
# pack. Both are undefined, and make wrong data of LL all-gathers of few or odd bytes.
_OP128_H = (
    Edit(
        "      if (i*4/sizeof(T) < 1 || i*4/sizeof(T) < n) part[i] = down[i];\n",
        "      if (i < 1 || i*4 < n*(int)sizeof(T) + misalign) part[i] = down[i];\n",
        1,
        "the last element may end in the word behind the one in which it would end if it were aligned",
    ),
    Edit(
        "    if (misalign) extra = down[i];\n",
        "    if (misalign && i*4 < n*(int)sizeof(T) + misalign) extra = down[i];\n",
        1,
        "nor is a word read that no element reaches",
    ),
    Edit(
        "    for (i=0; i < Size/4; i++) {\n      part[i] = __funnelshift_r(part[i], part[i+1], 8*misalign);\n",
        "    for (i=0; i < Size/4-1; i++) {\n      part[i] = __funnelshift_r(part[i], part[i+1], 8*misalign);\n",
        1,
        "the line after the loop makes the pack's last word",
    ),
)

_COOP_H = (
    Edit(
        "  __shared__ ulong2 stash[15];\n  return stash;\n",
        f"\n  return reinterpret_cast<ulong2*>({_SHIM}stash());\n",
        1,
        "the same; kernels that are built on this header are registered with room for both stashes",
    ),
    Edit(
        "  __shared__ ulong2 stash;\n  return &stash;\n",
        f"\n  return reinterpret_cast<ulong2*>({_SHIM}stash()) + 15;\n",
        1,
        "and the other one behind it",
    ),
)

# ---- waiting ----

_UTILITY_H = (
    Edit(
        "// cuda/atomic header file is included so we can use atomic_ref to load the abortFlag\n"
        "static NCCL_DEVICE_INLINE bool testAbort(uint32_t* abortFlag, uint32_t& steps) {\n"
        "  const uint32_t maxSteps = 10000;\n"
        "  if (++steps < maxSteps) {\n",
        "\n\nstatic NCCL_DEVICE_INLINE bool testAbort(uint32_t* abortFlag, uint32_t& steps) {\n"
        f"  if (!{_SHIM}poll(steps)) {{\n",
        1,
        "every wait loop gives way to other fibers; the other definition is the host's",
    ),
)

# ---- the clock: barriers ----

_LSA_BARRIER_TYPES_H = (
    Edit(
        "return state + 3*handle.nBarriers + index*team.nRanks + peer;",
        "return state + (handle.nBarriers + index*team.nRanks + peer)*16;",
        1,
        "an inbox has 64 bytes of its own, so that its shadow has room for the times of its last values",
    ),
)

_LSA_BARRIER_CC = (
    Edit(
        "outReq->bufferSize = (3*nBarriers + nBarriers*team.nRanks)*sizeof(uint32_t);\n"
        "  outReq->bufferAlign = alignof(uint32_t);\n",
        "outReq->bufferSize = (nBarriers + nBarriers*team.nRanks)*16*sizeof(uint32_t);\n"
        "  outReq->bufferAlign = 16*sizeof(uint32_t);\n",
        1,
        "room for that",
    ),
)

_LSA_BARRIER_FUNCS_H = (
    Edit(
        "      inbox.store(this->epoch+1, nccl::utility::releaseOrderOf(order));\n",
        f"      if (nccl::utility::releaseOrderOf(order) != cuda::memory_order_relaxed) {_SHIM}system_fence(); "
        f"{_SHIM}inbox_stored(this->ucInbox(peer, this->team.rank), this->epoch+1); "
        "inbox.store(this->epoch+1, nccl::utility::releaseOrderOf(order));\n",
        1,
        "arriving records its time",
    ),
    Edit(
        "        if (got - (this->epoch + 1) <= uint32_t(-1)>>1) break;\n      }\n",
        "        if (got - (this->epoch + 1) <= uint32_t(-1)>>1) break;\n      } "
        f"{_SHIM}inbox_waited(this->ucInbox(this->team.rank, peer), this->epoch+1);\n",
        1,
        "a wait ends when the peer arrived",
    ),
    Edit(
        "      uint32_t* inbox = this->mcInbox(/*multimem=*/true);\n",
        f"      uint32_t* inbox = this->mcInbox(/*multimem=*/true); {_SHIM}inboxes_stored("
        "this->team.nRanks, [&](int r) { return this->ucInbox(r, this->team.rank); }, this->epoch/this->team.nRanks + 1, "
        "nccl::utility::releaseOrderOf(order) != cuda::memory_order_relaxed);\n",
        1,
        "all ranks count up one word through the switch; their times go to the inboxes that are unused meanwhile",
    ),
    Edit(
        "      this->epoch += this->team.nRanks;\n",
        f"      {_SHIM}inboxes_waited(this->team.nRanks, [&](int r) {{ return this->ucInbox(this->team.rank, r); }}, "
        "this->epoch/this->team.nRanks + 1); this->epoch += this->team.nRanks;\n",
        1,
        "the wait ends when the last of them arrived",
    ),
)

# ---- the clock: bytes ----

_LL_A2A_FUNCS_H = (
    Edit(
        "template<typename Coop>\ntemplate<typename T>\n"
        "NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::bcast(int elt, T data) {\n"
        "  using nccl::utility::divUp;\n",
        "template<typename Coop>\ntemplate<typename T>\n"
        "NCCL_DEVICE_INLINE void ncclLLA2ASession<Coop>::bcast(int elt, T data) {\n"
        "  using nccl::utility::divUp; "
        f"{_SHIM}charge_lines<false>(this->coop.size(), divUp(sizeof(T), 8), this->multimem ? 1 : this->team.nRanks, [&](int r) {{ "
        "return this->multimem ? ncclGetResourceBufferMultimemPointer(this->comm, this->handle.bufHandle, this->mmHandle) "
        ": ncclGetResourceBufferPeerPointer(this->comm, this->handle.bufHandle, this->team, r); });\n",
        1,
        "lines cost time by the bytes they move; through a switch the sender stores once",
    ),
    Edit(
        "  uint4* buf = (uint4*)ncclGetResourceBufferPeerPointer(this->comm, this->handle.bufHandle, this->team, peer);\n",
        "  uint4* buf = (uint4*)ncclGetResourceBufferPeerPointer(this->comm, this->handle.bufHandle, this->team, peer); "
        f"{_SHIM}charge_lines<false>(this->coop.size(), divUp(sizeof(T), 8), 1, [&](int) {{ return buf; }});\n",
        1,
        "the same for one peer",
    ),
    Edit(
        "    if (__builtin_expect(okAll, true)) break;\n  }\n",
        "    if (__builtin_expect(okAll, true)) break;\n  } "
        f"{_SHIM}charge_lines<true>(this->coop.size(), (MaxEltCount < eltCount ? MaxEltCount : eltCount)*divUp(sizeof(T), 8), 1, [&](int) {{ return buf; }});\n",
        1,
        "the same for what is received",
    ),
)


def _charged(call: str, parts: str, sources: tuple[str, str], destinations: tuple[str, str]) -> Edit:
    """After the line ``call``, which ends a copy or reduction of ``nBytes`` by ``parts`` CTAs together."""
    return Edit(
        call,
        f"{call}  {_SHIM}charge_copy(threadIdx.x, blockDim.x, {sources[0]}, [&](int r) {{ return {sources[1]}; }},\n"
        f"    {destinations[0]}, [&](int r) {{ return {destinations[1]}; }}, nBytes/({parts}));\n",
        1,
        "a copy or reduction costs time by the bytes it moves",
    )


def _charged_multimem(end: str, source: str, destination: str) -> Edit:
    """After the loop that ends in ``end``, at the end of a function whose ``tn`` threads move ``nBytes`` together."""
    return Edit(
        f"{end}  }}\n}}\n",
        f"{end}  }}\n  {_SHIM}charge_copy(threadIdx.x, blockDim.x, 1, [&](int) {{ return (void*){source}; }},\n"
        f"    1, [&](int) {{ return (void*){destination}; }}, nBytes*blockDim.x/tn);\n}}\n",
        1,
        "the same through a switch",
    )


_OF_ALL = "peerPtr(ncclTeamWorld(handler.comm), r)"

_ALL_REDUCE_CUH = (
    _charged(
        "  allreduceEnds<UnrollPeers>(handler, tn, t, red, input, output, nElts, nPreBytes/sizeof(T), nSufElts);\n",
        "nRanks*nBlocks",
        ("nRanks", f"input.{_OF_ALL}"),
        ("nRanks", f"output.{_OF_ALL}"),
    ),
    _charged_multimem("    multimem_st_global(outputUptr + cursor, val);\n", "inputUptr", "outputUptr"),
)
_ALL_GATHER_CUH = (
    _charged(
        "  bcastEnds<UnrollPeers>(handler, tn, t, input, output, inPlace, nElts, nPreBytes/sizeof(T), nSufElts);\n",
        "nBlocks",
        ("1", "input.localPtr()"),
        ("handler.comm.nRanks", "output.lsaPtr(r)"),
    ),
)
_REDUCE_SCATTER_CUH = (
    _charged(
        "  reduceEnds<UnrollPeers>(handler, tn, t, red, input, output, nElts, nPreBytes/sizeof(T), nSufElts);\n",
        "nBlocks",
        ("nRanks", f"input.{_OF_ALL}"),
        ("1", "output.localPtr()"),
    ),
    _charged_multimem(
        "    *reinterpret_cast<BytePack<sizeof(T)>*>(outputUptr + cursor) = val;\n", "inputUptr", "outputUptr"
    ),
)

_BCAST_MULTIMEM = _charged_multimem("    multimem_st_global(outputUptr + cursor, val);\n\n", "inputUptr", "outputUptr")

EDITS: dict[str, tuple[Edit, ...]] = {
    "src/device/op128.h": _OP128_H,
    "src/device/symmetric/generate.py": _GENERATE_PY,
    "src/device/symmetric/primitives.cuh": (*_PRIMITIVES_CUH, _BCAST_MULTIMEM),
    "src/device/symmetric/all_reduce.cuh": _ALL_REDUCE_CUH,
    "src/device/symmetric/all_gather.cuh": _ALL_GATHER_CUH,
    "src/device/symmetric/reduce_scatter.cuh": _REDUCE_SCATTER_CUH,
    "src/include/nccl_device/coop.h": _COOP_H,
    "src/include/nccl_device/utility.h": _UTILITY_H,
    "src/include/nccl_device/impl/lsa_barrier__types.h": _LSA_BARRIER_TYPES_H,
    "src/include/nccl_device/impl/lsa_barrier__funcs.h": _LSA_BARRIER_FUNCS_H,
    "src/include/nccl_device/impl/ll_a2a__funcs.h": _LL_A2A_FUNCS_H,
    "src/nccl_device/lsa_barrier.cc": _LSA_BARRIER_CC,
}
