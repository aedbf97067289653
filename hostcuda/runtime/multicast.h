// SPDX-License-Identifier: Apache-2.0
// Multicast objects (NVLink SHARP): addresses behind which several devices' memory lies, usually of several processes.
//
// An object is a memory file of its own that all its processes map: it lists the devices that were added and what
// memory each has bound where, by the memory file and offset that hold it. A process that touches a multicast address
// maps the members' memory then, so that no process has to answer another's questions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/multicast_page.h"
#include "runtime/virtual_memory.h"

namespace hostcuda::rt {

struct SharedMulticast;  // the file's content

class Multicast {
 public:
  // A new object for `devices` devices, or nullptr where the system gives no memory file.
  static std::shared_ptr<Multicast> create(unsigned devices, std::uint64_t bytes, unsigned long long handle_types);
  // The object behind `fd` (which stays the caller's), or nullptr where it is none. One object a file and process.
  static std::shared_ptr<Multicast> from_fd(int fd);
  ~Multicast();
  Multicast(const Multicast&) = delete;

  int fd() const { return fd_; }
  std::uint64_t bytes() const;
  unsigned long long handle_types() const;

  // Devices by their place on the machine. cudaErrorInvalidValue for one too many or one that is there already.
  cudaError_t add_device(int place);
  // As in CUDA, binding and mapping wait until all devices have been added, by whatever process.
  void wait_for_devices() const;

  // Binds memory that this process may map. cudaErrorInvalidValue outside of the object, beside whole pages, over other
  // memory of the same device, or for a device that was not added.
  cudaError_t bind(std::uint64_t at, const std::shared_ptr<Physical>& physical, std::uint64_t offset,
                   std::uint64_t bytes);
  // Takes back everything that the device has bound in the range. cudaErrorInvalidValue where that is nothing.
  cudaError_t unbind(int place, std::uint64_t at, std::uint64_t bytes);

  // What lies at `at` in the object now, for a mapping of it at `address`.
  std::unique_ptr<MulticastPage> page(std::uint64_t at, std::uint64_t address);
  // No address of this process shows the object any more: members' memory need not be mapped.
  void forget_members();

 private:
  struct Member {  // memory of one binding as this process sees it
    std::shared_ptr<Arena> arena;
    std::unique_ptr<Hold> hold;
    std::uint64_t address = 0, bytes = 0;
    bool taken = false;  // the address is one of ours to give back
  };

  Multicast(int fd, std::uint64_t inode, SharedMulticast* shared) : fd_(fd), inode_(inode), shared_(shared) {}
  static std::shared_ptr<Multicast> opened(int fd);
  cudaError_t note_binding(std::uint64_t at, const std::shared_ptr<Physical>& physical, std::uint64_t offset,
                           std::uint64_t bytes);
  Member* member(unsigned binding);
  void forget(Member& member);

  int fd_;
  std::uint64_t inode_;
  SharedMulticast* shared_;
  std::mutex lock_;                          // of what follows; taken before the file's own lock
  std::map<std::uint64_t, Member> members_;  // by the binding's serial number
  std::map<std::uint64_t, std::shared_ptr<Physical>> bound_;  // what this process has bound
};

// Shows [at, at + bytes) of the object at `address`, and ends that.
void show_multicast(std::uint64_t address, std::uint64_t bytes, std::shared_ptr<Multicast> object, std::uint64_t at);
void hide_multicast(std::uint64_t address);

// Whether all members have bound memory to the whole range.
bool multicast_ready(const void* address, std::uint64_t bytes);

// Writes as a GPU does through a multicast address, to every member. False where members are missing.
bool multicast_write(void* to, const void* from, std::uint64_t bytes);

}  // namespace hostcuda::rt
