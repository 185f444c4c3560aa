// Makers of batch sources.

#include "data/batches.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/image_change.h"
#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kOffsetStream = 0x6F6666736574ull;  // "offset"

class ImageBatches final : public BatchSource {
 public:
  ImageBatches(const Examples& examples, Loader::Options options, Pool& pool)
      : examples_(options.subset.empty() ? examples.count : static_cast<std::int64_t>(options.subset.size())),
        raw_(options.raw),
        mixes_(options.augment.mixup > 0),
        dims_{0, examples.height, examples.width, examples.channels},
        loader_(examples, std::move(options), pool) {
    view_.target_dims = {0};
    if (mixes_) view_.target_dims.push_back(examples.classes);
  }
  std::int64_t batches() const override { return loader_.batches(); }
  std::int64_t examples() const override { return examples_; }
  void start(std::uint64_t epoch, std::int64_t first) override { loader_.start(epoch, first); }
  const BatchView* next() override {
    const Batch* const batch = loader_.next();
    if (!batch) return nullptr;
    view_.count = view_.units = dims_[0] = view_.target_dims[0] = batch->count;
    view_.inputs.clear();
    if (raw_)
      add_raw(*batch);
    else
      view_.inputs.push_back({input_name(Kind::kImages), batch->images.data(), dims_});
    view_.target = mixes_ ? static_cast<const void*>(batch->shares.data()) : batch->labels.data();
    return &view_;
  }

 private:
  void add_raw(const Batch& batch) {
    const auto add = [&](const char* name, const void* data, std::vector<std::int64_t> dims, bool of_all = false) {
      view_.inputs.push_back({name, data, std::move(dims), of_all});
    };
    add(kPixelsInput, batch.raw.pixels.data(), dims_);
    add(kChangesInput, batch.raw.changes.data(), {batch.count, kernels::kChangeFields});
    add(kTableInput, loader_.table().channel(0), {dims_[3], kernels::kPixelValues}, true);
    if (!mixes_) return;
    add(kPartnerPixelsInput, batch.partners.pixels.data(), dims_);
    add(kPartnerChangesInput, batch.partners.changes.data(), {batch.count, kernels::kChangeFields});
    add(kShareInput, &batch.share, {1}, true);
  }

  std::int64_t examples_;
  bool raw_, mixes_;
  std::vector<std::int64_t> dims_;
  Loader loader_;
  BatchView view_;
};

// What rows and text share: which examples the next batch has.
class Order {
 public:
  Order(std::int64_t count, const BatchOptions& options) : count_(count), options_(options) {
    CHECK(options.batch > 0);
  }
  std::int64_t count() const { return count_; }
  std::int64_t batches() const {
    return options_.drop_last ? count_ / options_.batch : (count_ + options_.batch - 1) / options_.batch;
  }
  void start(std::uint64_t epoch, std::int64_t first) {
    next_ = first;
    if (options_.shuffle) order_ = shuffled(count_, options_.seed, epoch);
  }
  // How many examples the next batch has, 0 at the end.
  std::int64_t advance() {
    if (next_ >= batches()) return 0;
    begin_ = next_++ * options_.batch;
    return std::min(options_.batch, count_ - begin_);
  }
  // Which example is the batch's `i`-th.
  std::int64_t example(std::int64_t i) const {
    return order_.empty() ? begin_ + i : order_[static_cast<std::size_t>(begin_ + i)];
  }

 private:
  std::int64_t count_;
  BatchOptions options_;
  std::int64_t next_ = 0, begin_ = 0;
  std::vector<std::int64_t> order_;  // empty: as they stand
};

class RowBatches final : public BatchSource {
 public:
  RowBatches(const Rows& rows, const RowSchema& schema, const BatchOptions& options)
      : rows_(rows), schema_(schema), width_(schema.width()), order_(rows.count, options) {
    view_.inputs = {{input_name(Kind::kFeatures), nullptr, {0, width_}}};
    view_.target_dims = {0};
    if (schema.kind != TargetKind::kClass)
      view_.target_dims.push_back(static_cast<std::int64_t>(schema.targets.size()));
  }
  std::int64_t batches() const override { return order_.batches(); }
  std::int64_t examples() const override { return order_.count(); }
  void start(std::uint64_t epoch, std::int64_t first) override { order_.start(epoch, first); }
  const BatchView* next() override {
    const std::int64_t count = order_.advance();
    if (count == 0) return nullptr;
    const auto targets = static_cast<std::int64_t>(schema_.targets.size());
    features_.resize(static_cast<std::size_t>(count * width_));
    labels_.resize(static_cast<std::size_t>(count));
    targets_.resize(static_cast<std::size_t>(count * targets));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = order_.example(i);
      write_features(rows_, schema_, row, features_.data() + i * width_);
      if (!rows_.targets.empty()) {
        write_targets(rows_, schema_, row, targets_.data() + i * targets);
      } else if (!rows_.labels.empty()) {
        labels_[static_cast<std::size_t>(i)] = rows_.labels[static_cast<std::size_t>(row)];
      }
    }
    view_.count = view_.units = view_.inputs[0].dims[0] = view_.target_dims[0] = count;
    view_.inputs[0].data = features_.data();
    view_.target = schema_.kind == TargetKind::kClass ? static_cast<const void*>(labels_.data()) : targets_.data();
    return &view_;
  }

 private:
  const Rows& rows_;
  RowSchema schema_;
  std::int64_t width_;
  Order order_;
  std::vector<float> features_, targets_;
  std::vector<std::int32_t> labels_;
  BatchView view_;
};

