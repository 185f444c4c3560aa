// Makers of batch sources.

#include "data/batches.h"

namespace mlx::data {
namespace {

class ImageBatches final : public BatchSource {
 public:
  ImageBatches(const Examples& examples, Loader::Options options, Pool& pool)
      : loader_(examples, std::move(options), pool) {
    view_.input_dims = {0, examples.height, examples.width, examples.channels};
    view_.target_dims = {0};
  }
  std::int64_t batches() const override { return loader_.batches(); }
  void start(std::uint64_t epoch, std::int64_t first) override { loader_.start(epoch, first); }
  const BatchView* next() override {
    const Batch* const batch = loader_.next();
    if (!batch) return nullptr;
    view_.count = view_.input_dims[0] = view_.target_dims[0] = batch->count;
    view_.input = batch->images.data();
    view_.target = batch->labels.data();
    return &view_;
  }

 private:
  Loader loader_;
  BatchView view_;
};

}  // namespace

std::unique_ptr<BatchSource> image_batches(const Examples& examples, Loader::Options options, Pool& pool) {
  return std::make_unique<ImageBatches>(examples, std::move(options), pool);
}

}  // namespace mlx::data
