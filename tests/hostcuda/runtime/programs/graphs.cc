// SPDX-License-Identifier: Apache-2.0
// Graphs and their launches: order, parameters, updates, user objects, and what goes onto the modelled timeline.
#include <cuda.h>

#include "check.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened

// What happened, in order; written by host functions.
struct Log {
  std::mutex lock;
  std::vector<int> lines;
  void add(int line) {
    const std::lock_guard guard(lock);
    lines.push_back(line);
  }
  std::vector<int> take() {
    const std::lock_guard guard(lock);
    return std::exchange(lines, {});
  }
};
Log& log_of() {
  static Log log;
  return log;
}

void* as_argument(int number) { return reinterpret_cast<void*>(static_cast<intptr_t>(number)); }
void note(void* number) { log_of().add(static_cast<int>(reinterpret_cast<intptr_t>(number))); }

cudaGraph_t new_graph() {
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  return graph;
}

cudaGraphNode_t noting(cudaGraph_t graph, int number, std::vector<cudaGraphNode_t> after = {}) {
  const cudaHostNodeParams params{note, as_argument(number)};
  cudaGraphNode_t node;
  OK(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

cudaKernelNodeParams gate_params(GateArgs* args, void** params) {
  params[0] = args;
  cudaKernelNodeParams made{};
  made.func = &gate_symbol;
  made.gridDim = made.blockDim = dim3(1);
  made.kernelParams = params;
  return made;
}

cudaGraphNode_t writing(cudaGraph_t graph, std::atomic<int>* open, int* cell, int value,
                        std::vector<cudaGraphNode_t> after = {}) {
  GateArgs args{open, cell, value};
  void* params[1];
  const cudaKernelNodeParams told = gate_params(&args, params);
  cudaGraphNode_t node;
  OK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &told));
  return node;
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

void run(cudaGraphExec_t exec, cudaStream_t stream) {
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
}

std::atomic<int> g_open{1};

CASE(every_kind_of_node) {
  cudaStream_t stream = new_stream(), other = new_stream();
  int *cells = device_array<int>(8), *host;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), 64));
  cudaEvent_t recorded = new_event(), waited = new_event();
  cudaGraph_t graph = new_graph(), child = new_graph();
  noting(child, 10, {noting(child, 11)});

  cudaGraphNode_t node;
  OK(cudaGraphAddEventWaitNode(&node, graph, nullptr, 0, waited));
  node = writing(graph, &g_open, cells, 7, {node});
  cudaMemsetParams set{cells + 1, 0, 0x01020304, 4, 3, 1};
  OK(cudaGraphAddMemsetNode(&node, graph, &node, 1, &set));
  OK(cudaGraphAddMemcpyNode1D(&node, graph, &node, 1, host, cells, 16, cudaMemcpyDeviceToHost));
  OK(cudaGraphAddChildGraphNode(&node, graph, &node, 1, child));
  OK(cudaGraphAddEmptyNode(&node, graph, &node, 1));
  OK(cudaGraphAddEventRecordNode(&node, graph, &node, 1, recorded));
  noting(graph, 12, {node});
  OK(cudaGraphDestroy(child));  // its node has a copy

  Gate gate;
  gate.hold(other);
  OK(cudaEventRecord(waited, other));
  cudaGraphExec_t exec = instantiate(graph);
  OK(cudaGraphDestroy(graph));  // the executable one lives on
  OK(cudaGraphUpload(exec, stream));
  OK(cudaGraphLaunch(exec, stream));
  sleep_ms(kWhile);
  CHECK(*cells == 0);
  GIVES(cudaErrorNotReady, cudaEventQuery(recorded));
  gate.open();
  OK(cudaEventSynchronize(recorded));
  CHECK(host[0] == 7 && host[1] == 0x01020304 && host[3] == 0x01020304);
  OK(cudaStreamSynchronize(stream));
  CHECK((log_of().take() == std::vector<int>{11, 10, 12}));
  OK(cudaGraphExecDestroy(exec));
  GIVES(cudaErrorInvalidValue, cudaGraphExecDestroy(exec));
  GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
}

