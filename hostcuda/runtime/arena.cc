// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

std::uint8_t hostcuda_page_owner[hostcuda::rt::kWindowPages];

namespace hostcuda::rt {
namespace {

constexpr std::uint64_t kRecordsAt = 2 * kWindowBytes;
constexpr std::uint64_t kRecordBytes = 64;
constexpr std::uint64_t kFileBytes = kRecordsAt + kWindowPages * kRecordBytes;
static_assert(sizeof(PageRecord) <= kRecordBytes);
static_assert(kWindowBase + kWindowBytes <= kWindowBase + HOSTCUDA_SHADOW_DISTANCE,
              "shadows lie outside of the window");

// Address space only: nothing is committed until a page of the file is mapped and touched.
void reserve(std::uint64_t address) {
  void* wanted = reinterpret_cast<void*>(address);
  void* got = ::mmap(wanted, kWindowBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                     -1, 0);
  if (got == wanted) return;
  const int error = errno;
  if (got != MAP_FAILED) ::munmap(got, kWindowBytes);
  throw std::runtime_error(std::string("cannot reserve 8 TiB of address space for device memory: ") +
                           (got == MAP_FAILED ? std::strerror(error) : "something else is mapped there"));
}

// A lock, by the page's number, of an open file and not of a process: that one would be lost with any close().
int lock_pages(int fd, int command, struct flock* lock, std::uint64_t first, std::uint64_t pages) {
  lock->l_whence = SEEK_SET;
  lock->l_start = static_cast<off_t>(first);
  lock->l_len = static_cast<off_t>(pages);
  lock->l_pid = 0;
  return ::fcntl(fd, command, lock);
}

std::mutex g_peers_lock;
std::map<std::uint64_t, std::weak_ptr<Arena>>& peers() {
  static auto* map = new std::map<std::uint64_t, std::weak_ptr<Arena>>;  // by inode
  return *map;
}

}  // namespace

Arena& Arena::own() {
  static Arena* arena = [] {
    const int fd = ::memfd_create("hostcuda", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(kFileBytes)) != 0) {
      throw std::runtime_error(std::string("cannot create a memory file: ") + std::strerror(errno));
    }
    reserve(kWindowBase);
    reserve(kWindowBase + HOSTCUDA_SHADOW_DISTANCE);
    struct stat info;
    ::fstat(fd, &info);
    auto* made = new Arena(fd, info.st_ino, true);  // never freed: mapped until the process ends
    if (!made->map(kWindowBase, 0, kWindowBytes / 2)) {
      throw std::runtime_error(std::string("cannot map the memory file: ") + std::strerror(errno));
    }
    return made;
  }();
  return *arena;
}

Arena::~Arena() { ::close(fd_); }

std::shared_ptr<Arena> Arena::from_fd(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || static_cast<std::uint64_t>(info.st_size) != kFileBytes) return nullptr;
  if (info.st_ino == own().inode()) return std::shared_ptr<Arena>(&own(), [](Arena*) {});
  std::lock_guard<std::mutex> guard(g_peers_lock);
  std::weak_ptr<Arena>& known = peers()[info.st_ino];
  if (auto arena = known.lock()) return arena;
  // Opened anew, because locks belong to an open file, and the sender may have given this one to others.
  const int kept = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
  if (kept < 0) return nullptr;
  std::shared_ptr<Arena> arena(new Arena(kept, info.st_ino, false));
  known = arena;
  return arena;
}

std::shared_ptr<Arena> Arena::from_process(int pid, int fd, std::uint64_t inode) {
  {
    std::lock_guard<std::mutex> guard(g_peers_lock);
    const auto known = peers().find(inode);
    if (known != peers().end()) {
      if (auto arena = known->second.lock()) return arena;
    }
  }
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return nullptr;
  struct stat info;
  std::shared_ptr<Arena> arena;
  if (::fstat(opened, &info) == 0 && info.st_ino == inode) arena = from_fd(opened);
  ::close(opened);
  return arena;
}

