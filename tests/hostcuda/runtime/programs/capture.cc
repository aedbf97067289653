// SPDX-License-Identifier: Apache-2.0
// Stream capture: what goes into the graph, which streams take part, and what is forbidden meanwhile.
#include "check.h"

#include <set>
#include <vector>

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  return status;
}

void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  OK(cudaStreamBeginCapture(stream, mode));
}

cudaGraph_t end(cudaStream_t stream) {
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

// The capture has been broken: the stream says so, its end gives no graph, and then it is an ordinary stream again.
void expect_invalidated(cudaStream_t stream, cudaError_t error = cudaErrorStreamCaptureInvalidated) {
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(scratch(), 0, 1, stream));
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  GIVES(error, cudaStreamEndCapture(stream, &graph));
  CHECK(graph == nullptr);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  OK(cudaMemsetAsync(scratch(), 0, 1, stream));
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  size_t count;
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  OK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

cudaGraphNodeType type_of(cudaGraphNode_t node) {
  cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(node, &type));
  return type;
}

std::set<cudaGraphNode_t> before(cudaGraphNode_t node) {
  size_t count;
  OK(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  std::vector<cudaGraphEdgeData> data(count);
  OK(cudaGraphNodeGetDependencies(node, nodes.data(), data.data(), &count));
  return {nodes.begin(), nodes.end()};
}

CASE(nothing_runs_while_capturing) {
  cudaStream_t stream = new_stream();
  static int* cell = device_array<int>(1);
  static std::atomic<int> called{0};
  Gate gate;
  gate.open();
  begin(stream);
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  gate.hold(stream, cell, 5);
  OK(cudaLaunchHostFunc(stream, [](void*) { called = 1; }, nullptr));
  OK(cudaMemsetAsync(cell, 0x11, sizeof(int), stream));
  sleep_ms(kWhile);
  CHECK(*cell == 0 && called == 0);
  cudaGraph_t graph = end(stream);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  OK(cudaStreamSynchronize(stream));
  CHECK(*cell == 0 && called == 0);
  const auto nodes = nodes_of(graph);
  CHECK(nodes.size() == 3);
  CHECK(type_of(nodes[0]) == cudaGraphNodeTypeKernel && type_of(nodes[1]) == cudaGraphNodeTypeHost &&
        type_of(nodes[2]) == cudaGraphNodeTypeMemset);
  CHECK(before(nodes[0]).empty() && before(nodes[1]) == std::set{nodes[0]} && before(nodes[2]) == std::set{nodes[1]});
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(*cell == 0x11111111 && called == 1);
}

// Other streams join by waiting for an event of the capture, and their work comes back the same way.
CASE(fork_and_join) {
  cudaStream_t origin = new_stream(), side = new_stream();
  int* cells = device_array<int>(4);
  cudaEvent_t fork = new_event(), join = new_event();
  begin(origin);
  OK(cudaMemsetAsync(cells, 1, 4, origin));
  OK(cudaEventRecord(fork, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  CHECK(status_of(side) == cudaStreamCaptureStatusActive);
  OK(cudaMemsetAsync(cells + 1, 2, 4, side));
  OK(cudaMemsetAsync(cells + 2, 3, 4, origin));
  OK(cudaEventRecord(join, side));
  OK(cudaStreamWaitEvent(origin, join, 0));
  OK(cudaMemsetAsync(cells + 3, 4, 4, origin));
  cudaGraph_t graph = end(origin);
  CHECK(status_of(side) == cudaStreamCaptureStatusNone);
  const auto nodes = nodes_of(graph);
  CHECK(nodes.size() == 4);
  CHECK(before(nodes[1]) == std::set{nodes[0]} && before(nodes[2]) == std::set{nodes[0]});
  CHECK((before(nodes[3]) == std::set{nodes[1], nodes[2]}));
  size_t count;
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  CHECK(count == 4);
  OK(cudaGraphGetRootNodes(graph, nullptr, &count));
  CHECK(count == 1);
}

CASE(event_keeps_the_place_of_its_record) {
  cudaStream_t origin = new_stream(), side = new_stream();
  int* cells = device_array<int>(3);
  cudaEvent_t fork = new_event(), join = new_event();
  begin(origin);
  OK(cudaEventRecord(fork, origin));  // before the first node
  OK(cudaMemsetAsync(cells, 1, 4, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaMemsetAsync(cells + 1, 2, 4, side));
  OK(cudaEventRecord(join, side));
  OK(cudaMemsetAsync(cells + 2, 2, 4, side));  // behind the record: not joined by it
  OK(cudaStreamWaitEvent(origin, join, 0));
  cudaGraph_t graph;
  GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(origin, &graph));
  CHECK(graph == nullptr);
  CHECK(status_of(side) == cudaStreamCaptureStatusNone);
}

CASE(unjoined_stream) {
  cudaStream_t origin = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event();
  begin(origin);
  OK(cudaEventRecord(fork, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaMemsetAsync(scratch(), 0, 1, side));
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(side, &graph));  // not where it began
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(origin, &graph));
  begin(origin);
  OK(cudaEventRecord(fork, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaMemsetAsync(scratch(), 0, 1, side));
  GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(origin, &graph));
  CHECK(graph == nullptr);
}

// What the program takes out of a stream's dependencies by hand need not be joined; NCCL lives from that.
CASE(update_dependencies) {
  cudaStream_t origin = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event(), outside = new_event();
  begin(origin);
  OK(cudaMemsetAsync(scratch(), 0, 1, origin));
  OK(cudaEventRecord(fork, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaStreamUpdateCaptureDependencies(side, nullptr, nullptr, 0, cudaStreamSetCaptureDependencies));
  OK(cudaStreamWaitEvent(side, outside, cudaEventWaitExternal));
  cudaStreamCaptureStatus status;
  unsigned long long id = 0, other_id = 0;
  cudaGraph_t building;
  const cudaGraphNode_t* tail;
  size_t count;
  OK(cudaStreamGetCaptureInfo(side, &status, &id, &building, &tail, nullptr, &count));
  CHECK(status == cudaStreamCaptureStatusActive && count == 1 && type_of(tail[0]) == cudaGraphNodeTypeWaitEvent);
  CHECK(before(tail[0]).empty());
  cudaGraphNode_t record;
  OK(cudaGraphAddEventRecordNode(&record, building, nullptr, 0, outside));
  OK(cudaGraphAddDependencies(building, tail, &record, nullptr, 1));
  OK(cudaStreamUpdateCaptureDependencies(side, &record, nullptr, 1, cudaStreamSetCaptureDependencies));
  OK(cudaStreamGetCaptureInfo(origin, &status, &other_id, nullptr, &tail, nullptr, &count));
  CHECK(other_id == id && count == 1);
  OK(cudaStreamUpdateCaptureDependencies(origin, &record, nullptr, 1, cudaStreamAddCaptureDependencies));
  OK(cudaStreamUpdateCaptureDependencies(origin, &record, nullptr, 1, cudaStreamAddCaptureDependencies));  // once
  OK(cudaStreamGetCaptureInfo(origin, &status, nullptr, nullptr, nullptr, nullptr, &count));
  CHECK(count == 2);
  GIVES(cudaErrorInvalidValue, cudaGraphDestroy(building));
  cudaGraphExec_t exec;
  GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, building, 0));
  CHECK(end(origin) == building);
  CHECK(nodes_of(building).size() == 3);
  begin(origin);
  unsigned long long next;
  OK(cudaStreamGetCaptureInfo(origin, &status, &next, nullptr, nullptr, nullptr, nullptr));
  CHECK(next != id);
  end(origin);
  GIVES(cudaErrorIllegalState, cudaStreamUpdateCaptureDependencies(origin, nullptr, nullptr, 0, 0));
}

CASE(two_captures_do_not_meet) {
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t event = new_event();
  begin(first);
  begin(second);
  OK(cudaEventRecord(event, first));
  GIVES(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(second, event, 0));
  expect_invalidated(first);
  expect_invalidated(second);
}

CASE(events_do_not_cross_the_boundary) {
  cudaStream_t capturing = new_stream(), plain = new_stream();
  cudaEvent_t before = new_event(), inside = new_event();
  OK(cudaEventRecord(before, plain));
  begin(capturing);
  GIVES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(capturing, before, 0));
  expect_invalidated(capturing);

  begin(capturing);
  OK(cudaEventRecord(inside, capturing));
  GIVES(cudaErrorCapturedEvent, cudaEventQuery(inside));
  expect_invalidated(capturing);
  begin(capturing);
  OK(cudaEventRecord(inside, capturing));
  GIVES(cudaErrorCapturedEvent, cudaEventSynchronize(inside));
  expect_invalidated(capturing);
  begin(capturing);
  OK(cudaEventRecord(inside, capturing));
  end(capturing);
  GIVES(cudaErrorCapturedEvent, cudaStreamWaitEvent(plain, inside, 0));  // what it recorded is no work
  float ms;
  GIVES(cudaErrorCapturedEvent, cudaEventElapsedTime(&ms, before, inside));
  OK(cudaEventRecord(inside, plain));  // an ordinary one again
  OK(cudaEventSynchronize(inside));
  // Only captures know these flags.
  GIVES(cudaErrorInvalidValue, cudaEventRecordWithFlags(inside, plain, cudaEventRecordExternal));
  GIVES(cudaErrorInvalidValue, cudaStreamWaitEvent(plain, inside, cudaEventWaitExternal));
}

