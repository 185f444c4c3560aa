// Finds splits by file names or by dataset.toml.

#include "data/splits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/path.h"
#include "base/toml.h"
#include "data/table.h"

namespace mlx::data {
namespace {

constexpr const char* kDeclaration = "dataset.toml";
constexpr std::uint64_t kLongestDeclaration = 16 << 20;

using Entries = std::map<std::string, store::Entry>;  // by path

// "a/emnist-digits-train-images-idx3-ubyte.gz" → folder "a/", prefix "emnist-digits-train", kind "images".
struct NameParts {
  std::string folder, prefix, kind;
  bool gz = false;
};

std::optional<NameParts> take_apart(const std::string& path) {
  NameParts parts;
  const std::size_t slash = path.rfind('/');
  parts.folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::string_view name = std::string_view(path).substr(parts.folder.size());
  if (name.ends_with(".gz")) parts.gz = true, name.remove_suffix(3);
  if (!name.ends_with("-ubyte")) return {};
  name.remove_suffix(6);
  // The rest ends in "images-idx3", "images.idx4", "labels-idx1" …
  if (name.size() < 5 || name.substr(name.size() - 4, 3) != "idx") return {};
  if (name[name.size() - 5] != '-' && name[name.size() - 5] != '.') return {};
  name.remove_suffix(5);
  for (const std::string_view kind : {"images", "labels"}) {
    if (!name.ends_with(kind) || name.size() < kind.size() + 2) continue;
    parts.kind = kind;
    parts.prefix = name.substr(0, name.size() - kind.size() - 1);
    return parts;
  }
  return {};
}

// The split named by a prefix's last word; "" for none.
std::string split_of(const std::string& prefix) {
  const std::string word = prefix.substr(prefix.find_last_of("-_") + 1);  // npos + 1 is 0
  if (word == "train") return "train";
  if (word == "t10k" || word == "test") return "test";
  if (word == "valid" || word == "validation" || word == "val") return "valid";
  return "";
}

const store::Entry* find_labels(const Entries& entries, const NameParts& images) {
  for (const std::string_view between : {"-labels-idx1-ubyte", "-labels.idx1-ubyte"}) {
    for (const std::string_view end : {"", ".gz"}) {
      const auto found = entries.find(fmt::format("{}{}{}{}", images.folder, images.prefix, between, end));
      if (found != entries.end()) return &found->second;
    }
  }
  return nullptr;
}

[[noreturn]] void refuse_second(const std::string& first, const std::string& second, const std::string& split,
                                const char* keys) {
  throw Error(ErrorKind::kCorrupt, fmt::format("{} and {} would both be the split '{}'", first, second, split),
              fmt::format("choose one in dataset.toml: [splits.NAME] with {}", keys));
}

void images_by_name(const Entries& entries, Layout& layout) {
  for (const auto& [path, entry] : entries) {
    const std::optional<NameParts> parts = take_apart(path);
    if (!parts || parts->kind != "images") continue;
    const std::string split = split_of(parts->prefix);
    if (split.empty()) continue;
    if (parts->gz && entries.contains(path.substr(0, path.size() - 3))) continue;  // the plain one is read
    const store::Entry* const labels = find_labels(entries, *parts);
    if (!labels) {
      fail(ErrorKind::kCorrupt, "{}: its labels ({}{}-labels-idx1-ubyte or the same with .gz) are missing", path,
           parts->folder, parts->prefix);
    }
    const auto [other, fresh] = layout.splits.insert({split, {Kind::kImages, entry, *labels, {}, {}}});
    if (!fresh) refuse_second(other->second.images.path, path, split, "images and labels");
  }
}

// "a/train-2.csv.gz" → "train-2", without folder and endings; "" if it has none of these endings.
std::string stem_with(std::string_view path, std::span<const std::string_view> endings) {
  std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (name.ends_with(".gz")) name.remove_suffix(3);
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending) && name.size() > ending.size())
      return std::string(name.substr(0, name.size() - ending.size()));
  }
  return "";
}

// Files with one of these endings, except .gz files that are there plain too.
std::vector<const store::Entry*> files_with(const Entries& entries, std::span<const std::string_view> endings) {
  std::vector<const store::Entry*> found;
  for (const auto& [path, entry] : entries) {
    const bool doubled = path.ends_with(".gz") && entries.contains(path.substr(0, path.size() - 3));
    if (!doubled && !stem_with(path, endings).empty()) found.push_back(&entry);
  }
  return found;
}

constexpr std::string_view kTables[] = {".csv", ".tsv", ".jsonl", ".ndjson"};
constexpr std::string_view kTexts[] = {".txt"};

