// modules.json lists what a text goes through: a transformer, a pooling, perhaps a normalisation. The pooling has a
// config.json in a folder of its own.

#include "nn/sentence_transformers.h"

#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "nn/config_keys.h"
#include "nn/outside_tensors.h"

namespace mlx::nn {
namespace {

constexpr std::size_t kLongestFile = std::size_t{1} << 20;
constexpr const char *kModules = "modules.json", *kLengths = "sentence_bert_config.json",
                     *kPrompts = "config_sentence_transformers.json";

Json json_in(const std::string& folder, const std::string& name) {
  const Bytes bytes = read_regular_file(file_inside(folder, name), kLongestFile);
  return parse_json(std::string(as_text(bytes)), printable(join_path(folder, name)));
}

std::string pooling_in(const std::string& folder, const std::string& module) {
  if (!is_safe_relative(module))
    fail(ErrorKind::kCorrupt, "{}: '{}' is no folder of the model's", printable(join_path(folder, kModules)),
         printable(module));
  const std::string file = join_path(module, "config.json"), what = printable(join_path(folder, file));
  const Json json = json_in(folder, file);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  constexpr std::pair<const char*, const char*> kModes[] = {{"pooling_mode_cls_token", "cls"},
                                                            {"pooling_mode_mean_tokens", "mean"},
                                                            {"pooling_mode_max_tokens", "max"},
                                                            {"pooling_mode_lasttoken", "last"}};
  constexpr const char* kSupported = "one of pooling_mode_cls_token, _mean_tokens, _max_tokens and _lasttoken";
  const ConfigKeys keys{json, what};
  std::string found = keys.string("pooling_mode", "");
  if (found == "lasttoken") found = "last";
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with("pooling_mode_") || !keys.boolean(key.c_str(), false)) continue;
    const char* name = nullptr;
    for (const auto& [mode, as] : kModes)
      if (key == mode) name = as;
    if (!name || !found.empty()) keys.unsupported(name ? "more than one mode of pooling" : key, kSupported);
    found = name;
  }
  for (const auto& [mode, as] : kModes)
    if (found == as) return found;
  keys.unsupported(found.empty() ? "a pooling without a mode" : found, kSupported);
}

// What stands behind the last dot: "sentence_transformers.models.Pooling".
std::string kind_of_module(const std::string& type) {
  return type.substr(type.rfind('.') + 1);
}

void read_modules(const std::string& folder, SentencePooling& out) {
  const std::string what = printable(join_path(folder, kModules));
  const Json list = json_in(folder, kModules);
  if (!list.is_array()) fail(ErrorKind::kCorrupt, "{}: expected an array, got {}", what, list.type_name());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) fail(ErrorKind::kCorrupt, "{}: expected objects, got {}", what, list[i].type_name());
    const ConfigKeys keys{list[i], what};
    const std::string type = keys.string("type", ""), kind = kind_of_module(type), path = keys.string("path", "");
    if (i == 0 && kind == "Transformer" && path.empty()) continue;
    if (i == 1 && kind == "Pooling") {
      out.pooling = pooling_in(folder, path);
    } else if (i == 2 && kind == "Normalize") {
      out.normalize = true;
    } else {
      keys.unsupported(fmt::format("the module '{}' as number {}", type, i + 1),
                       "a Transformer of the folder itself, then a Pooling, then a Normalize or none");
    }
  }
  if (out.pooling.empty()) fail(ErrorKind::kCorrupt, "{}: there is no Pooling", what);
}

void read_lengths(const std::string& folder, SentencePooling& out) {
  if (!path_exists(join_path(folder, kLengths))) return;
  const Json json = json_in(folder, kLengths);
  const ConfigKeys keys{json, printable(join_path(folder, kLengths))};
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", keys.what, json.type_name());
  if (keys.boolean("do_lower_case", false)) keys.unsupported("do_lower_case", "lower case that the tokenizer makes");
  if (keys.find("max_seq_length")) out.longest = keys.integer("max_seq_length", kMostPositions);
}

// A prompt that stands before every text would have to be there in every use.
void check_no_prompt(const std::string& folder) {
  if (!path_exists(join_path(folder, kPrompts))) return;
  const Json json = json_in(folder, kPrompts);
  if (!json.is_object() || !json.contains("default_prompt_name") || json["default_prompt_name"].is_null()) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: default_prompt_name is not supported", printable(join_path(folder, kPrompts))),
              "set it to null, and write the prompt before each text");
}

}  // namespace

std::optional<SentencePooling> read_sentence_pooling(const std::string& folder) {
  if (!path_exists(join_path(folder, kModules))) return std::nullopt;
  SentencePooling out;
  read_modules(folder, out);
  read_lengths(folder, out);
  check_no_prompt(folder);
  return out;
}

}  // namespace mlx::nn
