// A group's folder is where its hierarchy is mounted (mountinfo), with the process's path in it (cgroup). A container
// may see only a part of the hierarchy, whose name then stands before the path, or its own path as "/".
#include "base/control_group.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace mlx {
namespace {

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) out.push_back(word);
  return out;
}

bool lists(const std::string& commas, std::string_view word) {
  const std::vector<std::string> words = words_of(commas, ',');
  return std::ranges::find(words, word) != words.end();
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

struct Hierarchy {
  std::string shown;  // the group that the mount point shows
  std::string at;     // the mount point
};

// That of version 1 which has `controller`, or with "" that of version 2.
std::optional<Hierarchy> hierarchy_of(const std::string& proc, const std::string& controller) {
  std::ifstream in(proc + "/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = words_of(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    constexpr std::ptrdiff_t kRoot = 3, kPoint = 4, kType = 1, kOptions = 3;
    if (dash - words.begin() <= kPoint || words.end() - dash <= kOptions) continue;
    const bool matches =
        controller.empty() ? dash[kType] == "cgroup2" : dash[kType] == "cgroup" && lists(dash[kOptions], controller);
    if (matches) return Hierarchy{words[kRoot], words[kPoint]};
  }
  return std::nullopt;
}

// The process's group in it: "/a/b"; nullopt if the process is in none.
std::optional<std::string> path_in(const std::string& proc, const std::string& controller) {
  std::ifstream in(proc + "/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:cpu,cpuacct:/a/b", and of version 2 "0::/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : lists(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The folders of the process's group and of those above it.
std::vector<std::string> folders_of(const std::string& proc, const std::string& root, const std::string& controller) {
  const std::optional<Hierarchy> hierarchy = hierarchy_of(proc, controller);
  std::optional<std::string> path = path_in(proc, controller);
  if (!hierarchy || !path || path->find("/..") != std::string::npos) return {};
  if (hierarchy->shown != "/" && path->starts_with(hierarchy->shown)) path->erase(0, hierarchy->shown.size());
  std::vector<std::string> out{root + hierarchy->at};
  for (std::string folder = *path == "/" ? "" : *path; !folder.empty(); folder.erase(folder.rfind('/')))
    out.push_back(root + hierarchy->at + folder);
  return out;
}

// Nullopt for "max", -1, and what is no number.
std::optional<double> number_in(const std::string& text) {
  std::istringstream in(text);
  double number = 0;
  if (in >> number && number > 0) return number;
  return std::nullopt;
}

template <typename T>
void limit(std::optional<T>& to, std::optional<double> by) {
  if (!by) return;
  constexpr double kUnlimited = 1e18;  // version 1 says "unlimited" as a number near 2^63
  if (*by < kUnlimited) to = std::min(to.value_or(static_cast<T>(*by)), static_cast<T>(*by));
}

std::optional<double> ratio(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period) return std::nullopt;
  return *quota / *period;
}

}  // namespace

GroupLimits group_limits(const std::string& proc, const std::string& root) {
  GroupLimits out;
  for (const std::string& folder : folders_of(proc, root, "")) {
    const std::string cpu = first_line(folder + "/cpu.max");  // "150000 100000"
    limit(out.cpus, ratio(number_in(cpu), number_in(cpu.substr(std::min(cpu.find(' '), cpu.size())))));
    limit(out.memory, number_in(first_line(folder + "/memory.max")));
  }
  for (const std::string& folder : folders_of(proc, root, "cpu")) {
    limit(out.cpus, ratio(number_in(first_line(folder + "/cpu.cfs_quota_us")),
                          number_in(first_line(folder + "/cpu.cfs_period_us"))));
  }
  for (const std::string& folder : folders_of(proc, root, "memory"))
    limit(out.memory, number_in(first_line(folder + "/memory.limit_in_bytes")));
  return out;
}

}  // namespace mlx
