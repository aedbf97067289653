/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one NCCL job without MPI: forked, joined by a shared page, ended together. */
#ifndef RANKS_H_
#define RANKS_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define CUDA(call)                                                                                       \
  do {                                                                                                   \
    cudaError_t e_ = (call);                                                                             \
    if (e_ != cudaSuccess) {                                                                             \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_));             \
      _exit(2);                                                                                          \
    }                                                                                                    \
  } while (0)
#define NCCL(call)                                                                                       \
  do {                                                                                                   \
    ncclResult_t r_ = (call);                                                                            \
    if (r_ != ncclSuccess) {                                                                             \
      fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, ncclGetErrorString(r_),         \
              ncclGetLastError(nullptr));                                                                \
      _exit(3);                                                                                          \
    }                                                                                                    \
  } while (0)

/* What the processes share; lies in memory that fork() hands down. */
class Job {
 public:
  explicit Job(int nProcesses) : nProcesses_(nProcesses) {
    void* page = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      perror("mmap");
      exit(1);
    }
    page_ = new (page) Page;
  }

  /* The same for all processes; each calls it equally often. */
  ncclUniqueId uniqueId(int process) {
    if (process == 0) NCCL(ncclGetUniqueId(&page_->id));
    barrier();
    ncclUniqueId id = page_->id;
    barrier();
    return id;
  }

  void barrier() {
    int generation = page_->generation.load();
    if (page_->arrived.fetch_add(1) + 1 == nProcesses_) {
      page_->arrived = 0;
      page_->generation.fetch_add(1);
      return;
    }
    while (page_->generation.load() == generation) usleep(100);
  }

  /* Runs body(process) in each process; the first one that fails ends the others. Returns its status, or 0. */
  template<typename Body>
  int run(Body body) {
    std::vector<pid_t> children;
    for (int p = 0; p < nProcesses_; p++) {
      pid_t pid = fork();
      if (pid == 0) exit(body(p));
      if (pid < 0) perror("fork");
      children.push_back(pid);
    }
    int failure = 0;
    for (int left = nProcesses_; left > 0; left--) {
      int status = 0;
      waitpid(-1, &status, 0);
      int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0 || failure != 0) continue;
      failure = code;
      for (pid_t child : children) kill(child, SIGKILL);
    }
    return failure;
  }

 private:
  struct Page {
    ncclUniqueId id;
    std::atomic<int> arrived{0}, generation{0};
  };

  int nProcesses_;
  Page* page_;
};

#endif
