// Photos by class folder, by a table with a column of files and one of labels, or in shards.

#include "data/kinds/photo_files.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/division.h"
#include "data/images/decode.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/photo_shards.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

constexpr std::string_view kLabelTables[] = {".csv", ".tsv"};
constexpr std::string_view kFileColumns[] = {"file", "filename", "file_name", "image", "audio"};
constexpr std::string_view kLabelColumns[] = {"label", "class"};
constexpr std::size_t kMostPhotoClasses = 1 << 20;
constexpr const char* kLabelsInShards = "the samples of shards have their labels beside them";

bool is_photo(const std::string& path) {
  return has_picture_name(path) && !is_hidden(path);
}

std::vector<store::Entry> photos_below(const std::string& root, const Files& files) {
  std::vector<store::Entry> found;
  for (auto file = files.lower_bound(root); file != files.end() && file->first.starts_with(root); ++file)
    if (is_photo(file->first)) found.push_back(file->second);
  return found;
}

// The split folders that hold class folders: "a/train/" → "train" for a/train/cat/1.jpg.
std::map<std::string, std::string> split_folders(const Files& files) {
  std::map<std::string, std::string> found;
  for (const auto& [path, entry] : files) {
    if (!is_photo(path)) continue;
    for (std::size_t begin = 0; !folder_at(path, begin).empty(); begin = path.find('/', begin) + 1) {
      const std::size_t end = path.find('/', begin) + 1;
      const std::string split = split_of_folder(folder_at(path, begin));
      if (split.empty() || folder_at(path, end).empty()) continue;
      found.emplace(path.substr(0, end), split);
      break;
    }
  }
  return found;
}

// True if most files of the dataset have such names. If they are photos, a table beside them is one of labels and
// folders are classes.
bool mostly(bool (*is_one)(std::string_view path), const Files& files) {
  std::size_t ones = 0, all = 0;
  for (const auto& [path, entry] : files) {
    if (is_hidden(path)) continue;
    ++all;
    if (is_one(path)) ++ones;
  }
  return 2 * ones > all;
}

void add_tables(const Files& files, Layout& layout) {
  const std::vector<store::Entry> tables = files_with(files, kLabelTables);
  for (const store::Entry& table : tables) {
    std::string split = split_named(stem_with(table.path, kLabelTables));
    if (split.empty() && tables.size() == 1) split = "train";
    if (split.empty() || is_hidden(table.path)) continue;
    const std::string root = table.path.substr(0, table.path.rfind('/') + 1);  // npos + 1 is 0
    SplitFiles found{&images_kind, {table}, root};
    for (store::Entry& photo : photos_below(root, files)) found.files.push_back(std::move(photo));
    add_split(layout, split, std::move(found), "images and labels");
  }
}

