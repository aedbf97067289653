// SPDX-License-Identifier: Apache-2.0
// For test programs of several processes that share memory through the driver's API.
#pragma once

#include <csignal>
#include <cuda.h>
#include <dirent.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

// Runs `child` in a second process that has its own device state, connected by a socket. The fork comes before this
// process uses the library, as it does for MPI ranks.
struct Peer {
  int socket = -1;
  pid_t pid = 0;
  explicit Peer(void (*child)(int socket)) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid = fork();
    if (pid == 0) {
      close(ends[0]);
      child(ends[1]);
      std::exit(0);
    }
    close(ends[1]);
    socket = ends[0];
  }
  void finish() {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  void kill() {
    CHECK(::kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, nullptr, 0) == pid);
  }
};

template <typename T>
void put(int socket, const T& value) {
  CHECK(write(socket, &value, sizeof value) == sizeof value);
}

template <typename T>
T get(int socket) {
  T value;
  CHECK(read(socket, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  return value;
}

inline void put_fd(int socket, int fd) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  CHECK(sendmsg(socket, &message, 0) == 1);
}

inline int get_fd(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  CHECK(recvmsg(socket, &message, 0) == 1);
  int fd;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

inline size_t open_files() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

inline CUmemAllocationProp properties(CUmemLocationType type, int id) {
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location.type = type;
  made.location.id = id;
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return made;
}

inline constexpr size_t kTwoPages = 4 << 20;

inline char* map(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  OK(cuMemMap(address, bytes, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cuMemSetAccess(address, bytes, &access, 1));
  return reinterpret_cast<char*>(address);
}