// Edges are kept and no others appear: of two branches, one is held up, the other goes on, what joins them waits.
CASE(edges_and_no_more) {
  static std::atomic<int> left{0}, right{0};
  static int* cells = device_array<int>(4);
  cudaStream_t stream = new_stream();
  cudaGraph_t graph = new_graph();
  cudaGraphNode_t first = writing(graph, &g_open, cells, 1);
  cudaGraphNode_t a = writing(graph, &left, cells + 1, 1, {first});
  cudaGraphNode_t b = writing(graph, &right, cells + 2, 1, {first});
  writing(graph, &g_open, cells + 3, 1, {a, b});
  cudaGraphExec_t exec = instantiate(graph);
  const volatile int* seen = cells;
  for (int round = 0; round < 2; ++round) {
    for (auto* gate : {&left, &right}) {
      left = right = 0;
      OK(cudaMemset(cells, 0, 16));
      OK(cudaDeviceSynchronize());
      OK(cudaGraphLaunch(exec, stream));
      const int open = gate == &left ? 1 : 2;
      *gate = 1;
      while (seen[open] == 0) sleep_ms(1);
      sleep_ms(kWhile);
      CHECK(seen[0] == 1 && seen[3 - open] == 0 && seen[3] == 0);
      GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
      left = right = 1;
      OK(cudaStreamSynchronize(stream));
      CHECK(seen[1] == 1 && seen[2] == 1 && seen[3] == 1);
    }
  }
}

// A launch comes after what its stream had to do, and before what it gets to do next.
CASE(order_in_the_stream) {
  cudaStream_t stream = new_stream(), other = new_stream();
  cudaGraph_t graph = new_graph();
  noting(graph, 2);
  noting(graph, 2);  // beside the first
  cudaGraphExec_t exec = instantiate(graph);
  Gate gate;
  gate.hold(stream);
  OK(cudaLaunchHostFunc(stream, note, as_argument(1)));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaLaunchHostFunc(stream, note, as_argument(3)));
  cudaEvent_t event = new_event();
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  OK(cudaLaunchHostFunc(other, note, as_argument(4)));
  sleep_ms(kWhile);
  CHECK(log_of().take().empty());
  gate.open();
  OK(cudaStreamSynchronize(other));
  CHECK((log_of().take() == std::vector<int>{1, 2, 2, 3, 4}));
}

// A launch has ended when the last of its nodes has, whichever lane that is on.
CASE(the_last_node_ends_the_launch) {
  static std::atomic<int> closed{0};
  static int* cells = device_array<int>(2);
  cudaStream_t stream = new_stream();
  for (const bool first : {true, false}) {
    closed = 0;
    cudaGraph_t graph = new_graph();
    writing(graph, first ? &closed : &g_open, cells, 1);
    writing(graph, first ? &g_open : &closed, cells + 1, 1);
    OK(cudaGraphLaunch(instantiate(graph), stream));
    while (static_cast<volatile int*>(cells)[first ? 1 : 0] == 0) sleep_ms(1);
    sleep_ms(kWhile);
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    closed = 1;
    OK(cudaStreamSynchronize(stream));
    CHECK(cells[0] == 1 && cells[1] == 1);
    OK(cudaMemset(cells, 0, 8));
    OK(cudaDeviceSynchronize());
  }
}

// Launches of one executable graph follow each other whatever their streams; those of two may overlap.
CASE(launches_are_one_after_the_other) {
  static std::atomic<int> begun{0};
  cudaStream_t first = new_stream(), second = new_stream();
  cudaGraph_t graph = new_graph();
  const cudaHostNodeParams begin{[](void*) { ++begun; }, nullptr};
  cudaGraphNode_t node;
  OK(cudaGraphAddHostNode(&node, graph, nullptr, 0, &begin));
  Gate gate;
  noting(graph, 1, {writing(graph, &gate.is_open, nullptr, 0, {node})});
  cudaGraphExec_t exec = instantiate(graph), twin = instantiate(graph);
  OK(cudaGraphLaunch(exec, first));
  OK(cudaGraphLaunch(exec, second));
  OK(cudaLaunchHostFunc(second, note, as_argument(2)));
  while (begun == 0) sleep_ms(1);
  sleep_ms(kWhile);
  CHECK(begun == 1 && log_of().take().empty());
  gate.open();
  OK(cudaStreamSynchronize(second));
  CHECK(begun == 2 && (log_of().take() == std::vector<int>{1, 1, 2}));
  begun = gate.is_open = 0;
  OK(cudaGraphLaunch(exec, first));
  OK(cudaGraphLaunch(twin, second));
  while (begun != 2) sleep_ms(1);  // both, though neither can end
  gate.open();
  OK(cudaDeviceSynchronize());
}