// Without split folders all photos are for training. Folders around all classes do not count.
void add_class_folders(const Files& files, Layout& layout) {
  std::vector<store::Entry> photos = photos_below("", files);
  std::vector<std::string_view> paths;
  paths.reserve(photos.size());
  for (const store::Entry& photo : photos) paths.push_back(photo.path);
  const std::string root = folders_around(paths);
  const bool has_classes = std::ranges::any_of(
      photos, [&](const store::Entry& photo) { return !folder_at(photo.path, root.size()).empty(); });
  if (has_classes) layout.splits["train"] = {&images_kind, std::move(photos), root};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The first column with one of these names.
std::uint32_t column_named(const std::vector<std::string>& columns, std::span<const std::string_view> names,
                           const std::string& table) {
  for (const std::string_view name : names)
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (lower(columns[i]) == name) return static_cast<std::uint32_t>(i);
  std::string wanted, there;
  for (const std::string_view name : names) wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", name);
  for (const std::string& name : columns) there += fmt::format("{}{}", there.empty() ? "" : ", ", name);
  throw Error(ErrorKind::kUsage, fmt::format("{}: a table of photos needs a column named {}", table, wanted),
              fmt::format("it has: {}; rename one, or declare the splits in dataset.toml", there));
}

// Finds the photos that a table names: relative to the split's root, to its folder or to the dataset, else the only
// photo below the root whose path ends so. Of several, one in a folder named like the table counts.
class PhotoFinder {
 public:
  PhotoFinder(const StoredSplit& split, std::string root) : root_(std::move(root)) {
    const std::string& table = split.files.at(0).path;
    beside_ = table.substr(0, table.rfind('/') + 1);
    stem_ = stem_with(table, kLabelTables);
    for (std::size_t i = 1; i < split.files.size(); ++i) {
      const store::Entry& photo = split.files[i];
      by_path_.emplace(photo.path, &photo);
      by_name_.emplace(photo.path.substr(photo.path.rfind('/') + 1), &photo);
    }
  }

  const store::Entry* find(std::string name) const {
    while (name.starts_with("./")) name.erase(0, 2);
    for (const std::string& folder : {root_, root_ + stem_ + "/", beside_, std::string()}) {
      const auto found = by_path_.find(folder + name);
      if (found != by_path_.end()) return found->second;
    }
    std::vector<const store::Entry*> close, named;
    const auto [begin, end] = by_name_.equal_range(name.substr(name.rfind('/') + 1));
    for (auto each = begin; each != end; ++each) {
      if (!each->second->path.ends_with("/" + name)) continue;
      close.push_back(each->second);
      if (each->second->path.find("/" + stem_ + "/") != std::string::npos) named.push_back(each->second);
    }
    if (close.size() == 1) return close[0];
    return named.size() == 1 ? named[0] : nullptr;
  }

 private:
  std::string root_, beside_, stem_;
  std::unordered_map<std::string, const store::Entry*> by_path_;
  std::unordered_multimap<std::string, const store::Entry*> by_name_;
};

std::string_view cell_of(const Row& row, std::uint32_t column) {
  for (const Cell& cell : row.cells)
    if (cell.column == column) return trimmed(cell.text);
  return {};
}

// The column of the table that divides the splits; nullopt if there is no such column.
std::optional<std::uint32_t> dividing_column(const StoredSplit& split, const std::vector<std::string>& columns) {
  if (!split.part || split.part->rule.column.empty()) return {};
  const std::string& name = split.part->rule.column;
  const auto found = std::ranges::find(columns, name);
  if (found != columns.end()) return static_cast<std::uint32_t>(found - columns.begin());
  const std::string close = did_you_mean(name, columns);
  throw Error(ErrorKind::kUsage, fmt::format("{}: there is no column '{}' to divide by", split.files.at(0).path, name),
              close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

LabelledPhotos read_table_of(const StoredSplit& split, bool with_labels) {
  const store::Entry& table = split.files.at(0);
  const FoundTable found = find_table(stored_source(*split.store, table.content), table.path);
  const std::unique_ptr<TableReader> reader = read_table(found.open(), found.kind);
  const std::string root = as_root(split.root);
  const PhotoFinder finder(split, root);
  LabelledPhotos out;
  std::set<std::string> seen;
  std::uint32_t file = 0, label = 0;
  std::optional<std::uint32_t> dividing;
  const auto fail_at = [&](const Row& row, const std::string& why, const char* hint) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: line {}: {}", table.path, lines_of(*found.open(), {row.offset}, found.kind).at(0), why), hint);
  };
  for (Row row; reader->next(row);) {
    if (out.files.empty()) {
      file = column_named(reader->columns(), kFileColumns, table.path);
      if (with_labels) label = column_named(reader->columns(), kLabelColumns, table.path);
      dividing = dividing_column(split, reader->columns());
    }
    const std::string name(cell_of(row, file)), text(with_labels ? cell_of(row, label) : "");
    if (with_labels && text.empty()) fail_at(row, fmt::format("'{}' has no label", name), "");
    const store::Entry* const photo = finder.find(name);
    if (!photo) {
      fail_at(row, fmt::format("there is no photo '{}', or several below '{}'", name, root.empty() ? "." : root),
              "paths are relative to the folder of photos");
    }
    if (!seen.insert(photo->path).second) {
      fail_at(row, fmt::format("'{}' occurs twice", name),
              "a photo has one label; several labels and bounding boxes are not read");
    }
    out.files.push_back(PhotoFile::of(*photo));
    out.labels.push_back(text);
    if (dividing) out.values.emplace_back(cell_of(row, *dividing));
  }
  if (out.files.empty()) fail(ErrorKind::kCorrupt, "{}: the table names no photo", table.path);
  return out;
}

bool has_shards(const StoredSplit& split) {
  return is_shard(split.files.at(0).path);
}
bool has_table(const StoredSplit& split) {
  return !has_picture_name(split.files.at(0).path) && !has_shards(split);
}

LabelledPhotos labels_of_folders(const StoredSplit& split) {
  const std::string root = as_root(split.root);
  LabelledPhotos out;
  for (const store::Entry& photo : split.files) {
    const std::string_view name = folder_at(photo.path, root.size());
    if (name.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("{}: this photo is in no class folder", photo.path),
                  fmt::format("move it to {}CLASS/, or remove it from the dataset", root));
    }
    out.files.push_back(PhotoFile::of(photo));
    out.labels.emplace_back(name);
  }
  return out;
}

LabelledPhotos labelled(const StoredSplit& split, bool with_labels) {
  if (has_shards(split)) return samples_of(split, with_labels);
  return has_table(split) ? read_table_of(split, with_labels) : labels_of_folders(split);
}

// Leaves the photos of the split's part.
void take_part(const StoredSplit& split, LabelledPhotos& photos) {
  if (!split.part) return;
  const SplitRule& rule = split.part->rule;
  const bool by_label = rule.by == DivideBy::kStratified && rule.column.empty();
  if (!by_label && rule.by != DivideBy::kFraction && photos.values.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("photos in class folders and shards have no column '{}'", rule.column),
                "divide by fraction or stratified without a column, or give the photos a table of labels");
  }
  Divider divider(rule);
  const PhotoReader reader(*split.store);
  for (std::size_t i = 0; i < photos.files.size(); ++i) {
    split.store->interruption().check();
    const std::string& value = by_label                ? photos.labels[i]
                               : photos.values.empty() ? photos.labels[i]
                                                       : photos.values[i];
    if (const char* const wrong = divider.add(reader.content_of(photos.files[i]), value))
      fail(ErrorKind::kCorrupt, "{}: column '{}': '{}' {}", photos.files[i].path, rule.column, value, wrong);
  }
  const IndexSet chosen = items_of(divider.finish(), split.part->part);
  const auto choose = [&](auto& list) {
    if (list.empty()) return;
    for (std::int64_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] != i) list[static_cast<std::size_t>(i)] = std::move(list[static_cast<std::size_t>(chosen[i])]);
    list.resize(static_cast<std::size_t>(chosen.size()));
  };
  choose(photos.files), choose(photos.labels), choose(photos.values);
}

