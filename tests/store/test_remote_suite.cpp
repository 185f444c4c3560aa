// The conformance suite of remotes (remote_suite.h), for a folder and for whatever MLX_TEST_REMOTE names.
#include <atomic>
#include <cstdlib>

#include "fixture.h"
#include "remote_suite.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct FolderRemote final : RemoteUnderTest {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{2};
  RemoteOptions options;

  FolderRemote() { options.create = true; }
  std::unique_ptr<Remote> open() override { return open_remote(folder(), options, *disk, pool); }
  std::string folder() override { return temp.path() + "/remote"; }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Elsewhere final : RemoteUnderTest {
  std::string name;  // below the URL
  std::unique_ptr<Disk> disk = real_disk();
  Pool pool{2};
  RemoteOptions options;
  TempFolder cache;

  Elsewhere() {
    static std::atomic<int> count{0};
    name = "/suite-" + std::to_string(count++);
    options.create = true;
    options.repair = true;  // whose heads follow from nothing
    options.cache_folder = cache.path();
    options.environment.variable = [](const std::string& asked) -> std::optional<std::string> {
      const char* value = std::getenv(asked.c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    };
    options.environment.home = variable("HOME");
  }
  std::unique_ptr<Remote> open() override {
    return open_remote(variable("MLX_TEST_REMOTE") + name, options, *disk, pool);
  }
  std::string folder() override {
    const std::string all = variable("MLX_TEST_REMOTE_FOLDER");
    return all.empty() ? all : all + name;
  }
};

}  // namespace

TEST_CASE("remote suite: a folder") {
  run_remote_suite([] { return std::make_unique<FolderRemote>(); });
}

TEST_CASE("remote suite: the remote in MLX_TEST_REMOTE") {
  if (variable("MLX_TEST_REMOTE").empty()) return;  // a script that has started a server sets it
  run_remote_suite([] { return std::make_unique<Elsewhere>(); });
}