CASE(hundred_launches) {
  static int count = 0;
  cudaStream_t stream = new_stream();
  int *from = device_array<int>(1), *to = device_array<int>(1), *host;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), 4));
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(from, host, 4, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(to, from, 4, cudaMemcpyDeviceToDevice, stream));
  OK(cudaLaunchHostFunc(stream, [](void*) { ++count; }, nullptr));
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = instantiate(graph);
  for (int i = 0; i < 100; ++i) {
    *host = i;  // read at every launch
    run(exec, stream);
    CHECK(*to == i && count == i + 1);
  }
  for (int i = 0; i < 100; ++i) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(count == 200);
}

// Parameters are those of the time of the launch call, copied into the node.
CASE(kernel_arguments_are_copied) {
  int* cell = device_array<int>(1);
  cudaStream_t stream = new_stream();
  GateArgs args{&g_open, cell, 3};
  void* params[] = {&args};
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaLaunchKernel(&gate_symbol, dim3(1), dim3(1), params, 0, stream));
  args.value = 4;
  OK(cudaStreamEndCapture(stream, &graph));
  args.value = 5;
  cudaGraphExec_t exec = instantiate(graph);
  run(exec, stream);
  CHECK(*cell == 3);
  cudaGraphNode_t node;
  size_t count = 1;
  OK(cudaGraphGetNodes(graph, &node, &count));
  cudaKernelNodeParams told;
  OK(cudaGraphKernelNodeGetParams(node, &told));
  CHECK(told.func == &gate_symbol && static_cast<GateArgs*>(told.kernelParams[0])->value == 3);
}

CASE(pageable_memory_is_read_when_it_runs) {
  int* cell = device_array<int>(1);
  int source = 1, back = 0;
  cudaStream_t stream = new_stream();
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(cell, &source, 4, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(&back, cell, 4, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  source = 2;
  run(instantiate(graph), stream);
  CHECK(back == 2);
}

CASE(parameters_change) {
  int* cells = device_array<int>(4);
  cudaStream_t stream = new_stream();
  cudaGraph_t graph = new_graph();
  cudaGraphNode_t kernel = writing(graph, &g_open, cells, 1);
  cudaMemsetParams set{cells + 1, 0, 1, 4, 1, 1};
  cudaGraphNode_t setting, copying;
  OK(cudaGraphAddMemsetNode(&setting, graph, nullptr, 0, &set));
  OK(cudaGraphAddMemcpyNode1D(&copying, graph, &setting, 1, cells + 2, cells + 1, 4, cudaMemcpyDefault));
  cudaGraphNode_t host = noting(graph, 1);
  cudaGraphExec_t exec = instantiate(graph);

  GateArgs args{&g_open, cells, 2};
  void* params[1];
  const cudaKernelNodeParams kernel_params = gate_params(&args, params);
  OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &kernel_params));
  set.value = 2;
  OK(cudaGraphExecMemsetNodeSetParams(exec, setting, &set));
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copying, cells + 3, cells + 1, 4, cudaMemcpyDefault));
  const cudaHostNodeParams host_params{note, as_argument(2)};
  OK(cudaGraphExecHostNodeSetParams(exec, host, &host_params));
  run(exec, stream);
  CHECK(cells[0] == 2 && cells[1] == 2 && cells[2] == 0 && cells[3] == 2);
  CHECK(log_of().take() == std::vector<int>{2});
  // The graph itself is as it was, until it is changed too.
  OK(cudaMemset(cells, 0, 16));
  run(instantiate(graph), stream);
  CHECK(cells[0] == 1 && cells[1] == 1 && cells[2] == 1 && cells[3] == 0);
  OK(cudaGraphKernelNodeSetParams(kernel, &kernel_params));
  OK(cudaGraphMemsetNodeSetParams(setting, &set));
  OK(cudaGraphHostNodeSetParams(host, &host_params));
  OK(cudaGraphMemcpyNodeSetParams1D(copying, cells + 3, cells + 1, 4, cudaMemcpyDefault));
  log_of().take();
  run(instantiate(graph), stream);
  CHECK(cells[0] == 2 && cells[1] == 2 && cells[3] == 2);
  CHECK(log_of().take() == std::vector<int>{2});
  cudaMemsetParams told_set;
  cudaMemcpy3DParms told_copy;
  cudaHostNodeParams told_host;
  OK(cudaGraphMemsetNodeGetParams(setting, &told_set));
  OK(cudaGraphMemcpyNodeGetParams(copying, &told_copy));
  OK(cudaGraphHostNodeGetParams(host, &told_host));
  CHECK(told_set.dst == cells + 1 && told_set.value == 2 && told_copy.dstPtr.ptr == cells + 3 &&
        told_copy.extent.width == 4 && told_host.userData == as_argument(2));
  // Switched off, a node is empty; its edges stay.
  OK(cudaMemset(cells, 0, 16));
  OK(cudaGraphNodeSetEnabled(exec, kernel, 0));
  unsigned enabled = 1;
  OK(cudaGraphNodeGetEnabled(exec, kernel, &enabled));
  CHECK(enabled == 0);
  run(exec, stream);
  CHECK(cells[0] == 0 && cells[3] == 2);
  GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, host, 0));
  GIVES(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(exec, kernel, &host_params));
}