// Whole numbers without a sign or needless zeros; nullopt for other text.
std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text || value < 0) return {};
  return value;
}

// Numbers by their value, everything else by its bytes.
std::vector<std::string> sorted_classes(const std::vector<std::string>& labels) {
  const std::set<std::string> distinct(labels.begin(), labels.end());
  std::vector<std::string> out(distinct.begin(), distinct.end());
  if (std::ranges::all_of(out, [](const std::string& label) { return number_of(label).has_value(); }))
    std::ranges::sort(out, {}, [](const std::string& label) { return *number_of(label); });
  if (out.size() > kMostPhotoClasses) fail(ErrorKind::kCorrupt, "{} classes are too many", out.size());
  return out;
}

// A label may be a number of the names in dataset.toml.
const std::string& named_class(const std::string& label, const std::vector<std::string>& names) {
  const std::optional<std::int64_t> number = number_of(label);
  if (!number || *number >= static_cast<std::int64_t>(names.size())) return label;
  return std::ranges::find(names, label) == names.end() ? names[static_cast<std::size_t>(*number)] : label;
}

std::string listed(const std::vector<std::string>& classes) {
  constexpr std::size_t kMost = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, classes.size()); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", classes[i]);
  return classes.size() > kMost ? out + ", …" : out;
}

}  // namespace

bool holds_photos(const StoredSplit& split) {
  const std::string& first = split.files.at(0).path;
  return has_picture_name(first) || is_shard(first) || !stem_with(first, kLabelTables).empty();
}