void rows_by_name(const Entries& entries, Layout& layout) {
  const std::vector<const store::Entry*> files = files_with(entries, kTables);
  for (const store::Entry* file : files) {
    const std::string split = split_of(stem_with(file->path, kTables));
    if (split.empty()) continue;
    const auto [other, fresh] = layout.splits.insert({split, {Kind::kFeatures, {}, {}, *file, {}}});
    if (!fresh) refuse_second(other->second.rows.path, file->path, split, "rows");
  }
  if (layout.splits.empty() && files.size() == 1) layout.splits["train"] = {Kind::kFeatures, {}, {}, *files[0], {}};
}

// The split named by the file, or by its folder.
std::string text_split(const std::string& path) {
  const std::string own = split_of(stem_with(path, kTexts));
  const std::size_t slash = path.rfind('/');
  if (!own.empty() || slash == std::string::npos) return own;
  const std::string folder = path.substr(0, slash);
  return split_of(folder.substr(folder.rfind('/') + 1));
}

void text_by_name(const Entries& entries, Layout& layout) {
  const std::vector<const store::Entry*> files = files_with(entries, kTexts);
  for (const store::Entry* file : files) {
    const std::string split = text_split(file->path);
    if (split.empty()) continue;
    SplitFiles& files_of_split = layout.splits[split];
    files_of_split.kind = Kind::kTokens;
    files_of_split.text.push_back(*file);
  }
  if (layout.splits.empty() && files.size() == 1) layout.splits["train"] = {Kind::kTokens, {}, {}, {}, {*files[0]}};
}

store::Entry declared_file(TomlReader& split, const char* key, const std::string& path, const Entries& entries) {
  const auto found = entries.find(path);
  if (found != entries.end()) return found->second;
  std::vector<std::string> paths;
  for (const auto& [name, entry] : entries) paths.push_back(name);
  const std::string close = did_you_mean(path, paths);
  split.fail_at(key, fmt::format("the dataset has no file '{}'{}", path,
                                 close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
}

SplitFiles declared_files(TomlReader& split, const Entries& entries) {
  SplitFiles files;
  if (split.has("rows")) {
    files.kind = Kind::kFeatures;
    files.rows = declared_file(split, "rows", split.string("rows"), entries);
    if (!table_kind(files.rows.path))
      split.fail_at("rows", "expected a file that ends in .csv, .tsv, .jsonl or .ndjson, plain or .gz");
  } else if (split.has("text")) {
    files.kind = Kind::kTokens;
    for (const std::string& path : split.strings("text"))
      files.text.push_back(declared_file(split, "text", path, entries));
    if (files.text.empty()) split.fail_at("text", "expected at least one file");
  } else {
    files.images = declared_file(split, "images", split.string("images"), entries);
    files.labels = declared_file(split, "labels", split.string("labels"), entries);
  }
  return files;
}

void check_split_name(const TomlReader& splits, const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  if (!good) splits.fail_at(name, "a split's name has letters, digits, '-' and '_', and at most 64 of them");
}

void read_declaration(std::string_view text, const Entries& entries, Layout& layout) {
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
  TomlReader splits = top.table("splits");
  top.finish();
  for (const std::string& name : splits.keys()) {
    check_split_name(splits, name);
    TomlReader split = splits.table(name, true);
    layout.splits[name] = declared_files(split, entries);
    split.finish();
  }
}

}  // namespace

Layout find_layout(const store::Store& store, const Digest& manifest) {
  Entries entries;
  for (store::Entry& entry : store.entries(manifest)) {
    if (entry.mode != store::kModeLink) entries.emplace(entry.path, entry);
  }
  Layout layout;
  if (const auto found = entries.find(kDeclaration); found != entries.end()) {
    if (found->second.size > kLongestDeclaration)
      fail(ErrorKind::kUsage, "{}: {} are too much", kDeclaration, format_bytes(found->second.size));
    const Bytes text = store.read_blob(found->second.content);
    read_declaration(as_text(text), entries, layout);
  }
  for (const auto& by_name : {images_by_name, rows_by_name, text_by_name}) {
    if (layout.splits.empty()) by_name(entries, layout);
  }
  return layout;
}

std::vector<std::string> names_of(const Layout& layout) {
  std::vector<std::string> names;
  names.reserve(layout.splits.size());
  for (const auto& [name, files] : layout.splits) names.push_back(name);
  return names;
}

const SplitFiles& files_of(const Layout& layout, const Digest& manifest, const std::string& split) {
  const auto found = layout.splits.find(split);
  if (found != layout.splits.end()) return found->second;
  if (layout.splits.empty()) {
    throw Error(
        ErrorKind::kNotFound, fmt::format("dataset {} has no split: no file in it is named like one", manifest.brief()),
        "name the files train-images-idx3-ubyte(.gz) and train-labels-idx1-ubyte(.gz), train.csv, train.jsonl or "
        "train.txt, or declare splits in dataset.toml");
  }
  throw Error(ErrorKind::kNotFound, fmt::format("dataset {} has no split '{}'", manifest.brief(), split),
              fmt::format("it has: {}", fmt::join(names_of(layout), ", ")));
}

}  // namespace mlx::data