bool Arena::map(std::uint64_t address, std::uint64_t offset, std::uint64_t bytes) const {
  for (const std::uint64_t shadow : {std::uint64_t{0}, std::uint64_t{1}}) {
    void* wanted = reinterpret_cast<void*>(address + shadow * HOSTCUDA_SHADOW_DISTANCE);
    if (::mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_,
               static_cast<off_t>(offset + shadow * kWindowBytes)) != wanted) {
      return false;
    }
  }
  return true;
}

void Arena::discard(std::uint64_t offset, std::uint64_t bytes) const {
  for (const std::uint64_t at : {offset, offset + kWindowBytes}) {
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(bytes));
  }
}

bool Arena::read_record(std::uint64_t offset, PageRecord* record) const {
  const auto at = static_cast<off_t>(kRecordsAt + (offset >> kPageShift) * kRecordBytes);
  return ::pread(fd_, record, sizeof *record, at) == sizeof *record && record->magic == kPageRecordMagic;
}

void Arena::write_record(std::uint64_t offset, const PageRecord& record) const {
  const auto at = static_cast<off_t>(kRecordsAt + (offset >> kPageShift) * kRecordBytes);
  if (::pwrite(fd_, &record, sizeof record, at) != sizeof record) throw std::runtime_error("memory file: write failed");
}

bool Arena::is_held(std::uint64_t offset, std::uint64_t bytes) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  const std::uint64_t pages = (bytes + kPageBytes - 1) >> kPageShift;
  return lock_pages(fd_, F_OFD_GETLK, &lock, offset >> kPageShift, pages) == 0 && lock.l_type != F_UNLCK;
}

Hold::Hold(std::shared_ptr<Arena> arena, std::uint64_t offset, std::uint64_t bytes)
    : arena_(std::move(arena)),
      first_(offset >> kPageShift),
      pages_(((offset + bytes - 1) >> kPageShift) - (offset >> kPageShift) + 1) {
  std::lock_guard<std::mutex> guard(arena_->holds_lock_);
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  if (lock_pages(arena_->fd_, F_OFD_SETLK, &lock, first_, pages_) != 0) {
    throw std::runtime_error(std::string("cannot lock a peer's memory file: ") + std::strerror(errno));
  }
  for (std::uint64_t page = first_; page < first_ + pages_; ++page) ++arena_->holds_[page];
}

Hold::~Hold() {
  std::lock_guard<std::mutex> guard(arena_->holds_lock_);
  for (std::uint64_t page = first_; page < first_ + pages_; ++page) {
    const auto held = arena_->holds_.find(page);
    if (--held->second != 0) continue;
    arena_->holds_.erase(held);
    struct flock lock = {};
    lock.l_type = F_UNLCK;
    lock_pages(arena_->fd_, F_OFD_SETLK, &lock, page, 1);
  }
}

void unmap(std::uint64_t address, std::uint64_t bytes) {
  for (const std::uint64_t at : {address, address + HOSTCUDA_SHADOW_DISTANCE}) {
    ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0);
  }
}

PageAllocator::PageAllocator(std::uint64_t first_page, std::uint64_t pages) : free_{{first_page, pages}} {}

std::uint64_t PageAllocator::take(std::uint64_t pages, std::uint64_t alignment_pages) {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    const Span span = free_[i];
    const std::uint64_t first = (span.first + alignment_pages - 1) / alignment_pages * alignment_pages;
    const std::uint64_t skipped = first - span.first;
    if (skipped + pages > span.pages) continue;
    const Span after{first + pages, span.pages - skipped - pages};
    auto at = free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    if (after.pages != 0) at = free_.insert(at, after);
    if (skipped != 0) free_.insert(at, Span{span.first, skipped});
    return first;
  }
  return ~std::uint64_t{0};
}

void PageAllocator::give(std::uint64_t first_page, std::uint64_t pages) {
  auto next = std::lower_bound(free_.begin(), free_.end(), first_page,
                               [](const Span& span, std::uint64_t page) { return span.first < page; });
  next = free_.insert(next, Span{first_page, pages});
  if (next + 1 != free_.end() && next->first + next->pages == (next + 1)->first) {
    next->pages += (next + 1)->pages;
    free_.erase(next + 1);
  }
  if (next != free_.begin() && (next - 1)->first + (next - 1)->pages == next->first) {
    (next - 1)->pages += next->pages;
    free_.erase(next);
  }
}

}  // namespace hostcuda::rt
