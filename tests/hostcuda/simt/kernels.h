// SPDX-License-Identifier: Apache-2.0
// Runs a lambda as a grid and fails the program with a line number where a check does not hold.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include "clock/clock.h"
#include "simt/device_thread.h"
#include "simt/grid.h"

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
      std::exit(1);                                                          \
    }                                                                        \
  } while (0)

using hostcuda::simt::DeviceThread;
using hostcuda::simt::GridResult;
using hostcuda::simt::GridSpec;
using hostcuda::simt::Progress;

inline DeviceThread& self() { return *hostcuda_device_thread; }
inline unsigned tid() { return self().linear_index; }
inline unsigned lane() { return tid() % 32; }

inline GridSpec spec(std::function<void()> kernel, unsigned ctas, unsigned threads) {
  static std::deque<std::function<void()>> kept;  // as long as any grid may run
  GridSpec grid;
  const auto* pointer = &kept.emplace_back(std::move(kernel));
  grid.args.resize(sizeof pointer);
  std::memcpy(grid.args.data(), &pointer, sizeof pointer);
  grid.entry = [](const void* args) { (**static_cast<const std::function<void()>* const*>(args))(); };
  grid.grid = {ctas, 1, 1};
  grid.block = {threads, 1, 1};
  grid.name = "test";
  return grid;
}

inline GridResult finish(GridSpec&& grid) {
  hostcuda::simt::Grid* running = hostcuda::simt::grid_create(std::move(grid));
  for (;;) {
    Progress progress = hostcuda::simt::grid_run(running);
    if (progress == Progress::finished) break;
    if (progress == Progress::none) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  GridResult result = hostcuda::simt::grid_result(running);
  hostcuda::simt::grid_destroy(running);
  return result;
}

inline GridResult run(std::function<void()> kernel, unsigned ctas = 1, unsigned threads = 32) {
  return finish(spec(std::move(kernel), ctas, threads));
}

// The same, and the grid must end well.
inline GridResult launch(std::function<void()> kernel, unsigned ctas = 1, unsigned threads = 32) {
  GridResult result = run(std::move(kernel), ctas, threads);
  if (result.failed) std::printf("%s\n", result.error.c_str());
  CHECK(!result.failed);
  return result;
}
