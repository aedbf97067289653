/* SPDX-License-Identifier: Apache-2.0 */
/* What this process holds right now, from the kernel and from malloc. */
#ifndef RESOURCES_H_
#define RESOURCES_H_

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <malloc.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

struct Resources {
  long heapBytes;      /* handed out by malloc and not freed */
  long anonymousBytes; /* resident */
  long sharedBytes;    /* resident: memfd and /dev/shm */
  long memfdBytes;     /* pages of every memfd that is open here, mapped or not */
  long descriptors;
  long threads;
  long mappings;
  long devShm;         /* mappings of files in /dev/shm */
};

/* A field of /proc/self/status, in kB or as a number. */
inline long statusField(const char* name) {
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  long value = -1;
  while (status != nullptr && fgets(line, sizeof(line), status) != nullptr) {
    size_t n = strlen(name);
    if (strncmp(line, name, n) == 0 && line[n] == ':') value = atol(line + n + 1);
  }
  if (status != nullptr) fclose(status);
  return value;
}

inline Resources resources() {
  Resources r = {};
  struct mallinfo2 heap = mallinfo2();
  r.heapBytes = (long)(heap.uordblks + heap.hblkhd);
  r.anonymousBytes = statusField("RssAnon") * 1024;
  r.sharedBytes = statusField("RssShmem") * 1024;
  r.threads = statusField("Threads");

  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  while (maps != nullptr && fgets(line, sizeof(line), maps) != nullptr) {
    r.mappings++;
    r.devShm += strstr(line, "/dev/shm/") != nullptr;
  }
  if (maps != nullptr) fclose(maps);

  DIR* folder = opendir("/proc/self/fd");
  while (dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder)) continue;
    r.descriptors++;
    std::string path = std::string("/proc/self/fd/") + entry->d_name;
    char target[256] = "";
    struct stat file;
    if (readlink(path.c_str(), target, sizeof(target) - 1) > 0 && strncmp(target, "/memfd:", 7) == 0 &&
        stat(path.c_str(), &file) == 0) {
      r.memfdBytes += file.st_blocks * 512;
    }
  }
  if (folder != nullptr) closedir(folder);
  return r;
}

#endif