CASE(a_captured_stream_cannot_be_watched) {
  cudaStream_t stream = new_stream();
  const auto breaks = [&](auto call) {
    begin(stream, cudaStreamCaptureModeRelaxed);  // forbidden whatever the mode
    GIVES(cudaErrorStreamCaptureUnsupported, call());
    expect_invalidated(stream);
  };
  breaks([&] { return cudaStreamSynchronize(stream); });
  breaks([&] { return cudaStreamQuery(stream); });
  breaks([&] { return cudaDeviceSynchronize(); });
  breaks([&] { return cudaStreamAddCallback(stream, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0); });
}

// Calls that a capture would not see.
CASE(unsafe_calls) {
  cudaStream_t stream = new_stream(), other = new_stream();
  cudaEvent_t event = new_event();
  OK(cudaEventRecord(event, other));
  OK(cudaStreamSynchronize(other));
  static void *made, *spare;
  OK(cudaMalloc(&spare, 4));
  static int on_host;
  const std::vector<cudaError_t (*)(cudaStream_t, cudaEvent_t)> calls = {
      [](cudaStream_t, cudaEvent_t) { return cudaMalloc(&made, 4); },
      [](cudaStream_t, cudaEvent_t) { return cudaFree(spare); },
      [](cudaStream_t, cudaEvent_t) { return cudaMallocHost(&made, 4); },
      [](cudaStream_t, cudaEvent_t) { return cudaFreeHost(spare); },
      [](cudaStream_t, cudaEvent_t) { return cudaHostRegister(&on_host, 4, 0); },
      [](cudaStream_t, cudaEvent_t) { return cudaMemcpy(spare, &on_host, 4, cudaMemcpyHostToDevice); },
      [](cudaStream_t, cudaEvent_t) { return cudaMemset(spare, 0, 4); },
      [](cudaStream_t, cudaEvent_t event) { return cudaEventQuery(event); },
      [](cudaStream_t, cudaEvent_t event) { return cudaEventSynchronize(event); },
      [](cudaStream_t other, cudaEvent_t) { return cudaStreamQuery(other); },
      [](cudaStream_t other, cudaEvent_t) { return cudaStreamSynchronize(other); },
  };
  for (const auto call : calls) {
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      begin(stream, mode);
      GIVES(cudaErrorStreamCaptureUnsupported, call(other, event));
      expect_invalidated(stream);
    }
  }
  // Creating streams and events is safe, and so is work of other streams.
  begin(stream);
  OK(cudaStreamDestroy(new_stream()));
  OK(cudaEventDestroy(new_event()));
  OK(cudaMemsetAsync(spare, 1, 4, other));
  end(stream);
  // A relaxed capture allows all of it, and so does a relaxed thread.
  begin(stream, cudaStreamCaptureModeRelaxed);
  OK(cudaMalloc(&made, 4));
  OK(cudaStreamSynchronize(other));
  OK(cudaEventQuery(event));
  end(stream);
  begin(stream);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaMalloc(&made, 4));
  OK(cudaStreamSynchronize(other));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  GIVES(cudaErrorStreamCaptureUnsupported, cudaFree(nullptr));
  expect_invalidated(stream);
  mode = static_cast<cudaStreamCaptureMode>(7);
  GIVES(cudaErrorInvalidValue, cudaThreadExchangeStreamCaptureMode(&mode));
  GIVES(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, mode));
}