CASE(update) {
  int* cells = device_array<int>(2);
  cudaStream_t stream = new_stream();
  const auto chain = [&](int value, int number) {
    cudaGraph_t graph = new_graph();
    noting(graph, number, {writing(graph, &g_open, cells, value)});
    return graph;
  };
  cudaGraphExec_t exec = instantiate(chain(1, 1));
  cudaGraphExecUpdateResultInfo info;
  OK(cudaGraphExecUpdate(exec, chain(2, 2), &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  run(exec, stream);
  CHECK(cells[0] == 2 && log_of().take() == std::vector<int>{2});

  const auto refused = [&](cudaGraph_t graph, cudaGraphExecUpdateResult result, cudaGraphNode_t node,
                           cudaGraphNode_t from = nullptr) {
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, graph, &info));
    CHECK(info.result == result && info.errorNode == node && info.errorFromNode == from);
    run(exec, stream);  // as before
    CHECK(log_of().take() == std::vector<int>{2});
  };
  cudaGraph_t other = new_graph();
  noting(other, 3);
  refused(other, cudaGraphExecUpdateErrorTopologyChanged, nullptr);
  other = new_graph();
  writing(other, &g_open, cells, 3);
  refused(other, cudaGraphExecUpdateErrorTopologyChanged, (noting(other, 3), [&] {
            cudaGraphNode_t nodes[2];
            size_t count = 2;
            OK(cudaGraphGetNodes(other, nodes, &count));
            return nodes[1];
          }()));
  other = new_graph();
  cudaGraphNode_t wrong_kind = noting(other, 3);
  noting(other, 3, {wrong_kind});
  refused(other, cudaGraphExecUpdateErrorNodeTypeChanged, wrong_kind);
  GIVES(cudaErrorInvalidValue, cudaGraphExecUpdate(exec, nullptr, &info));
  CHECK(info.result == cudaGraphExecUpdateError);
}

CASE(clones_and_edits) {
  cudaStream_t stream = new_stream();
  cudaGraph_t graph = new_graph(), copy;
  cudaGraphNode_t one = noting(graph, 1), two = noting(graph, 2, {one}), three = noting(graph, 3, {two}), found;
  OK(cudaGraphClone(&copy, graph));
  OK(cudaGraphNodeFindInClone(&found, two, copy));
  OK(cudaGraphDestroyNode(two));  // of the original only
  size_t count;
  OK(cudaGraphNodeGetDependencies(three, nullptr, nullptr, &count));
  CHECK(count == 0);
  run(instantiate(copy), stream);
  CHECK((log_of().take() == std::vector<int>{1, 2, 3}));
  OK(cudaGraphAddDependencies(graph, &three, &one, nullptr, 1));  // now the other way round
  run(instantiate(graph), stream);
  CHECK((log_of().take() == std::vector<int>{3, 1}));
  OK(cudaGraphNodeGetDependentNodes(three, &found, nullptr, &(count = 1)));
  CHECK(found == one);
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &three, &one, nullptr, 1));  // there already
  OK(cudaGraphRemoveDependencies(graph, &three, &one, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphRemoveDependencies(graph, &three, &one, nullptr, 1));
  OK(cudaGraphAddDependencies(graph, &three, &one, nullptr, 1));
  OK(cudaGraphAddDependencies(graph, &one, &three, nullptr, 1));
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams params{};
  GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, graph, &params));
  CHECK(params.result_out == cudaGraphInstantiateInvalidStructure &&
        (params.errNode_out == one || params.errNode_out == three));
}

