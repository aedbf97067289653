// SPDX-License-Identifier: Apache-2.0
#include "runtime/multicast.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/error.h"
#include "runtime/machine.h"

namespace hostcuda::rt {

namespace {
constexpr std::uint64_t kMagic = 0x3174736163696d68ULL;
constexpr unsigned kMostBindings = 4096;
constexpr std::size_t kBusIdBytes = 16;
constexpr auto kWaitingIsSaidAfter = std::chrono::seconds(30);
}  // namespace

struct SharedMulticast {
  std::uint64_t magic, bytes;
  std::uint64_t handle_types;
  std::uint32_t devices;
  std::atomic<std::uint32_t> added;
  std::atomic<std::uint64_t> version;
  std::uint64_t last_serial;
  pthread_mutex_t lock;  // robust: a process that ends while it holds it stops nobody
  char device[kMostMulticastDevices][kBusIdBytes];
  struct Binding {
    std::uint64_t serial;  // 0: free
    std::uint32_t device;  // place in the list above
    std::int32_t pid, fd;  // a descriptor of the memory file that this process holds
    std::uint64_t inode, offset, bytes, at;
  } binding[kMostBindings];
};

namespace {

class FileLock {
 public:
  explicit FileLock(SharedMulticast* shared) : shared_(shared) {
    // The list is changed by single stores that leave it consistent, so its late owner left nothing half done.
    if (::pthread_mutex_lock(&shared_->lock) == EOWNERDEAD) ::pthread_mutex_consistent(&shared_->lock);
  }
  ~FileLock() { ::pthread_mutex_unlock(&shared_->lock); }

 private:
  SharedMulticast* shared_;
};

// The place of a device in the object's list, or -1.
int device_in(const SharedMulticast& shared, const std::string& bus_id) {
  for (std::uint32_t i = 0; i < shared.added.load(); ++i) {
    if (bus_id == shared.device[i]) return static_cast<int>(i);
  }
  return -1;
}

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

bool whole_pages(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return a % kPageBytes == 0 && b % kPageBytes == 0 && c % kPageBytes == 0;
}

std::mutex g_objects_lock;
std::map<std::uint64_t, std::weak_ptr<Multicast>>& objects() {
  static auto* map = new std::map<std::uint64_t, std::weak_ptr<Multicast>>;  // by inode
  return *map;
}

}  // namespace

std::shared_ptr<Multicast> Multicast::opened(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size != sizeof(SharedMulticast)) return nullptr;
  void* mapped = ::mmap(nullptr, sizeof(SharedMulticast), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  return std::shared_ptr<Multicast>(new Multicast(fd, info.st_ino, static_cast<SharedMulticast*>(mapped)));
}

std::shared_ptr<Multicast> Multicast::create(unsigned devices, std::uint64_t bytes, unsigned long long handle_types) {
  const int fd = ::memfd_create("hostcuda-multicast", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::shared_ptr<Multicast> made = ::ftruncate(fd, sizeof(SharedMulticast)) == 0 ? opened(fd) : nullptr;
  if (!made) {
    ::close(fd);
    return nullptr;
  }
  SharedMulticast& shared = *made->shared_;
  shared.bytes = bytes;
  shared.handle_types = handle_types;
  shared.devices = devices;
  pthread_mutexattr_t kind;
  ::pthread_mutexattr_init(&kind);
  ::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&shared.lock, &kind);
  ::pthread_mutexattr_destroy(&kind);
  shared.magic = kMagic;
  std::lock_guard<std::mutex> guard(g_objects_lock);
  objects()[made->inode_] = made;
  return made;
}

std::shared_ptr<Multicast> Multicast::from_fd(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size != sizeof(SharedMulticast)) return nullptr;
  std::lock_guard<std::mutex> guard(g_objects_lock);
  std::weak_ptr<Multicast>& known = objects()[info.st_ino];
  if (auto object = known.lock()) return object;
  const int kept = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  std::shared_ptr<Multicast> object = kept < 0 ? nullptr : opened(kept);
  if (object && object->shared_->magic != kMagic) object.reset();  // closes `kept`
  else if (!object && kept >= 0) ::close(kept);
  known = object;
  return object;
}