// A global capture forbids them to other threads as well, unless those look at their own captures only.
CASE(unsafe_calls_of_other_threads) {
  cudaStream_t stream = new_stream();
  const auto elsewhere = [](cudaStreamCaptureMode mode, cudaError_t expected) {
    std::thread([=] {
      cudaStreamCaptureMode swapped = mode;
      OK(cudaThreadExchangeStreamCaptureMode(&swapped));
      void* made;
      GIVES(expected, cudaMalloc(&made, 4));
    }).join();
  };
  begin(stream);
  elsewhere(cudaStreamCaptureModeThreadLocal, cudaSuccess);
  elsewhere(cudaStreamCaptureModeRelaxed, cudaSuccess);
  elsewhere(cudaStreamCaptureModeGlobal, cudaErrorStreamCaptureUnsupported);
  expect_invalidated(stream);
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    begin(stream, mode);
    elsewhere(cudaStreamCaptureModeGlobal, cudaSuccess);
    end(stream);
  }
}

CASE(the_thread_that_began_it_ends_it) {
  cudaStream_t stream = new_stream();
  begin(stream);
  std::thread([&] {
    cudaGraph_t graph;
    GIVES(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(stream, &graph));
  }).join();
  expect_invalidated(stream);
  begin(stream, cudaStreamCaptureModeRelaxed);
  std::thread([&] { end(stream); }).join();
  GIVES(cudaErrorIllegalState, cudaStreamBeginCapture((begin(stream), stream), cudaStreamCaptureModeGlobal));
  end(stream);
  cudaGraph_t graph;
  GIVES(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  GIVES(cudaErrorInvalidValue, cudaStreamEndCapture(stream, nullptr));
}

// The legacy default stream waits for blocking streams, which no capture can express.
CASE(legacy_default_stream) {
  cudaStream_t blocking = new_stream(cudaStreamDefault), apart = new_stream();
  char* bytes = device_array<char>(1);
  GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed));
  begin(blocking, cudaStreamCaptureModeRelaxed);
  cudaStreamCaptureStatus status;
  GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(nullptr, &status));
  CHECK(status_of(blocking) == cudaStreamCaptureStatusActive);  // asking breaks nothing
  GIVES(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(bytes, 0, 1, nullptr));
  expect_invalidated(blocking);
  begin(blocking, cudaStreamCaptureModeRelaxed);
  GIVES(cudaErrorStreamCaptureImplicit, cudaMemcpy(bytes, bytes, 1, cudaMemcpyDefault));
  expect_invalidated(blocking);
  begin(blocking, cudaStreamCaptureModeRelaxed);
  GIVES(cudaErrorStreamCaptureImplicit, cudaStreamSynchronize(nullptr));
  expect_invalidated(blocking);
  begin(apart, cudaStreamCaptureModeRelaxed);  // none of the legacy stream's business
  OK(cudaMemsetAsync(bytes, 0, 1, nullptr));
  OK(cudaStreamSynchronize(nullptr));
  cudaEvent_t event = new_event();
  OK(cudaEventRecord(event, apart));
  GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamWaitEvent(nullptr, event, 0));
  expect_invalidated(apart);
  begin(cudaStreamPerThread);  // one like any other
  OK(cudaMemsetAsync(bytes, 0, 1, cudaStreamPerThread));
  CHECK(nodes_of(end(cudaStreamPerThread)).size() == 1);
}

