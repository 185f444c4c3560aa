// The kinds of datasets, one row for each. A row says how graphs, configs, commands and records name the kind, which
// files and which config keys belong to it, and how it is read. Layers above use the row and never compare kinds. So a
// new kind is one file, which implements Dataset (dataset.h) and defines the row, and one line in kind.cpp.
//
// The names of inputs, units and targets are stored in model.json and in records of runs, and never change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/progress.h"
#include "base/toml.h"
#include "store/pack/store.h"

namespace mlx::data {

// The shape of one example as network input: [height, width, channels], [features], or a sequence of tokens.
enum class Form : std::uint8_t { kImages, kFeatures, kTokens };
// The kind of target: one class, any of several labels, numbers, or the token after each token. Classes and tokens are
// fed as "labels" (s32), the others as "targets" (f32).
enum class TargetKind : std::uint8_t { kClass, kLabels, kNumbers, kTokens };
const char* name_of(TargetKind targets);  // "class", "labels", "numbers", "tokens"

class Dataset;
struct Description;
struct ItemScan;
struct Layout;
struct Reading;
struct StoredSplit;
using Files = std::map<std::string, store::Entry>;  // of a version, by path

struct Kind {
  const char* name;   // also the key for such a split in dataset.toml: "images", "rows", "text"
  const char* input;  // the graph's input: "images", "features", "ids"
  const char* unit;   // what is counted: "images", "rows", "tokens"
  Form form = Form::kFeatures;
  const char* optimizer = "adamw";           // of a training whose config names none
  const char* hold_out_counts = "examples";  // what [data] hold_out counts
  bool windows = false;                      // an example is a window of one sequence, as long as the model's context
  bool raw = false;  // batches can leave normalization and augmentation to the graph (batches.h)

  // describe() and load() take only the items of a split's part (StoredSplit::part); otherwise [split] is refused.
  bool divides = false;

  // The keys of [data] for this kind; all three null if it has none. write_keys: for a run's key. key_set: the first
  // one that differs from its default, null if there is none.
  void (*read_keys)(TomlReader& data, Reading& reading) = nullptr;
  void (*write_keys)(const Reading& reading, Json& data) = nullptr;
  const char* (*key_set)(const Reading& reading) = nullptr;

  // How files are named so that find_splits recognises them, for people: "train.txt".
  const char* file_names = "";
  // Adds the splits that are recognised by the names of this kind's files.
  void (*find_splits)(const Files& files, Layout& layout) = nullptr;
  // The files of a split declared in dataset.toml.
  std::vector<store::Entry> (*declared)(TomlReader& split, const Files& files) = nullptr;

  // Whether this kind reads a split whose files' names are those of another kind. Null if it never does.
  bool (*claims)(const StoredSplit& split, const Reading& reading) = nullptr;

  // How check and describe see the items (observation.h); null: they refuse the kind.
  const ItemScan* scan = nullptr;
  // Hashes of the items' content. Without `read`, none if they are not known without reading the items. Null for kinds
  // that never know them so.
  std::vector<std::uint64_t> (*contents)(const StoredSplit& split, bool read) = nullptr;
  // Describes a split, without reading the examples if that is cheaper.
  Description (*describe)(const StoredSplit& split, const Reading& reading) = nullptr;
  // For kinds with windows, whose describe() does not read the items: the number of items in a split, or `enough` if
  // its size shows that there are as many.
  std::int64_t (*count)(const StoredSplit& split, const Reading& reading, std::int64_t enough) = nullptr;
  std::shared_ptr<const Dataset> (*load)(const StoredSplit& split, const Reading& reading,
                                         Progress& progress) = nullptr;
};

// All kinds, in the order in which their files are searched.
std::span<const Kind* const> kinds();
const Kind* kind_counting(std::string_view unit);  // null if no kind has this unit

}  // namespace mlx::data
