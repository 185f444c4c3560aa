// One split of a dataset in memory, of whatever kind: what training, evaluation and the commands above know of data
// before they ask for batches (batches.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/dataset.h"
#include "data/kind.h"
#include "data/rows.h"
#include "data/text.h"
#include "store/pack/store.h"

namespace mlx::data {

struct Description {
  Kind kind = Kind::kImages;
  TargetKind targets = TargetKind::kClass;
  std::int64_t count = 0;                            // images or rows; of text, tokens (0 before they are read)
  std::int64_t height = 0, width = 0, channels = 0;  // of an image
  std::int64_t features = 0;                         // of a row, as a network gets it
  int outputs = 0;                                   // classes, labels or numbers; of text, its vocabulary
  std::vector<std::string> names;                    // of the outputs; none of tokens
  TableFacts table;                                  // of rows, where their schema was made of them
};

struct Split {
  Description about;
  Examples images;  // the one that is of its kind
  Rows rows;
  Text text;
};

// How a split is read: a training split by what the config says, every other by what the training split decided.
struct Reading {
  RowOptions rows;
  std::string tokenizer = "bytes";
  std::shared_ptr<const RowSchema> schema;           // where set, instead of `rows`
  std::shared_ptr<const RowSchema> base;             // of a model that is trained on: `rows` say its targets only
  std::shared_ptr<const Tokenizer> known_tokenizer;  // where set, instead of `tokenizer`
};

Description describe(const Examples& examples);
Description describe(const RowSchema& schema, std::int64_t count);
Split as_split(Examples examples);
Split as_split(Rows rows);
Split as_split(Text text);

// What the named split of a version holds, by its files' names alone.
Kind kind_of(const store::Store& store, const Digest& manifest, const std::string& split);
// Of the named split of a version; kNotFound and kCorrupt as the readers of each kind say.
Description describe(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading = {});
// How many tokens a split of text has, or at least `enough` without reading it where its size already says so.
std::int64_t count_tokens(const store::Store& store, const Digest& manifest, const std::string& split,
                          const Reading& reading, std::int64_t enough);
Split load(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
           Progress& progress);
// The examples of images or rows at `indices` (ascending), in that order.
Split pick(const Split& from, const std::vector<std::int64_t>& indices);

}  // namespace mlx::data