void find_photo_splits(const Files& files, Layout& layout) {
  for (const auto& [root, split] : split_folders(files))
    add_split(layout, split, {&images_kind, photos_below(root, files), root}, "images = \"FOLDER\"");
  if (!layout.splits.empty()) return;
  if (mostly(is_shard, files)) return find_shard_splits(files, layout);
  if (!mostly(has_picture_name, files)) return;
  add_tables(files, layout);
  if (layout.splits.empty()) add_class_folders(files, layout);
}

std::vector<store::Entry> declared_photos(TomlReader& split, const std::string& folder, const Files& files) {
  const std::vector<store::Entry> photos = photos_below(as_root(folder), files);
  if (photos.empty()) {
    std::vector<store::Entry> shards = shards_below(as_root(folder), files);
    if (!shards.empty() && split.has("labels")) split.fail_at("labels", kLabelsInShards);
    if (!shards.empty()) return shards;
  }
  if (photos.empty()) (void)declared_file(split, "images", folder, files);  // says what is missing
  std::vector<store::Entry> found;
  if (split.has("labels")) {
    found.push_back(declared_file(split, "labels", split.string("labels"), files));
    if (stem_with(found[0].path, kLabelTables).empty())
      split.fail_at("labels", "the labels of a folder of photos are in a .csv or .tsv file");
  }
  found.insert(found.end(), photos.begin(), photos.end());
  return found;
}

std::vector<store::Entry> declared_shards(TomlReader& split, const std::vector<std::string>& paths,
                                          const Files& files) {
  if (split.has("labels")) split.fail_at("labels", kLabelsInShards);
  if (paths.empty()) split.fail_at("images", "expected at least one shard");
  std::vector<store::Entry> found;
  for (const std::string& path : paths) {
    found.push_back(declared_file(split, "images", path, files));
    if (!is_shard(path)) split.fail_at("images", "a list names shards of samples, which end in .tar");
  }
  return found;
}

PhotoList list_photos(const StoredSplit& split, const std::vector<std::string>& classes) {
  LabelledPhotos found = labelled(split, true);
  PhotoList out;
  out.classes = !classes.empty() ? classes : split.class_names;
  if (out.classes.empty()) out.classes = sorted_classes(found.labels);  // of all parts
  take_part(split, found);
  std::unordered_map<std::string, std::int32_t> numbers;
  for (std::size_t i = 0; i < out.classes.size(); ++i) numbers.emplace(out.classes[i], static_cast<std::int32_t>(i));
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    const std::string& label = named_class(found.labels[i], split.class_names);
    const auto named = numbers.find(label);
    if (named != numbers.end()) {
      out.labels.push_back(named->second);
    } else {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: class '{}' is none of the {} classes {}", found.files[i].path, label,
                              out.classes.size(), listed(out.classes)),
                  "name all classes in the dataset's dataset.toml (mlx-format-dataset(5)), or mend the labels");
    }
  }
  out.files = std::move(found.files);
  return out;
}

std::vector<PhotoFile> photos_of(const StoredSplit& split) {
  const bool by_label = split.part && split.part->rule.by == DivideBy::kStratified;
  LabelledPhotos found;
  if (split.part || has_table(split) || has_shards(split)) {
    found = labelled(split, by_label);
    take_part(split, found);
  } else {
    for (const store::Entry& photo : split.files) found.files.push_back(PhotoFile::of(photo));
  }
  return std::move(found.files);
}

std::vector<std::uint64_t> contents_listed(const StoredSplit& split, bool read) {
  if (has_shards(split) && !read) return {};
  const PhotoReader reader(*split.store);
  const std::vector<PhotoFile> photos = photos_of(split);
  std::vector<std::uint64_t> out(photos.size());
  split.store->pool().run(static_cast<std::int64_t>(photos.size()), [&](std::int64_t i) {
    split.store->interruption().check();
    out[static_cast<std::size_t>(i)] = reader.content_of(photos[static_cast<std::size_t>(i)]);
  });
  return out;
}

}  // namespace mlx::data
