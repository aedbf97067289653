// SPDX-License-Identifier: Apache-2.0
// The memory file of a process, and those of its peers. One sparse memfd holds all memory that this process gives to
// devices and all pinned host memory: at offset x the data, at x + kWindowBytes its shadow, and after both one small
// record a page that says what lies there. Whoever holds the file can therefore map an allocation together with its
// shadow, knowing nothing but its offset; no name is left behind anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/va.h"

namespace hostcuda::rt {

// What the first page of an allocation says about it in the file.
struct PageRecord {
  std::uint64_t magic;
  std::uint64_t bytes;
  std::uint8_t owner;  // as in hostcuda_page_owner, by the exporter's numbers
  char bus_id[15];     // of the owning device, so that the importer finds its own number for it
};
inline constexpr std::uint64_t kPageRecordMagic = 0x31656761706368ULL;

// A memory file: ours, or a peer's that we hold open while something of it is mapped or known by a handle.
class Arena {
 public:
  ~Arena();
  Arena(const Arena&) = delete;

  // This process's file, created and mapped at the first call. Throws std::runtime_error where the address range is
  // taken or memory files cannot be had.
  static Arena& own();

  // The file behind `fd` (which stays the caller's), or nullptr where it is no arena. One object a file.
  static std::shared_ptr<Arena> from_fd(int fd);
  // The file that process `pid` holds open as `fd`, checked against what identifies it.
  static std::shared_ptr<Arena> from_process(int pid, int fd, std::uint64_t inode);

  int fd() const { return fd_; }
  std::uint64_t inode() const { return inode_; }
  bool is_own() const { return own_; }

  // Maps [offset, offset + bytes) and its shadow at `address` in the window. False where the kernel refuses.
  bool map(std::uint64_t address, std::uint64_t offset, std::uint64_t bytes) const;
  // Gives the pages of the range and of its shadow back; they read as zero afterwards.
  void discard(std::uint64_t offset, std::uint64_t bytes) const;

  bool read_record(std::uint64_t offset, PageRecord* record) const;
  void write_record(std::uint64_t offset, const PageRecord& record) const;

  // Whether another process holds a page of the range, see Hold.
  bool is_held(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  friend class Hold;
  Arena(int fd, std::uint64_t inode, bool own) : fd_(fd), inode_(inode), own_(own) {}
  int fd_;
  std::uint64_t inode_;
  bool own_;
  std::mutex holds_lock_;
  std::map<std::uint64_t, unsigned> holds_;  // by page: how many of our holds lie on it
};

// Keeps a range of a peer's file from being used for something else once the peer has freed it, as CUDA keeps memory
// that another process has opened: what we write late, such as the last credits of a connection, must hit nobody. The
// kernel knows of it by a lock on the file, which a process that is killed loses too.
class Hold {
 public:
  // Throws std::runtime_error where the file cannot be locked.
  Hold(std::shared_ptr<Arena> arena, std::uint64_t offset, std::uint64_t bytes);
  ~Hold();
  Hold(const Hold&) = delete;

 private:
  const std::shared_ptr<Arena> arena_;
  const std::uint64_t first_, pages_;
};

// Makes the address range inaccessible again.
void unmap(std::uint64_t address, std::uint64_t bytes);

// Whole pages of a range, first fit.
class PageAllocator {
 public:
  PageAllocator(std::uint64_t first_page, std::uint64_t pages);
  // The first of `pages` free pages at a multiple of `alignment_pages`, or ~0 where there are none.
  std::uint64_t take(std::uint64_t pages, std::uint64_t alignment_pages = 1);
  void give(std::uint64_t first_page, std::uint64_t pages);

 private:
  struct Span {
    std::uint64_t first, pages;
  };
  std::vector<Span> free_;  // ascending, never adjacent
};

}  // namespace hostcuda::rt
