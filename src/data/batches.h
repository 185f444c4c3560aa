// Batches as a graph is fed them, whatever the data is. Used by training and evaluation; a kind of data is one maker.
//
// What a batch holds depends on (seed, epoch, index) alone, so that a resumed run goes on with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "data/loader.h"
#include "data/rows.h"
#include "data/text.h"

namespace mlx::data {

struct BatchInput {
  const char* name = nullptr;  // the graph's; valid for as long as the source
  const void* data = nullptr;
  std::vector<std::int64_t> dims;  // [count, …]
  bool of_all = false;             // one for all examples, of other dims: a part of the batch has it whole
};
struct BatchView {
  std::int64_t count = 0;  // examples: images, rows, windows of text
  std::int64_t units = 0;  // what is counted (unit_name): images, rows, tokens
  std::vector<BatchInput> inputs;
  const void* target = nullptr;
  std::vector<std::int64_t> target_dims;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t batches() const = 0;   // in an epoch
  virtual std::int64_t examples() const = 0;  // in an epoch that drops none
  // Starts an epoch at batch `first` (resume). Then next() returns its batches in order, and nullptr at the end. What a
  // batch points to is valid until the next call.
  virtual void start(std::uint64_t epoch, std::int64_t first = 0) = 0;
  virtual const BatchView* next() = 0;
};

// What raw batches of images feed (kernels/op.h, kAugment): u8[count,H,W,C], s32[count,6], f32[C,256]; with mixup also
// u8[count,H,W,C], s32[count,6], f32[1].
inline constexpr const char *kPixelsInput = "pixels", *kChangesInput = "changes", *kTableInput = "pixel_table";
inline constexpr const char *kPartnerPixelsInput = "partner_pixels", *kPartnerChangesInput = "partner_changes",
                            *kShareInput = "share";

// f32[count,H,W,C] "images", or what raw ones feed, and s32[count], with mixup f32[count,classes]; `examples` and
// `pool` outlive it. kUsage as Loader says.
std::unique_ptr<BatchSource> image_batches(const Examples& examples, Loader::Options options, Pool& pool);

struct BatchOptions {
  std::int64_t batch = 128;
  std::uint64_t seed = 0;
  bool shuffle = false, drop_last = false;
};
// f32[count,features] "features" and s32[count] or f32[count,targets]; `rows` outlive it. The schema is the one of the
// training split, with its means.
std::unique_ptr<BatchSource> row_batches(const Rows& rows, const RowSchema& schema, const BatchOptions& options);

// s32[count,context] twice: tokens, "ids", and for each the token after it. Unshuffled, the windows follow one another
// from the beginning, and the last is padded with Tokenizer::kUnknown. Shuffled, each epoch cuts the text from its own
// offset, so that every token is trained on at every distance from a window's beginning; the remainders at both ends of
// the text are used in other epochs. Throws kUsage if the text is shorter than one window and the token after it.
std::unique_ptr<BatchSource> text_batches(const Text& text, std::int64_t context, const BatchOptions& options);

}  // namespace mlx::data
