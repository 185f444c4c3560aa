// A dataset: described, cut into subsets, read in batches. Training, evaluation, calibration and commands use only this
// interface; each kind of data (kind.h) implements it in a separate file.
//
// A dataset does not change after it is made, and any number of threads may read it. Subsets share its data; none
// copies an example. The interface does not promise that examples are in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "data/batches.h"
#include "data/images/look.h"
#include "data/kind.h"
#include "data/near.h"
#include "data/order.h"
#include "data/preprocessing.h"
#include "data/splits.h"
#include "data/spool.h"
#include "store/pack/store.h"

namespace mlx::data {

// What the run of a training keeps about photos.
struct PhotoFacts {
  std::string libraries;             // names and versions of those that decode them; "" if there are no photos
  std::vector<std::string> skipped;  // bad photos, once they are loaded: "cat/7.jpg: why"
};

// What is known about a dataset before any example is read. Its items are what `count` counts.
struct Description {
  const Kind* kind = nullptr;
  TargetKind targets = TargetKind::kClass;
  std::int64_t count = 0;                            // images or rows; for text, tokens (0 before they are read)
  std::int64_t height = 0, width = 0, channels = 0;  // of an image
  std::int64_t features = 0;                         // of a row, as network input
  int outputs = 0;                                   // classes, labels or numbers; for text, the size of the vocabulary
  std::vector<std::string> names;                    // names of the outputs; none for tokens
  std::shared_ptr<const Tokenizer> tokenizer;        // for text
  TableFacts table;                                  // for rows whose schema was made from them
  // Of a loaded dataset, in bytes: its examples, how many of these are in memory, and what a source of batches
  // reads ahead at once (Spool::window()).
  std::int64_t bytes = 0, in_memory = 0, window = 0;
  void set_spool(const Spool& spool, std::int64_t records);  // of which the dataset has so many
  PhotoFacts photos;                                         // for photos

  // `context`: the length of a window, for kinds that have windows.
  std::int64_t examples(std::int64_t context) const;      // in an epoch without shuffling or dropping
  std::int64_t predictions(std::int64_t context) const;   // per example: one, or one for each token of a window
  std::string examples_text(std::int64_t context) const;  // "training examples", "windows of 64 tokens"
  // What a source of such batches takes beside the examples in memory: one batch, and what is read ahead.
  std::int64_t batch_bytes(const BatchOptions& options) const;
  std::int64_t read_ahead(const BatchOptions& options) const;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

struct Parts {
  DatasetPtr rest, held_out;
};
struct LabelAt {
  std::int64_t label = 0, index = 0;
};

// What an item is compared by with items of other splits.
struct Content {
  std::uint64_t hash = 0;      // the same for equal items, targets included
  NearHashes near{};           // of a row
  const Look* look = nullptr;  // of an image
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Description& describe() const = 0;
  // The items at these places of this dataset; for a sequence, a range.
  virtual DatasetPtr subset(const IndexSet& items) const = 0;
  // Computes the preprocessing from these examples. Decisions in `base`, the preprocessing of a model that the training
  // starts from, are kept; null if there is none.
  virtual Preprocessing measure(const Preprocessing* base) const = 0;
  // Examples as a graph is fed them. `pool` outlives the source; the dataset need not. kUsage where preprocessing or
  // options do not fit the data.
  virtual std::unique_ptr<BatchSource> batches(const Preprocessing& preprocessing, const BatchOptions& options,
                                               Pool& pool) const = 0;

  // The number of items for a hold-out (Kind::hold_out_counts), and the split into a rest and `size` held-out items. By
  // default items are examples, drawn with the seed.
  virtual std::int64_t hold_out_size() const { return describe().count; }
  virtual Parts hold_out(std::int64_t size, std::uint64_t seed) const;
  // Calls `visit` with each item's content as it is read, in order; never for kinds whose items have no identity, such
  // as tokens. One pass over the examples. `near`: also by what items that are almost the same are found.
  virtual void each_content(bool /*near*/, const std::function<void(const Content&)>& /*visit*/) const {}
  // Item `index` for messages: "row 3", "image 2", "train/cat/1.jpg".
  virtual std::string item_text(std::int64_t index) const { return "item " + std::to_string(index); }
  // The first example with the highest class; nullopt if classes are known to be in range.
  virtual std::optional<LabelAt> highest_label() const { return std::nullopt; }
};

// A config's options for photos.
struct PhotoOptions {
  std::int64_t height = 0, width = 0;  // 0: the size that all photos have
  Fit fit = Fit::kSqueeze;
  bool grey = false;
  bool whole_sounds = false;  // sounds are scaled to the size, to be compared, and neither cut nor lengthened
  // Bad photos are skipped up to this share of a split, or this count; 0: the first one is an error.
  double skip_share = 0;
  std::int64_t skip_count = 0;
  std::string libraries;  // PhotoFacts::libraries, which decide the pixels: part of a run's key
  bool operator==(const PhotoOptions&) const = default;
};

// A config's [data] options besides the splits, and the decisions of an earlier training.
struct Reading {
  std::optional<Division> division;  // of the splits, instead of the dataset's own rule
  RowOptions rows;
  std::string tokenizer;        // "bytes", "chars", "bpe", or the path of a file; "" if not given: bytes
  std::int64_t vocabulary = 0;  // tokens of "bpe"
  std::shared_ptr<const Tokenizer> given_tokenizer;  // of the file
  std::string folder = ".";                          // that paths in the config start from
  std::string column;                                // of text in a table; "" if not given
  std::vector<const Kind*> taken;  // the kinds that the model's family takes; none if that is not known
  bool any_model = false;          // there is no model: each split is read as the models read it that can
  Augment augment;
  MemoryBudget budget;  // of the examples; changes no bit of them
  PhotoOptions photos;
  bool looks = false;                           // photos keep what those that look alike are found by
  std::vector<std::string> classes;             // photos' labels are numbered by these names, if there are any
  std::string loss;                             // determines the kind of target; "" for the default
  std::shared_ptr<const Preprocessing> base;    // of the model that a training starts from
  std::shared_ptr<const Preprocessing> fitted;  // if set, examples are read exactly by it
};

struct HoldOut {
  double share = 0;        // of the whole; 0: use `count`
  std::int64_t count = 0;  // 0: none
  bool wanted() const { return share > 0 || count > 0; }
  std::int64_t of(std::int64_t whole) const;
};

// The named split of a version. Throws kNotFound if there is none, kCorrupt and kUsage as the readers of each kind do.
StoredSplit split_of(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading = {});
const Kind& kind_of(const store::Store& store, const Digest& manifest, const std::string& split,
                    const Reading& reading = {});
Description describe(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading = {});
DatasetPtr load(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
                Progress& progress);
// Hashes of the split's items, where the store knows them without reading the items (photos have a file each); else
// none. `read`: photos in shards are read for theirs.
std::vector<std::uint64_t> listed_contents(const store::Store& store, const Digest& manifest, const std::string& split,
                                           const Reading& reading, bool read = false);
// The names of the splits, divided as `reading` says.
std::vector<std::string> splits(const store::Store& store, const Digest& manifest, const Reading& reading);
// The number of examples for a training on the split, in windows of `context` tokens; `enough` or more if there are
// that many. `about` is what describe() returned.
std::int64_t training_examples(const store::Store& store, const Digest& manifest, const std::string& split,
                               const Reading& reading, const Description& about, const HoldOut& hold_out,
                               std::int64_t context, std::int64_t enough);

}  // namespace mlx::data
