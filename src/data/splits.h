// Which files of a version form which split, and the names of its classes: from dataset.toml if there is one, else from
// the files' names (mlx-format-dataset(5)).
//
//   images  train-images-idx3-ubyte(.gz), train-labels-idx1-ubyte(.gz); any prefix ("emnist-digits-train-…") is ignored
//           photos and sounds: train/CLASS/1.jpg, a table of labels, tar shards such as train-0001.tar (photo_files.h)
//   rows    train.csv and other tables (table_format.h), text plain, .gz or .zst; a single table of another name is
//   "train" text    train.txt(.gz, .zst), or all of train/*.txt concatenated; a single such file of another name is
//   "train"
//
// t10k and test are the split "test"; valid, validation and val are "valid". Kinds are looked for in the order of their
// table (kind.cpp). Where a file lies there both plain and compressed, the plain one is read.
//
//   dataset.toml   [classes]                            [splits.train]
//                  names = ["T-shirt", "Trouser", …]    images = "a/pictures.idx"
//                                                       labels = "a/labels.idx"
//                  or images = "FOLDER" of photos or shards, images = ["1.tar", "2.tar"]
//                  or in a split: rows = "a/table.csv", or text = ["a.txt", "b.txt"]; for a database with several
//                  tables, table = "name" beside rows;
//                  or tables of documents: text = ["a.jsonl"], with column = "NAME" unless it is "text"
//                  [split]: a rule (split_rule.h) that divides the split "train", or the only one
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/kind.h"
#include "data/split_rule.h"
#include "store/pack/store.h"

namespace mlx::data {

// What a split takes of the items in its files, by a rule that divides them.
struct SplitPart {
  SplitRule rule;
  Part part = Part::kTrain;
};
struct SplitFiles {
  const Kind* kind = nullptr;
  std::vector<store::Entry> files;  // in the order given by the kind
  std::string root{};               // for kinds with many files: the folder below which they lie
  std::optional<SplitPart> part{};  // nullopt: all items of the files
  std::string table{};              // of a file with several tables; "" for the only one
  std::string column{};             // of text in tables, where dataset.toml names it
};
struct Layout {
  std::map<std::string, SplitFiles> splits;
  std::vector<std::string> class_names;  // empty unless dataset.toml gives them
};
// One split, as passed to the functions of its kind.
struct StoredSplit {
  const store::Store* store = nullptr;
  const Kind* kind = nullptr;
  std::vector<store::Entry> files;
  std::vector<std::string> class_names;
  std::string root{};
  std::optional<SplitPart> part{};
  std::string table{};
  std::string column{};
};

// Where splits are divided by a rule that the dataset does not have.
struct Division {
  SplitRule rule;
  // A dataset whose files form such splits keeps them. Otherwise that is an error.
  bool gives_way = false;
};

// Throws kUsage with file and line for a wrong dataset.toml; kCorrupt if images have no labels or a split occurs twice.
Layout find_layout(const store::Store& store, const Digest& manifest, const Division* division = nullptr);
// The names of a version's splits: "test", "train".
std::vector<std::string> splits(const store::Store& store, const Digest& manifest);
// Throws kNotFound, naming the splits there are.
StoredSplit stored_split(const store::Store& store, const Digest& manifest, const std::string& split,
                         const Division* division = nullptr);
// The same for a split that holds `kind`; throws kUsage if it holds another.
StoredSplit stored_split(const store::Store& store, const Digest& manifest, const std::string& split, const Kind& kind,
                         const Division* division = nullptr);

// For kinds that find their files by name:

// The split named by a name's last word, "" for none: "emnist-digits-train" → "train".
std::string split_named(std::string_view name);
// "a/train-2.csv.gz" → "train-2", without folder and endings; "" for a file with none of these endings.
std::string stem_with(std::string_view path, std::span<const std::string_view> endings);
// Files with one of these endings, except compressed files that are there plain too.
std::vector<store::Entry> files_with(const Files& files, std::span<const std::string_view> endings);
// Throws kCorrupt if the split exists already; `keys` are those that declare one ("images and labels").
void add_split(Layout& layout, const std::string& split, SplitFiles files, const char* keys);
// The file that dataset.toml names under `key`; an error at the key if the dataset has no such file.
store::Entry declared_file(TomlReader& split, const char* key, const std::string& path, const Files& files);

}  // namespace mlx::data