CASE(bad_handles) {
  cudaGraph_t graph = new_graph(), other = new_graph();
  cudaGraphNode_t node = noting(graph, 1), made;
  const auto none = reinterpret_cast<cudaGraphNode_t>(0x1234);
  const auto no_graph = reinterpret_cast<cudaGraph_t>(0x1234);
  const auto no_exec = reinterpret_cast<cudaGraphExec_t>(0x1234);
  size_t count;
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&made, no_graph, nullptr, 0));
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&made, graph, &none, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&made, other, &node, 1));  // another graph's
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&made, graph, nullptr, 1));
  cudaGraphNodeType type;
  GIVES(cudaErrorInvalidValue, cudaGraphNodeGetType(none, &type));
  GIVES(cudaErrorInvalidValue, cudaGraphGetNodes(no_graph, nullptr, &count));
  GIVES(cudaErrorInvalidValue, cudaGraphDestroy(no_graph));
  GIVES(cudaErrorInvalidValue, cudaGraphLaunch(no_exec, nullptr));
  GIVES(cudaErrorInvalidResourceHandle, cudaGraphLaunch(no_exec, reinterpret_cast<cudaStream_t>(0x1234)));
  GIVES(cudaErrorInvalidResourceHandle,
        cudaGraphAddEventRecordNode(&made, graph, nullptr, 0, reinterpret_cast<cudaEvent_t>(1)));
  cudaMemsetParams set{scratch(), 0, 1, 3, 1, 1};
  GIVES(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&made, graph, nullptr, 0, &set));  // elements of 3 bytes
  GIVES(cudaErrorInvalidValue,
        cudaGraphAddMemcpyNode1D(&made, graph, nullptr, 0, scratch(), scratch(), 1 << 30, cudaMemcpyDefault));
  cudaKernelNodeParams kernel{};
  kernel.func = &absent_symbol;
  kernel.gridDim = kernel.blockDim = dim3(1);
  GIVES(cudaErrorInvalidDeviceFunction, cudaGraphAddKernelNode(&made, graph, nullptr, 0, &kernel));
  cudaGraphExec_t exec;
  GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithFlags(&exec, graph, 1 << 20));
  GIVES(cudaErrorNotSupported, cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  OK(cudaGraphDestroy(graph));
  GIVES(cudaErrorInvalidValue, cudaGraphNodeGetType(node, &type));
  GIVES(cudaErrorInvalidValue, cudaGraphDestroy(graph));
}

size_t resident_pages() {
  size_t whole = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%zu %zu", &whole, &resident) == 2);
  std::fclose(file);
  return resident;
}

CASE(nothing_is_left_of_thousands) {
  cudaStream_t stream = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event(cudaEventDisableTiming), join = new_event(cudaEventDisableTiming);
  const auto cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      OK(cudaEventRecord(fork, stream));
      OK(cudaStreamWaitEvent(side, fork, 0));
      OK(cudaMemsetAsync(scratch(), 0, 1, side));
      OK(cudaMemsetAsync(scratch() + 1, 0, 1, stream));
      OK(cudaEventRecord(join, side));
      OK(cudaStreamWaitEvent(stream, join, 0));
      cudaGraph_t graph;
      OK(cudaStreamEndCapture(stream, &graph));
      cudaGraphExec_t exec = instantiate(graph);
      OK(cudaGraphDestroy(graph));
      OK(cudaGraphLaunch(exec, stream));
      OK(cudaGraphExecDestroy(exec));
      if (i % 10 == 0) OK(cudaStreamSynchronize(stream));
    }
    OK(cudaDeviceSynchronize());
  };
  cycles(1000);
  const size_t before = resident_pages();
  cycles(3000);
  CHECK(resident_pages() < before + 256);  // 1 MiB; a graph that stays has some kilobytes
}

