// bench_stat: the least time in which unchanged files can be recognised. Lists FOLDER and makes one system call for
// each file, with as many threads as there are cores, and does nothing else. usage: bench_stat FOLDER
//
// store.sh compares `mlx status` with it. FOLDER has one level of folders below it, as the benchmark's data has.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* stream = ::fdopendir(::dup(folder));
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(stream);
  return names;
}

long look_into(int above, const std::string& name) {
  const int folder = ::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return 0;
  long seen = 0;
  for (const std::string& file : names_in(folder)) {
    struct stat status {};
    seen += ::fstatat(folder, file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }
  ::close(folder);
  return seen;
}

}  // namespace

int main(int argc, char** argv) {
  const int root = argc == 2 ? ::open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (root < 0) {
    fmt::print(stderr, "usage: bench_stat FOLDER\n");
    return 2;
  }
  const std::vector<std::string> folders = names_in(root);
  std::atomic<std::size_t> next = 0;
  std::atomic<long> seen = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < folders.size(); at = next++) seen += look_into(root, folders[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  fmt::print("{} files\n", seen.load());
  return seen > 0 ? 0 : 1;
}