// An edge from a kernel's start, as a launch completion event gives it, is not lost on those who ask.
CASE(launch_completion_event) {
  cudaStream_t stream = new_stream(), side = new_stream();
  cudaEvent_t started = new_event(cudaEventDisableTiming), fork = new_event(), join = new_event();
  static int* cell = device_array<int>(1);
  Gate gate;
  begin(stream);
  OK(cudaEventRecord(fork, stream));
  gate.hold(stream, started);
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaStreamWaitEvent(side, started, 0));
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t* nodes;
  const cudaGraphEdgeData* data;
  size_t count;
  GIVES(cudaErrorLossyQuery, cudaStreamGetCaptureInfo(side, &status, nullptr, nullptr, &nodes, nullptr, &count));
  OK(cudaStreamGetCaptureInfo(side, &status, nullptr, nullptr, &nodes, &data, &count));
  CHECK(count == 1 && data[0].from_port == cudaGraphKernelNodePortLaunchCompletion &&
        data[0].type == cudaGraphDependencyTypeProgrammatic);
  OK(cudaLaunchHostFunc(side, [](void*) { *cell = 1; }, nullptr));
  OK(cudaEventRecord(join, side));
  OK(cudaStreamWaitEvent(stream, join, 0));
  cudaGraph_t graph = end(stream);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  while (*static_cast<volatile int*>(cell) == 0) sleep_ms(1);  // while the kernel still runs
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
  gate.open();
  OK(cudaStreamSynchronize(stream));
}

CASE(capture_into_a_graph) {
  cudaStream_t stream = new_stream();
  int* cells = device_array<int>(2);
  cudaGraph_t graph, ended;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first;
  OK(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cudaStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(cells, 1, 4, stream));
  OK(cudaStreamEndCapture(stream, &ended));
  CHECK(ended == graph);
  const auto nodes = nodes_of(graph);
  CHECK(nodes.size() == 2 && before(nodes[1]) == std::set{first});
  OK(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &ended));
  CHECK(ended == nullptr);
  OK(cudaGraphDestroy(graph));  // still the program's own
}

// A stream that took part may go before the capture ends; one that began it takes the capture along.
CASE(streams_that_go) {
  cudaStream_t origin = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event();
  begin(origin);
  OK(cudaMemsetAsync(scratch(), 0, 1, origin));
  OK(cudaEventRecord(fork, origin));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaStreamDestroy(side));
  CHECK(nodes_of(end(origin)).size() == 1);
  begin(origin);
  OK(cudaStreamDestroy(origin));
  void* made;
  OK(cudaMalloc(&made, 4));  // nothing is being captured any more
}

int main(int argc, char** argv) {
  scratch();
  return run_case(argc, argv);
}
