// A dataset: described, cut into subsets, read in batches. Training, evaluation, calibration and the commands above see
// this interface alone; each kind of data (kind.h) implements it in a file of its own.
//
// A dataset does not change once it is made, and any number of threads may read it. Subsets share what it is made of:
// none copies an example. Nothing here promises that examples are in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "data/batches.h"
#include "data/kind.h"
#include "data/order.h"
#include "data/preprocessing.h"
#include "store/pack/store.h"

namespace mlx::data {

// What is known of a dataset before any example is read. Its items are what `count` counts.
struct Description {
  const Kind* kind = nullptr;
  TargetKind targets = TargetKind::kClass;
  std::int64_t count = 0;                            // images or rows; of text, tokens (0 before they are read)
  std::int64_t height = 0, width = 0, channels = 0;  // of an image
  std::int64_t features = 0;                         // of a row, as a network gets it
  int outputs = 0;                                   // classes, labels or numbers; of text, its vocabulary
  std::vector<std::string> names;                    // of the outputs; none of tokens
  std::shared_ptr<const Tokenizer> tokenizer;        // of text
  TableFacts table;                                  // of rows whose schema was made of them

  // `context` is the length of a window, for kinds that have them.
  std::int64_t examples(std::int64_t context) const;      // in an epoch that neither shuffles nor drops any
  std::int64_t predictions(std::int64_t context) const;   // of one example: one, or one for each token of a window
  std::string examples_text(std::int64_t context) const;  // "training examples", "windows of 64 tokens"
  std::int64_t batch_bytes(const BatchOptions& options) const;  // of one batch, as its source holds it
};

using DatasetPtr = std::shared_ptr<const Dataset>;

struct Parts {
  DatasetPtr rest, held_out;
};
struct LabelAt {
  std::int64_t label = 0, index = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Description& describe() const = 0;
  // The items at these places among this dataset's; of a sequence, a range.
  virtual DatasetPtr subset(const IndexSet& items) const = 0;
  // What preprocessing takes from these examples. What `base`, the preprocessing of a model that the training starts
  // from, has decided stays as it is. Null: none.
  virtual Preprocessing measure(const Preprocessing* base) const = 0;
  // Examples as a graph is fed them. `pool` outlives the source; the dataset need not. kUsage where the options do not
  // fit the data.
  virtual std::unique_ptr<BatchSource> batches(const Preprocessing& preprocessing, const BatchOptions& options,
                                               Pool& pool) const = 0;

  // What a hold-out counts (Kind::hold_out_counts), and a part of so much held out. By default these are examples, and
  // the seed draws them.
  virtual std::int64_t hold_out_size() const { return describe().count; }
  virtual Parts hold_out(std::int64_t size, std::uint64_t seed) const;
  // The first example with the highest class; nullopt where classes are known to be in range.
  virtual std::optional<LabelAt> highest_label() const { return std::nullopt; }
};

// What a config's [data] says beside the splits, and what an earlier training decided.
struct Reading {
  RowOptions rows;
  std::string tokenizer = "bytes";
  Augment augment;
  std::string loss;                             // decides what targets are; "" for what fits them
  std::shared_ptr<const Preprocessing> base;    // of the model that a training starts from
  std::shared_ptr<const Preprocessing> fitted;  // where set, examples are read just as this says
};

struct HoldOut {
  double share = 0;        // of the whole; 0: `count`
  std::int64_t count = 0;  // 0: none
  bool wanted() const { return share > 0 || count > 0; }
  std::int64_t of(std::int64_t whole) const;
};

// The named split of a version. kNotFound where there is none, kCorrupt and kUsage as the readers of each kind say.
const Kind& kind_of(const store::Store& store, const Digest& manifest, const std::string& split);
Description describe(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading = {});
DatasetPtr load(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
                Progress& progress);
// How many examples a training on the split has, of windows of `context` tokens; `enough` or more if there are as many.
// `about` is what describe() said of it.
std::int64_t training_examples(const store::Store& store, const Digest& manifest, const std::string& split,
                               const Reading& reading, const Description& about, const HoldOut& hold_out,
                               std::int64_t context, std::int64_t enough);

}  // namespace mlx::data
