// SPDX-License-Identifier: Apache-2.0
// A fault in device code fails its grid, as an illegal address on a GPU would, and leaves the process alive to report
// it. Faults anywhere else go to whoever handled them before.
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <vector>

#include "simt/guarded.h"
#include "simt/scheduler.h"

namespace hostcuda::simt {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction previous_actions[NSIG];

// Where the thread goes on when the memory of work outside of device threads is not there.
struct WayOut {
  sigjmp_buf back;
  const void* volatile address;
};
thread_local WayOut* t_way_out __attribute__((tls_model("initial-exec"))) = nullptr;

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = previous_actions[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // The faulting instruction runs again and ends the process the usual way.
    ::signal(signal, SIG_DFL);
  } else {
    previous.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* raw_context) {
  DeviceThread* thread = hostcuda_device_thread;
  if (!thread && t_way_out != nullptr && signal != SIGFPE) {
    t_way_out->address = info->si_addr;
    siglongjmp(t_way_out->back, 1);
  }
  if (!thread) return pass_on(signal, info, raw_context);
  auto* context = static_cast<ucontext_t*>(raw_context);
  char text[160];
  if (signal == SIGFPE)
    std::snprintf(text, sizeof text, "integer division by zero (a GPU gives all ones there; this CPU traps)");
  else if (is_stack_guard(info->si_addr))
    std::snprintf(text, sizeof text, "stack overflow: a device thread has %zu bytes", StackSlab::kStackBytes);
  else
    std::snprintf(text, sizeof text, "illegal memory address %p", info->si_addr);
  // The fault is synchronous and came from device code, which holds no lock of this library.
  thread->cta->grid->fail(*thread->cta, thread, text);
  hostcuda_device_thread = nullptr;
  leaving_stack(nullptr, thread->cta->scheduler_stack);
  context->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(thread->cta->scheduler_stack_pointer);
  context->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(hostcuda_switch_restore);
}

// A stack that overflowed cannot hold the handler's frame.
struct AlternateStack {
  static constexpr std::size_t kBytes = 64 << 10;
  std::vector<char> memory;

  AlternateStack() {
    stack_t present{};
    if (sigaltstack(nullptr, &present) == 0 && !(present.ss_flags & SS_DISABLE) && present.ss_size >= kBytes) return;
    memory.resize(kBytes);
    stack_t mine{};
    mine.ss_sp = memory.data();
    mine.ss_size = kBytes;
    sigaltstack(&mine, nullptr);
  }
  ~AlternateStack() {
    if (memory.empty()) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
};

}  // namespace

void catch_faults() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    for (int signal : kSignals) {
      struct sigaction action{};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigaction(signal, &action, &previous_actions[signal]);
    }
  });
  thread_local AlternateStack stack;
  (void)stack;
}

bool faults(const std::function<void()>& work, const void** address) {
  catch_faults();
  WayOut out;
  WayOut* const outer = t_way_out;
  if (sigsetjmp(out.back, 0) != 0) {
    t_way_out = outer;
    *address = out.address;
    return true;
  }
  t_way_out = &out;
  work();
  t_way_out = outer;
  return false;
}

}  // namespace hostcuda::simt
