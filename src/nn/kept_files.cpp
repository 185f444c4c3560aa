// tokenizer_config.json says names, the others numbers.

#include "nn/kept_files.h"

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer.h"
#include "nn/model_json.h"

namespace mlx::nn {
namespace {

// One template, or several with names.
std::string chosen_template(const Json& templates) {
  if (templates.is_string()) return templates.get<std::string>();
  if (templates.is_array()) {
    for (const Json& one : templates)
      if (one.is_object() && one.value("name", Json()) == "default" && one.contains("template"))
        return json_string(one, "template", kTokenizerConfigFile);
  }
  fail(ErrorKind::kUsage, "{}: 'chat_template' is neither text nor a list with one of the name default",
       kTokenizerConfigFile);
}

void add_ids(const Json& config, const char* key, const data::Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  const auto add = [&](const Json& id) {
    if (id.is_number_integer() && id >= 0 && id < tokenizer.size()) ids.push_back(id.get<std::int32_t>());
  };
  if (found->is_array()) {
    for (const Json& id : *found) add(id);
  } else {
    add(*found);
  }
}

}  // namespace

Json kept_json(const Model& model, const char* file) {
  const auto found = model.kept.find(file);
  if (found == model.kept.end()) return Json::object();
  Json json = parse_json(found->second, file);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", file, json.type_name());
  return json;
}

std::optional<std::string> chat_template(const Model& model) {
  if (const auto file = model.kept.find(kChatTemplateFile); file != model.kept.end()) return file->second;
  const Json config = kept_json(model, kTokenizerConfigFile);
  if (const auto found = config.find("chat_template"); found != config.end() && !found->is_null())
    return chosen_template(*found);
  return {};
}

std::vector<std::int32_t> token_ids(const Model& model, const char* key) {
  std::vector<std::int32_t> ids;
  for (const char* const file : {kGenerationFile, kConfigFile})
    add_ids(kept_json(model, file), key, *model.preprocessing.tokenizer, ids);
  return ids;
}

std::vector<std::pair<std::string, std::string>> token_names(const Model& model) {
  constexpr std::array<const char*, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};
  std::vector<std::pair<std::string, std::string>> out;
  const Json config = kept_json(model, kTokenizerConfigFile);
  for (const char* const name : kNames) {
    const Json* found = config.contains(name) ? &config[name] : nullptr;
    if (found && found->is_object()) found = found->contains("content") ? &(*found)["content"] : nullptr;
    if (found && found->is_string()) {
      out.emplace_back(name, found->get<std::string>());
    } else if (!config.contains(name)) {
      const std::vector<std::int32_t> ids = token_ids(model, fmt::format("{}_id", name).c_str());
      if (!ids.empty()) out.emplace_back(name, model.preprocessing.tokenizer->name(ids[0]));
    }
  }
  return out;
}

}  // namespace mlx::nn
