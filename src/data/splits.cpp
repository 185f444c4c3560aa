// Finds splits by dataset.toml, else by the names that each kind recognises.

#include "data/splits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/toml.h"
#include "data/division.h"
#include "data/readers/byte_stream.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

constexpr const char* kDeclaration = "dataset.toml";
constexpr std::uint64_t kLongestDeclaration = 16 << 20;

// What the split names under its kind's key is its root if it is a folder.
SplitFiles declared_files(TomlReader& split, const Files& files) {
  for (const Kind* kind : kinds()) {
    if (!split.has(kind->name)) continue;
    std::string root = split.is_text(kind->name) ? split.string(kind->name) : "";
    SplitFiles out{kind, kind->declared(split, files), std::move(root)};
    if (kind->form == Form::kFeatures) out.table = split.string("table", "");
    if (kind->windows) out.column = split.string("column", "");
    return out;
  }
  return {kinds()[0], kinds()[0]->declared(split, files)};
}

void check_split_name(const TomlReader& splits, const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  if (!good) splits.fail_at(name, "a split's name has letters, digits, '-' and '_', and at most 64 of them");
}

// Reads all but the rule, which it returns.
std::optional<SplitRule> read_declaration(std::string_view text, const Files& files, Layout& layout) {
  const TomlNode root = parse_toml(text, kDeclaration);
  TomlReader top(root, kDeclaration, "");
  if (top.has("classes")) {
    TomlReader classes = top.table("classes");
    layout.class_names = classes.strings("names");
    classes.finish();
    const std::set<std::string> distinct(layout.class_names.begin(), layout.class_names.end());
    if (layout.class_names.empty()) classes.fail_at("names", "expected at least one name");
    if (distinct.size() != layout.class_names.size()) classes.fail_at("names", "a name occurs twice");
  }
  std::optional<SplitRule> rule;
  if (top.has("split")) rule = read_split_rule(top.table("split"));
  TomlReader splits = top.table("splits");
  (void)top.table("check"), (void)top.table("labels");  // read by quality/rules.h, so a wrong rule stops no training
  top.finish();
  for (const std::string& name : splits.keys()) {
    check_split_name(splits, name);
    TomlReader split = splits.table(name, true);
    layout.splits[name] = declared_files(split, files);
    split.finish();
  }
  return rule;
}

// Replaces the split "train", or the only one, by its parts.
void divide(const Division& division, Layout& layout) {
  if (layout.splits.empty()) return;  // an error of its own
  const std::vector<Part> parts = {Part::kTrain, Part::kValid, Part::kTest};
  const auto whole = layout.splits.size() == 1 ? layout.splits.begin() : layout.splits.find(name_of(Part::kTrain));
  const auto taken = std::ranges::find_if(parts, [&](Part part) {
    const auto found = layout.splits.find(name_of(part));
    return division.rule.makes(part) && found != layout.splits.end() && found != whole;
  });
  if (whole == layout.splits.end() || taken != parts.end()) {
    if (division.gives_way) return;
    if (whole == layout.splits.end())
      throw Error(ErrorKind::kUsage, "there is no split 'train' to be divided", "the dataset has other splits");
    throw Error(ErrorKind::kUsage,
                fmt::format("split '{}' cannot be made by dividing '{}': {} is one already", name_of(*taken),
                            whole->first, layout.splits.at(name_of(*taken)).files.at(0).path),
                "leave its share out of the rule, or remove the file");
  }
  const SplitFiles files = std::move(whole->second);
  if (!files.kind->divides)
    fail(ErrorKind::kUsage, "split '{}' holds {}, which cannot be divided", whole->first, files.kind->name);
  layout.splits.erase(whole);
  for (const Part part : parts) {
    if (!division.rule.makes(part)) continue;
    SplitFiles& to = layout.splits[name_of(part)] = files;
    to.part = SplitPart{division.rule, part};
  }
}

// Plain text is divided file by file: all else divides its items when they are read.
std::vector<store::Entry> files_in_part(const Kind& kind, std::vector<store::Entry> files,
                                        const std::optional<SplitPart>& part) {
  const auto is_table = [](const store::Entry& file) { return table_kind(file.path).has_value(); };
  if (!part || !kind.windows || std::ranges::any_of(files, is_table)) return files;
  const std::vector<Part> parts = divide_files(files, part->rule);
  std::vector<store::Entry> out;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (parts[i] == part->part) out.push_back(std::move(files[i]));
  return out;
}