CASE(work_of_two_devices) {
  cudaStream_t here = new_stream();
  OK(cudaSetDevice(1));
  cudaStream_t there = new_stream();
  static int* far = device_array<int>(1);
  OK(cudaSetDevice(0));
  static int* near = device_array<int>(1);
  cudaEvent_t fork = new_event();
  OK(cudaSetDevice(1));
  cudaEvent_t join = new_event();
  OK(cudaSetDevice(0));
  OK(cudaStreamBeginCapture(here, cudaStreamCaptureModeGlobal));
  Gate gate;
  gate.hold(here, near, 1);
  OK(cudaEventRecord(fork, here));
  OK(cudaStreamWaitEvent(there, fork, 0));
  OK(cudaMemcpyAsync(far, near, 4, cudaMemcpyDefault, there));
  OK(cudaEventRecord(join, there));
  OK(cudaStreamWaitEvent(here, join, 0));
  OK(cudaMemsetAsync(near, 0, 4, here));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(here, &graph));
  cudaGraphExec_t exec = instantiate(graph);
  for (cudaStream_t stream : {here, there}) {
    OK(cudaMemset(far, 0, 4));
    gate.is_open = 0;
    OK(cudaGraphLaunch(exec, stream));
    sleep_ms(kWhile);
    CHECK(*far == 0);
    gate.open();
    OK(cudaStreamSynchronize(stream));
    CHECK(*far == 1 && *near == 0);
  }
}

CASE(legacy_default_stream) {
  cudaStream_t blocking = new_stream(cudaStreamDefault);
  cudaGraph_t graph = new_graph();
  Gate gate;
  writing(graph, &gate.is_open, nullptr, 0);
  noting(graph, 1, {writing(graph, &gate.is_open, nullptr, 0)});  // on a lane of its own
  cudaGraphExec_t exec = instantiate(graph);
  OK(cudaGraphLaunch(exec, blocking));
  OK(cudaLaunchHostFunc(nullptr, note, as_argument(2)));
  OK(cudaGraphLaunch(exec, nullptr));
  OK(cudaLaunchHostFunc(blocking, note, as_argument(3)));
  sleep_ms(kWhile);
  CHECK(log_of().take().empty());
  gate.open();
  OK(cudaDeviceSynchronize());
  CHECK((log_of().take() == std::vector<int>{1, 2, 1, 3}));
}

// The same through the driver's calls, by name; they leave the runtime's last error alone.
CASE(through_the_driver) {
  const auto named = [](const char* name, int version = CUDA_VERSION) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status;
    GIVES(CUDA_SUCCESS, cuGetProcAddress(name, &function, version, 0, &status));
    CHECK(function != nullptr && status == CU_GET_PROC_ADDRESS_SUCCESS);
    return function;
  };
  const auto begin = reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(named("cuStreamBeginCapture"));
  const auto end = reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(named("cuStreamEndCapture"));
  const auto info_then = reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                                       const CUgraphNode**, size_t*)>(
      named("cuStreamGetCaptureInfo", 11030));
  const auto instantiate_now =
      reinterpret_cast<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>(named("cuGraphInstantiate"));
  const auto launch = reinterpret_cast<CUresult (*)(CUgraphExec, CUstream)>(named("cuGraphLaunch"));
  cudaStream_t stream = new_stream();
  GIVES(CUDA_SUCCESS, begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cudaLaunchHostFunc(stream, note, as_argument(1)));
  CUstreamCaptureStatus status;
  CUgraph building, graph;
  const CUgraphNode* nodes;
  size_t count;
  GIVES(CUDA_SUCCESS, info_then(stream, &status, nullptr, &building, &nodes, &count));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
  const CUDA_HOST_NODE_PARAMS params{note, as_argument(2)};
  CUgraphNode added;
  GIVES(CUDA_SUCCESS, cuGraphAddHostNode(&added, building, nodes, count, &params));
  GIVES(CUDA_SUCCESS, end(stream, &graph));
  CUgraphExec exec;
  GIVES(CUDA_SUCCESS, instantiate_now(&exec, graph, 0));
  GIVES(CUDA_SUCCESS, launch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK((log_of().take() == std::vector<int>{1, 2}));
  GIVES(CUDA_ERROR_ILLEGAL_STATE, end(stream, &graph));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(nullptr));
  OK(cudaGetLastError());
}

