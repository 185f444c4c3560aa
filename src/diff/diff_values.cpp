// Flattens both documents to paths and values, and joins them.
#include "diff/diff_values.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/json.h"

namespace mlx::diff {
namespace {

constexpr std::size_t kLongestList = 32;
using Flat = std::vector<std::pair<std::string, std::string>>;

void flatten(const Json& value, const std::string& path, Flat& out) {
  if (value.is_object() && (!value.empty() || path.empty())) {
    for (const auto& [key, member] : value.items()) flatten(member, path.empty() ? key : path + "." + key, out);
  } else if (value.is_array() && !value.empty() && value.size() <= kLongestList && !value[0].is_number()) {
    for (std::size_t i = 0; i < value.size(); ++i) flatten(value[i], path + "[" + std::to_string(i) + "]", out);
  } else {
    out.emplace_back(path, value.is_string() ? value.get<std::string>() : canonical(value));
  }
}

}  // namespace

std::vector<ValueChange> diff_values(const Json& before, const Json& after) {
  Flat old, now;
  flatten(before, "", old);
  flatten(after, "", now);
  std::unordered_map<std::string_view, const std::string*> here, there;
  for (const auto& [path, text] : old) here.emplace(path, &text);
  for (const auto& [path, text] : now) there.emplace(path, &text);
  std::vector<ValueChange> changes;
  auto next = now.begin();
  const auto take_new = [&] {
    for (; next != now.end() && !here.contains(next->first); ++next)
      changes.push_back({next->first, std::nullopt, next->second});
  };
  take_new();
  for (const auto& [path, text] : old) {
    const auto match = there.find(path);
    if (match == there.end()) {
      changes.push_back({path, text, std::nullopt});
    } else if (*match->second != text) {
      changes.push_back({path, text, *match->second});
    }
    // A new value follows its predecessor in `after`.
    if (next != now.end() && next->first == path) {
      ++next;
      take_new();
    }
  }
  while (next != now.end()) {
    take_new();
    if (next != now.end()) ++next;
  }
  return changes;
}

}  // namespace mlx::diff