Multicast::~Multicast() {
  if (shared_->magic == kMagic && !bound_.empty()) {
    FileLock lock(shared_);
    for (SharedMulticast::Binding& binding : shared_->binding) {
      if (bound_.count(binding.serial) != 0) binding.serial = 0;
    }
    ++shared_->version;
  }
  for (const auto& [serial, physical] : bound_) mark_bound(*physical, -1);
  forget_members();
  ::munmap(shared_, sizeof *shared_);
  ::close(fd_);
}

std::uint64_t Multicast::bytes() const { return shared_->bytes; }
unsigned long long Multicast::handle_types() const { return shared_->handle_types; }

cudaError_t Multicast::add_device(int place) {
  FileLock lock(shared_);
  const std::string& bus_id = machine()->gpus[place].bus_id;
  const std::uint32_t added = shared_->added.load();
  if (added == shared_->devices || device_in(*shared_, bus_id) >= 0) return cudaErrorInvalidValue;
  std::strncpy(shared_->device[added], bus_id.c_str(), kBusIdBytes - 1);
  shared_->added.store(added + 1);
  return cudaSuccess;
}

void Multicast::wait_for_devices() const {
  const auto since = std::chrono::steady_clock::now();
  for (bool said = false; shared_->added.load() < shared_->devices;) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (said || std::chrono::steady_clock::now() - since < kWaitingIsSaidAfter) continue;
    complain("still waiting until all devices are added to a multicast object: %u of %u so far", shared_->added.load(),
             shared_->devices);
    said = true;
  }
}

cudaError_t Multicast::bind(std::uint64_t at, const std::shared_ptr<Physical>& physical, std::uint64_t offset,
                            std::uint64_t bytes) {
  const std::uint64_t holds = whole_pages(physical->bytes) * kPageBytes;
  if (bytes == 0 || !whole_pages(at, offset, bytes) || at > shared_->bytes || bytes > shared_->bytes - at ||
      offset > holds || bytes > holds - offset || physical->device == kHostMemory) {
    return cudaErrorInvalidValue;
  }
  wait_for_devices();
  const cudaError_t error = note_binding(at, physical, physical->offset + offset, bytes);
  if (error == cudaSuccess) mark_bound(*physical, +1);
  return error;
}

cudaError_t Multicast::note_binding(std::uint64_t at, const std::shared_ptr<Physical>& physical, std::uint64_t offset,
                                    std::uint64_t bytes) {
  std::lock_guard<std::mutex> guard(lock_);
  FileLock lock(shared_);
  const int device = device_in(*shared_, machine()->gpus[physical->device].bus_id);
  if (device < 0) return cudaErrorInvalidValue;
  SharedMulticast::Binding* free = nullptr;
  for (SharedMulticast::Binding& binding : shared_->binding) {
    if (binding.serial == 0) {
      if (free == nullptr) free = &binding;
    } else if (binding.device == static_cast<std::uint32_t>(device) && overlap(binding.at, binding.bytes, at, bytes)) {
      return cudaErrorInvalidValue;
    }
  }
  if (free == nullptr) {
    complain("a multicast object has room for %u bindings and they are used up", kMostBindings);
    return cudaErrorMemoryAllocation;
  }
  const std::uint64_t serial = ++shared_->last_serial;
  *free = {0, static_cast<std::uint32_t>(device), ::getpid(), physical->arena->fd(), physical->arena->inode(), offset,
           bytes, at};
  bound_[serial] = physical;
  free->serial = serial;
  ++shared_->version;
  return cudaSuccess;
}

