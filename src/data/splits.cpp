// Finds splits by names or by dataset.toml.

#include "data/splits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/path.h"
#include "base/toml.h"

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
  // What is left ends in "images-idx3", "images.idx4", "labels-idx1" …
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

// The split that a prefix's last word names, "" for none.
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

void splits_by_name(const Entries& entries, Layout& layout) {
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
    const auto [other, fresh] = layout.splits.insert({split, {entry, *labels}});
    if (!fresh) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{} and {} would both be the split '{}'", other->second.images.path, path, split),
                  "say which in dataset.toml: [splits.NAME] with images and labels");
    }
  }
}

store::Entry declared_file(TomlReader& split, const char* key, const Entries& entries) {
  const std::string path = split.string(key);
  const auto found = entries.find(path);
  if (found != entries.end()) return found->second;
  std::vector<std::string> paths;
  for (const auto& [name, entry] : entries) paths.push_back(name);
  const std::string close = did_you_mean(path, paths);
  split.fail_at(key, fmt::format("the dataset has no file '{}'{}", path,
                                 close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
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
    if (distinct.size() != layout.class_names.size()) classes.fail_at("names", "a name stands twice");
  }
  TomlReader splits = top.table("splits");
  top.finish();
  for (const std::string& name : splits.keys()) {
    check_split_name(splits, name);
    TomlReader split = splits.table(name, true);
    SplitFiles files{declared_file(split, "images", entries), declared_file(split, "labels", entries)};
    split.finish();
    layout.splits[name] = std::move(files);
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
  if (layout.splits.empty()) splits_by_name(entries, layout);
  return layout;
}

}  // namespace mlx::data