// Windows of a text in an epoch, and how far the first may stand from the beginning. Each needs one token more than its
// length, which may be the next window's first.
struct Windows {
  std::int64_t count = 0, slack = 0;
};

Windows windows_of(std::int64_t tokens, std::int64_t context, bool shuffle) {
  if (!shuffle) return {(tokens - 1 + context - 1) / context, 0};
  const std::int64_t count = std::max<std::int64_t>(1, (tokens - 1) / context - 1);
  return {count, tokens - 1 - count * context};
}

class TextBatches final : public BatchSource {
 public:
  TextBatches(const Text& text, std::int64_t context, const BatchOptions& options)
      : text_(text),
        context_(context),
        seed_(options.seed),
        windows_(windows_of(static_cast<std::int64_t>(text.tokens.size()), context, options.shuffle)),
        order_(windows_.count, options) {
    view_.target_dims = {0, context};
    view_.inputs = {{input_name(Kind::kTokens), nullptr, view_.target_dims}};
  }
  std::int64_t batches() const override { return order_.batches(); }
  std::int64_t examples() const override { return order_.count(); }
  void start(std::uint64_t epoch, std::int64_t first) override {
    order_.start(epoch, first);
    const std::uint64_t bits = kernels::random_u32(seed_, kOffsetStream, epoch, 0);
    offset_ = static_cast<std::int64_t>((bits * static_cast<std::uint64_t>(windows_.slack + 1)) >> 32);
  }
  const BatchView* next() override {
    const std::int64_t count = order_.advance();
    if (count == 0) return nullptr;
    ids_.resize(static_cast<std::size_t>(count * context_));
    labels_.resize(ids_.size());
    view_.units = 0;
    for (std::int64_t i = 0; i < count; ++i) view_.units += write_window(order_.example(i), i * context_);
    view_.count = view_.inputs[0].dims[0] = view_.target_dims[0] = count;
    view_.inputs[0].data = ids_.data();
    view_.target = labels_.data();
    return &view_;
  }

 private:
  // Returns how many tokens it has to predict.
  std::int64_t write_window(std::int64_t window, std::int64_t at) {
    const std::int64_t begin = offset_ + window * context_;
    const std::int64_t length = std::min(context_, static_cast<std::int64_t>(text_.tokens.size()) - 1 - begin);
    const std::int32_t* const from = text_.tokens.data() + begin;
    std::copy_n(from, length, ids_.data() + at);
    std::copy_n(from + 1, length, labels_.data() + at);
    std::fill_n(ids_.data() + at + length, context_ - length, Tokenizer::kUnknown);
    std::fill_n(labels_.data() + at + length, context_ - length, Tokenizer::kUnknown);
    return length;
  }

  const Text& text_;
  std::int64_t context_;
  std::uint64_t seed_;
  Windows windows_;
  Order order_;
  std::int64_t offset_ = 0;
  std::vector<std::int32_t> ids_, labels_;
  BatchView view_;
};

}  // namespace

std::unique_ptr<BatchSource> image_batches(const Examples& examples, Loader::Options options, Pool& pool) {
  return std::make_unique<ImageBatches>(examples, std::move(options), pool);
}

std::unique_ptr<BatchSource> row_batches(const Rows& rows, const RowSchema& schema, const BatchOptions& options) {
  auto out = std::make_unique<RowBatches>(rows, schema, options);
  out->start(0, 0);
  return out;
}

std::unique_ptr<BatchSource> text_batches(const Text& text, std::int64_t context, const BatchOptions& options) {
  CHECK(context > 0);
  const auto tokens = static_cast<std::int64_t>(text.tokens.size());
  const std::int64_t needed = options.shuffle ? context + 1 : 2;
  if (tokens < needed) {
    throw Error(ErrorKind::kUsage,
                fmt::format("the text has {} tokens, {} needs {}", tokens,
                            options.shuffle ? "a window and the token behind it" : "a prediction", needed),
                options.shuffle ? "more text, or a smaller context" : "more text");
  }
  auto out = std::make_unique<TextBatches>(text, context, options);
  out->start(0, 0);
  return out;
}

}  // namespace mlx::data
