// getrusage(2) and proc(5).
#include "train/process_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace mlx::train {

double cpu_seconds() {
  rusage use{};
  if (getrusage(RUSAGE_SELF, &use) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

std::int64_t peak_memory() {
  rusage use{};
  return getrusage(RUSAGE_SELF, &use) == 0 ? std::int64_t{use.ru_maxrss} * 1024 : 0;
}

std::int64_t resident_memory() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace mlx::train
