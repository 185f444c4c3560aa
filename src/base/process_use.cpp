// getrusage(2), getrlimit(2), proc(5), mallopt(3).
#include "base/process_use.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/control_group.h"

namespace mlx {

double cpu_seconds() {
  rusage use{};
  if (getrusage(RUSAGE_SELF, &use) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

std::int64_t machine_memory() {
  std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<std::int64_t>(limit.rlim_cur));
  return std::min(bytes, group_limits().memory.value_or(bytes));
}

std::int64_t available_memory() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (!file) return machine_memory();
  char line[256];
  long long kilobytes = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file))
    found = std::sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1;
  std::fclose(file);
  return found ? std::min(machine_memory(), std::int64_t{kilobytes} * 1024) : machine_memory();
}

// Not ru_maxrss, which begins with the peak of the process that started this one.
std::int64_t peak_memory() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (!file) return 0;
  char line[256];
  long long kilobytes = 0;
  while (std::fgets(line, sizeof line, file)) {
    if (std::sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) break;
  }
  std::fclose(file);
  return kilobytes * 1024;
}

std::int64_t resident_memory() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t settled_memory() {
  constexpr int kLarge = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);  // and no longer what was freed last
  malloc_trim(0);
  return resident_memory();
}

}  // namespace mlx