std::vector<std::string> names_of(const Layout& layout) {
  std::vector<std::string> names;
  names.reserve(layout.splits.size());
  for (const auto& [name, files] : layout.splits) names.push_back(name);
  return names;
}

}  // namespace

Layout find_layout(const store::Store& store, const Digest& manifest, const Division* division) {
  Files files;
  for (store::Entry& entry : store.entries(manifest)) {
    if (entry.mode != store::kModeLink) files.emplace(entry.path, entry);
  }
  Layout layout;
  std::optional<SplitRule> declared;
  if (const auto found = files.find(kDeclaration); found != files.end()) {
    if (found->second.size > kLongestDeclaration)
      fail(ErrorKind::kUsage, "{}: {} are too much", kDeclaration, format_bytes(found->second.size));
    const Bytes text = store.read_blob(found->second.content);
    declared = read_declaration(as_text(text), files, layout);
  }
  for (const Kind* kind : kinds()) {
    if (layout.splits.empty()) kind->find_splits(files, layout);
  }
  if (division)
    divide(*division, layout);
  else if (declared)
    divide({*declared}, layout);
  return layout;
}

std::vector<std::string> splits(const store::Store& store, const Digest& manifest) {
  return names_of(find_layout(store, manifest));
}

StoredSplit stored_split(const store::Store& store, const Digest& manifest, const std::string& split,
                         const Division* division) {
  Layout layout = find_layout(store, manifest, division);
  const auto found = layout.splits.find(split);
  if (found != layout.splits.end()) {
    SplitFiles& of = found->second;
    return {&store,
            of.kind,
            files_in_part(*of.kind, std::move(of.files), of.part),
            std::move(layout.class_names),
            std::move(of.root),
            std::move(of.part),
            std::move(of.table),
            std::move(of.column)};
  }
  if (layout.splits.empty()) {
    std::string names;
    for (const Kind* kind : kinds()) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->file_names);
    throw Error(ErrorKind::kNotFound, "the dataset has no split: no file in it is named like one",
                fmt::format("name the files like {}; or declare splits in dataset.toml", names));
  }
  throw Error(ErrorKind::kNotFound, fmt::format("the dataset has no split '{}'", split),
              fmt::format("it has: {}", fmt::join(names_of(layout), ", ")));
}

StoredSplit stored_split(const store::Store& store, const Digest& manifest, const std::string& split, const Kind& kind,
                         const Division* division) {
  StoredSplit stored = stored_split(store, manifest, split, division);
  if (stored.kind != &kind)
    fail(ErrorKind::kUsage, "split '{}' of the dataset holds {}, expected {}", split, stored.kind->name, kind.name);
  return stored;
}

std::string split_named(std::string_view name) {
  const std::string_view word = name.substr(name.find_last_of("-_") + 1);  // npos + 1 is 0
  if (word == "train") return "train";
  if (word == "t10k" || word == "test") return "test";
  if (word == "valid" || word == "validation" || word == "val") return "valid";
  return "";
}

std::string stem_with(std::string_view path, std::span<const std::string_view> endings) {
  std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  name = without_compression(name);
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending) && name.size() > ending.size())
      return std::string(name.substr(0, name.size() - ending.size()));
  }
  return "";
}

std::vector<store::Entry> files_with(const Files& files, std::span<const std::string_view> endings) {
  std::vector<store::Entry> found;
  for (const auto& [path, entry] : files) {
    const std::string_view plain = without_compression(path);
    const bool doubled = plain != path && files.contains(std::string(plain));
    if (!doubled && !stem_with(path, endings).empty()) found.push_back(entry);
  }
  return found;
}

void add_split(Layout& layout, const std::string& split, SplitFiles files, const char* keys) {
  const std::string path = files.files.at(0).path;
  const auto [other, fresh] = layout.splits.insert({split, std::move(files)});
  if (fresh) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{} and {} would both be the split '{}'", other->second.files.at(0).path, path, split),
              fmt::format("say which in dataset.toml: [splits.NAME] with {}", keys));
}

store::Entry declared_file(TomlReader& split, const char* key, const std::string& path, const Files& files) {
  const auto found = files.find(path);
  if (found != files.end()) return found->second;
  std::vector<std::string> paths;
  for (const auto& [name, entry] : files) paths.push_back(name);
  const std::string close = did_you_mean(path, paths);
  split.fail_at(key, fmt::format("the dataset has no file '{}'{}", path,
                                 close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
}

}  // namespace mlx::data