// ---- user objects ----

std::atomic<int> g_destroyed{0};
void destroy(void* by) { g_destroyed += static_cast<int>(reinterpret_cast<intptr_t>(by)); }

cudaUserObject_t new_object(unsigned references = 1) {
  cudaUserObject_t object;
  OK(cudaUserObjectCreate(&object, as_argument(1), destroy, references, cudaUserObjectNoDestructorSync));
  return object;
}

void expect_destroyed(int count) {
  while (g_destroyed < count) sleep_ms(1);
  sleep_ms(kWhile);
  CHECK(g_destroyed == count);
}

CASE(user_objects) {
  cudaStream_t stream = new_stream();
  cudaUserObject_t object = new_object(2);
  OK(cudaUserObjectRetain(object, 1));
  OK(cudaUserObjectRelease(object, 2));
  sleep_ms(kWhile);
  CHECK(g_destroyed == 0);
  GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 2));  // one is left
  OK(cudaUserObjectRelease(object, 1));
  expect_destroyed(1);
  GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 1));

  // A graph, its clone and its executable graph hold references of their own; a launch that runs holds one as well.
  cudaGraph_t graph = new_graph(), copy;
  object = new_object();
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 1));  // the graph's now
  GIVES(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  Gate gate;
  writing(graph, &gate.is_open, nullptr, 0);
  OK(cudaGraphClone(&copy, graph));
  cudaGraphExec_t exec = instantiate(graph);
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphDestroy(copy));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphExecDestroy(exec));
  sleep_ms(3 * kWhile);
  CHECK(g_destroyed == 1);
  gate.open();
  OK(cudaStreamSynchronize(stream));
  expect_destroyed(2);

  graph = new_graph();
  object = new_object();
  OK(cudaGraphRetainUserObject(graph, object, 2, 0));
  OK(cudaUserObjectRelease(object, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphReleaseUserObject(graph, object, 3));
  OK(cudaGraphReleaseUserObject(graph, object, 1));
  sleep_ms(kWhile);
  CHECK(g_destroyed == 2);
  OK(cudaGraphReleaseUserObject(graph, object, 1));
  expect_destroyed(3);
  GIVES(cudaErrorInvalidValue, cudaUserObjectCreate(&object, nullptr, destroy, 1, 0));  // the flag is required
}

// A capture that fails takes its graph's objects with it.
CASE(user_objects_of_a_broken_capture) {
  cudaStream_t stream = new_stream();
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status;
  cudaGraph_t graph;
  OK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  OK(cudaGraphRetainUserObject(graph, new_object(), 1, cudaGraphUserObjectMove));
  GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  expect_destroyed(1);
}

// ---- modelled time ----

void describe(cudaStream_t stream, double flops, const char* name, double bytes = 1e6) {
  hostcudaKernel_t kernel{};
  kernel.size = sizeof kernel;
  kernel.version = HOSTCUDA_KERNEL_VERSION;
  kernel.name = name;
  kernel.flops = flops;
  kernel.bytes_read = bytes;
  kernel.ctas = 20;
  kernel.threads_per_cta = 256;
  kernel.registers_per_thread = 64;
  OK(hostcudaLaunchDescribed(&kernel, stream));
}

