// Limits of control groups, of both versions, from files as containers and machines have them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/control_group.h"
#include "base/path.h"

using namespace mlx;
namespace fs = std::filesystem;

namespace {

struct Machine {
  TempFolder folder;
  std::string root() const { return folder.path(); }
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = root() + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  GroupLimits limits() const { return group_limits(root() + "/proc", root()); }
};

}  // namespace

TEST_CASE("control groups: the least of all groups from the process's own up, version 2") {
  const Machine machine;
  machine.write("/proc/mountinfo",
                "24 1 0:21 / /proc rw - proc proc rw\n30 23 0:26 / /groups rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  machine.write("/proc/cgroup", "0::/a/b\n");
  machine.write("/groups/a/cpu.max", "150000 100000\n");
  machine.write("/groups/a/memory.max", "max\n");
  machine.write("/groups/a/b/cpu.max", "max 100000\n");
  machine.write("/groups/a/b/memory.max", "1073741824\n");
  CHECK(machine.limits().cpus == 1.5);
  CHECK(machine.limits().memory == 1073741824);
  machine.write("/groups/a/memory.max", "4096\n");
  machine.write("/groups/a/b/cpu.max", "50000 100000\n");
  CHECK(machine.limits().cpus == 0.5);
  CHECK(machine.limits().memory == 4096);
}

TEST_CASE("control groups: a container sees its own group as the root") {
  const Machine machine;
  machine.write("/proc/mountinfo", "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  machine.write("/proc/cgroup", "0::/\n");
  machine.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(machine.limits().cpus == 2.0);
  CHECK_FALSE(machine.limits().memory);
  machine.write("/proc/cgroup", "0::/../elsewhere\n");  // a process that came from outside
  CHECK_FALSE(machine.limits().cpus);
}

TEST_CASE("control groups: version 1 has a hierarchy for each controller, of which a container sees a part") {
  const Machine machine;
  machine.write(
      "/proc/mountinfo",
      "31 30 0:27 /docker/abc /g/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
      "32 30 0:28 / /g/memory rw - cgroup cgroup rw,memory\n33 30 0:29 / /g/unified rw - cgroup2 cgroup2 rw\n");
  machine.write("/proc/cgroup", "9:name=systemd:/\n4:memory:/job\n1:cpu,cpuacct:/docker/abc/inner\n0::/\n");
  machine.write("/g/cpu/cpu.cfs_quota_us", "300000\n");
  machine.write("/g/cpu/cpu.cfs_period_us", "100000\n");
  machine.write("/g/cpu/inner/cpu.cfs_quota_us", "-1\n");
  machine.write("/g/cpu/inner/cpu.cfs_period_us", "100000\n");
  machine.write("/g/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("/g/memory/job/memory.limit_in_bytes", "2097152\n");
  CHECK(machine.limits().cpus == 3.0);
  CHECK(machine.limits().memory == 2097152);
}

TEST_CASE("control groups: what is missing or broken limits nothing") {
  const Machine machine;
  CHECK_FALSE(machine.limits().cpus);
  machine.write("/proc/mountinfo", "\n30 23 - cgroup2\n30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n");
  machine.write("/proc/cgroup", "nonsense\n0:\n0::/a\n");
  for (const char* text : {"", "max", "0 0", "-5 100000", "100000", "100000 0", "word 100000"}) {
    machine.write("/groups/a/cpu.max", text);
    machine.write("/groups/a/memory.max", "word");
    CHECK_FALSE(machine.limits().cpus);
    CHECK_FALSE(machine.limits().memory);
  }
}