cudaError_t Multicast::unbind(int place, std::uint64_t at, std::uint64_t bytes) {
  std::vector<std::shared_ptr<Physical>> freed;
  {
    std::lock_guard<std::mutex> guard(lock_);
    FileLock lock(shared_);
    const int device = device_in(*shared_, machine()->gpus[place].bus_id);
    for (SharedMulticast::Binding& binding : shared_->binding) {
      const auto mine = bound_.find(binding.serial);
      if (mine == bound_.end() || static_cast<int>(binding.device) != device || binding.at < at ||
          binding.at + binding.bytes > at + bytes) {
        continue;
      }
      freed.push_back(std::move(mine->second));
      bound_.erase(mine);
      binding.serial = 0;
    }
    if (freed.empty()) return cudaErrorInvalidValue;
    ++shared_->version;
  }
  for (const auto& physical : freed) mark_bound(*physical, -1);
  return cudaSuccess;
}

// With both locks held. nullptr where the memory cannot be mapped.
Multicast::Member* Multicast::member(unsigned number) {
  const SharedMulticast::Binding& binding = shared_->binding[number];
  const auto known = members_.find(binding.serial);
  if (known != members_.end()) return &known->second;
  Member made;
  made.bytes = binding.bytes;
  if (binding.inode == Arena::own().inode()) {
    made.address = kWindowBase + binding.offset;  // the lower half of the window shows all of our own file
  } else {
    made.arena = Arena::from_process(binding.pid, binding.fd, binding.inode);
    if (!made.arena) return nullptr;
    made.hold = std::make_unique<Hold>(made.arena, binding.offset, binding.bytes);
    made.address = take_addresses(binding.bytes, 0);
    if (made.address == 0) return nullptr;
    made.taken = true;
    if (!made.arena->map(made.address, binding.offset, binding.bytes)) {
      give_addresses(made.address, binding.bytes);
      return nullptr;
    }
  }
  return &(members_[binding.serial] = std::move(made));
}

void Multicast::forget(Member& member) {
  if (!member.taken) return;
  unmap(member.address, member.bytes);
  give_addresses(member.address, member.bytes);
}

void Multicast::forget_members() {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto& [serial, member] : members_) forget(member);
  members_.clear();
}

std::unique_ptr<MulticastPage> Multicast::page(std::uint64_t at, std::uint64_t address) {
  auto made = std::make_unique<MulticastPage>();
  std::lock_guard<std::mutex> guard(lock_);
  FileLock lock(shared_);
  made->version_now = &shared_->version;
  made->version = shared_->version.load();
  // Mappings of what is not bound any more may go; whoever still uses them races with the unbinding.
  for (auto it = members_.begin(); it != members_.end();) {
    const bool there = std::any_of(std::begin(shared_->binding), std::end(shared_->binding),
                                   [&](const auto& binding) { return binding.serial == it->first; });
    if (!there) forget(it->second);
    it = there ? std::next(it) : members_.erase(it);
  }
  std::map<std::string, std::int64_t> distances;  // in the order of bus ids, which is the same for all
  for (unsigned i = 0; i < kMostBindings; ++i) {
    const SharedMulticast::Binding& binding = shared_->binding[i];
    if (binding.serial == 0 || binding.at > at || at - binding.at >= binding.bytes) continue;
    const Member* found = member(i);
    if (found == nullptr) {
      made->error =
          "memory bound to this multicast address cannot be mapped: its process has ended, or may not be looked into";
      return made;
    }
    distances[shared_->device[binding.device]] =
        static_cast<std::int64_t>(found->address + (at - binding.at)) - static_cast<std::int64_t>(address);
  }
  if (distances.size() != shared_->devices) {
    made->error = "not all devices have bound memory to this multicast address";
    return made;
  }
  for (const auto& [bus_id, distance] : distances) made->distance[made->members++] = distance;
  return made;
}

}  // namespace hostcuda::rt