// Two branches and a join, captured; the same every time and on any machine.
CASE(modelled_times) {
  cudaStream_t stream = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event(), join = new_event(), started = new_event(), ended = new_event();
  const auto work = [&] {
    describe(stream, 1e10, "first");
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(side, fork, 0));
    describe(side, 3e10, "side");
    describe(stream, 2e10, "main");
    OK(cudaEventRecord(join, side));
    OK(cudaStreamWaitEvent(stream, join, 0));
    describe(stream, 1e10, "last");
  };
  const auto timed = [&](auto call) {
    OK(cudaEventRecord(started, stream));
    call();
    OK(cudaEventRecord(ended, stream));
    OK(cudaEventSynchronize(ended));
    float ms;
    OK(cudaEventElapsedTime(&ms, started, ended));
    return ms;
  };
  const float enqueued = timed(work);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work();
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = instantiate(graph);
  const uint64_t before_ns = hostcudaHostTimeNs();
  OK(cudaGraphLaunch(exec, stream));
  const uint64_t call_ns = hostcudaHostTimeNs() - before_ns;
  OK(cudaStreamSynchronize(stream));
  const float first = timed([&] { OK(cudaGraphLaunch(exec, stream)); });
  uint64_t mark;
  OK(hostcudaStreamMark(stream, &mark));
  const float second = timed([&] { OK(cudaGraphLaunch(exec, stream)); });
  CHECK(first == second);
  CHECK(first > enqueued * 0.99f && first < enqueued * 1.01f);  // the same work
  hostcudaOpTime_t times[8];
  size_t count;
  OK(hostcudaStreamOpTimes(stream, mark, times, 8, &count));
  CHECK(count == 4);  // those of the other lane too
  std::map<std::string, hostcudaOpTime_t> by_name;
  for (size_t i = 0; i < count; ++i) by_name[times[i].name] = times[i];
  CHECK(by_name["side"].start_ns >= by_name["first"].end_ns && by_name["main"].start_ns >= by_name["first"].end_ns);
  CHECK(by_name["side"].start_ns < by_name["main"].end_ns);  // beside each other
  CHECK(by_name["last"].start_ns >= std::max(by_name["side"].end_ns, by_name["main"].end_ns));
  // One call, whatever the number of nodes.
  const uint64_t start_ns = hostcudaHostTimeNs();
  OK(cudaMemsetAsync(scratch(), 0, 1, side));
  CHECK(call_ns == hostcudaHostTimeNs() - start_ns);
  // So a graph of kernels that are shorter than their launches is faster than those.
  const auto many = [&] {
    for (int i = 0; i < 50; ++i) describe(stream, 1e6, "short", 1e3);
  };
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  many();
  OK(cudaStreamEndCapture(stream, &graph));
  exec = instantiate(graph);
  const float short_ones = timed(many);
  CHECK(timed([&] { OK(cudaGraphLaunch(exec, stream)); }) < short_ones * 0.8f);
}

CASE(priorities) {
  cudaStream_t low = new_stream(), high;
  OK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, -5));
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(high, cudaStreamCaptureModeGlobal));
  describe(high, 1e9, "urgent");
  OK(cudaStreamEndCapture(high, &graph));
  cudaGraphExec_t plain = instantiate(graph), own;
  OK(cudaGraphInstantiate(&own, graph, cudaGraphInstantiateFlagUseNodePriority));
  unsigned long long flags = 0;
  OK(cudaGraphExecGetFlags(own, &flags));
  CHECK(flags == cudaGraphInstantiateFlagUseNodePriority);
  cudaStream_t third = new_stream();
  hostcudaKernel_t kernel{};
  kernel.size = sizeof kernel;
  kernel.version = HOSTCUDA_KERNEL_VERSION;
  kernel.flops = 1e12;
  kernel.ctas = 10000;
  kernel.threads_per_cta = 1024;
  kernel.registers_per_thread = 64;
  const auto start_of = [&](cudaGraphExec_t exec) {
    uint64_t mark;
    OK(hostcudaStreamMark(low, &mark));
    uint64_t third_mark;
    OK(hostcudaStreamMark(third, &third_mark));
    kernel.name = "ahead";
    OK(hostcudaLaunchDescribed(&kernel, third));
    OK(cudaGraphLaunch(exec, low));
    OK(cudaDeviceSynchronize());
    hostcudaOpTime_t ahead, urgent;
    size_t count;
    OK(hostcudaStreamOpTimes(third, third_mark, &ahead, 1, &count));
    OK(hostcudaStreamOpTimes(low, mark, &urgent, 1, &count));
    return urgent.start_ns < ahead.end_ns - (ahead.end_ns - ahead.start_ns) / 2;
  };
  CHECK(!start_of(plain));  // that of the launch stream: behind what is ahead
  CHECK(start_of(own));     // the node's own: between two waves
}

// Nodes go on the timeline in the order of their making; helpers' launches do not.
CASE(helpers_launch_without_time) {
  cudaStream_t stream = new_stream();
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  describe(stream, 1e12, "long");
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = instantiate(graph);
  const uint64_t before = hostcudaHostTimeNs();
  std::thread([&] {
    OK(hostcudaHelperThread());
    run(exec, stream);
  }).join();
  CHECK(hostcudaHostTimeNs() == before);
}

int main(int argc, char** argv) {
  scratch();
  return run_case(argc, argv);
}
