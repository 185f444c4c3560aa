// Patterns over the names of parameters, and the parameters that they freeze.

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "graph/passes/passes.h"
#include "nn/families.h"
#include "nn/finetune.h"
#include "store/worktree/ignore.h"

namespace mlx::nn {
namespace {

std::vector<std::string> parameter_names(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Value& value : graph.values) {
    if (value.role == graph::Role::kParameter) names.push_back(value.name);
  }
  return names;
}

// What a pattern may have meant: a parameter, a layer, or a kind of layer ("conv" of "conv12.norm.gamma"), with the
// pattern's own ending.
std::string meant(const std::string& pattern, const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    words.push_back(name);
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      words.push_back(name.substr(0, dot));
      words.push_back(name.substr(0, name.find_last_not_of("0123456789", dot - 1) + 1));
    }
  }
  const std::size_t end = pattern.find_last_not_of("*?.") + 1;
  const std::string close = did_you_mean(pattern.substr(0, end), words);
  if (close.empty() || close == pattern.substr(0, end)) return {};
  return close + pattern.substr(end);
}

[[noreturn]] void refuse(const std::string& pattern, const std::vector<std::string>& names, const char* what) {
  const std::string close = meant(pattern, names);
  if (!close.empty()) fail(ErrorKind::kUsage, "\"{}\" names no {}; did you mean \"{}\"?", pattern, what, close);
  std::string some;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 4); ++i) some += (i > 0 ? ", " : "") + names[i];
  fail(ErrorKind::kUsage, "\"{}\" names no {}; there are {} {}", pattern, what, some, names.size() > 4 ? "…" : "");
}

std::vector<std::string> strings_of(const Json& config, const char* key) {
  std::vector<std::string> out;
  const auto found = config.find(key);
  if (found == config.end()) return out;
  for (const Json& each : *found) out.push_back(each.is_string() ? each.get<std::string>() : "");
  return out;
}

}  // namespace

std::vector<std::string> named_by(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                                  const char* what) {
  for (const std::string& pattern : patterns) {
    const auto matches = [&](const std::string& name) { return store::glob_matches(pattern, name); };
    if (std::ranges::none_of(names, matches)) refuse(pattern, names, what);
  }
  std::vector<std::string> named;
  for (const std::string& name : names) {
    if (std::ranges::any_of(patterns, [&](const std::string& pattern) { return store::glob_matches(pattern, name); }))
      named.push_back(name);
  }
  return named;
}

std::vector<std::string> frozen_parameters(const graph::Graph& graph, const std::vector<std::string>& patterns) {
  const std::vector<std::string> names = parameter_names(graph);
  std::vector<std::string> frozen = named_by(patterns, names, "parameter");
  if (!names.empty() && frozen.size() == names.size()) fail(ErrorKind::kUsage, "it leaves nothing to train");
  return frozen;
}

std::vector<std::string> frozen_parameters(const graph::Graph& graph, const Json& config) {
  if (!config.contains("lora")) return frozen_parameters(graph, strings_of(config, "freeze"));
  std::vector<std::string> frozen = parameter_names(graph);
  std::erase_if(frozen,
                [](const std::string& name) { return name.ends_with(graph::kLoraA) || name.ends_with(graph::kLoraB); });
  return frozen;
}

void read_freeze(TomlReader model, Built& built) {
  const std::vector<std::string> patterns = model.strings("freeze", std::vector<std::string>{});
  if (patterns.empty()) return;
  at_key(model, "freeze", [&] { built.frozen = frozen_parameters(built.graph, patterns); });
  Json config = parse_json(built.config, "the model's config");
  config["freeze"] = patterns;
  built.config = canonical(config);
}

}  // namespace mlx::nn
