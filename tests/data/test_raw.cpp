// Raw batches: what the kernel of kAugment makes of them has the bits of the batches that are made on the CPU, whatever
// is drawn, and labels and order are the same.

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/loader.h"
#include "kernels/table.h"
#include "made_up.h"

using namespace mlx;
using namespace mlx::data;

namespace {

kernels::Shape shape_of(const BatchInput& input, kernels::DType dtype) {
  kernels::Shape shape;
  shape.dtype = dtype;
  shape.rank = static_cast<int>(input.dims.size());
  for (std::size_t i = 0; i < input.dims.size(); ++i) shape.dims[i] = input.dims[i];
  return shape;
}

kernels::DType dtype_of(const std::string& name) {
  if (name == kPixelsInput || name == kPartnerPixelsInput) return kernels::DType::kU8;
  return name == kTableInput || name == kShareInput ? kernels::DType::kF32 : kernels::DType::kS32;
}

// The images of a raw batch, by the reference kernel.
std::vector<float> images_of(const BatchView& batch) {
  std::vector<kernels::Shape> inputs;
  std::vector<const void*> data;
  for (const BatchInput& input : batch.inputs) {
    inputs.push_back(shape_of(input, dtype_of(input.name)));
    data.push_back(input.data);
  }
  const kernels::Shape output = shape_of(batch.inputs[0], kernels::DType::kF32);
  kernels::Problem problem{
      kernels::Op::kAugment, {}, static_cast<int>(inputs.size()), 1, inputs.data(), &output, nullptr};
  const kernels::Prepared prepared = kernels::prepare(problem, kernels::backend_named("ref"));
  std::vector<float> images(static_cast<std::size_t>(output.count()), 99.0f);
  void* const to = images.data();
  kernels::Args args;
  args.inputs = data.data();
  args.outputs = &to;
  const kernels::Plan& plan = prepared.plan();
  for (int slice = 0; slice < plan.slices[0]; ++slice) plan.run(plan.state, args, 0, slice);
  return images;
}

struct Made {
  std::vector<std::vector<float>> images;
  std::vector<std::vector<std::uint8_t>> targets;
};

Made epochs_of(const Dataset& dataset, const Preprocessing& preprocessing, BatchOptions options, bool raw, Pool& pool) {
  const Description& about = dataset.describe();
  options.raw = raw;
  const std::unique_ptr<BatchSource> source = dataset.batches(preprocessing, options, pool);
  Made made;
  for (const std::uint64_t epoch : {0u, 3u}) {
    source->start(epoch, static_cast<std::int64_t>(epoch) / 3);  // the second from its second batch
    while (const BatchView* batch = source->next()) {
      const bool mixes = options.augment.mixup > 0;
      REQUIRE(batch->inputs.size() == (raw ? (mixes ? 6u : 3u) : 1u));
      for (const BatchInput& input : batch->inputs) CHECK((input.of_all || input.dims[0] == batch->count));
      const auto* floats = static_cast<const float*>(batch->inputs[0].data);
      const auto count = static_cast<std::size_t>(batch->count * about.height * about.width * about.channels);
      made.images.push_back(raw ? images_of(*batch) : std::vector<float>(floats, floats + count));
      const auto* target = static_cast<const std::uint8_t*>(batch->target);
      made.targets.emplace_back(target, target + batch->count * 4 * (mixes ? about.outputs : 1));
    }
  }
  return made;
}

}  // namespace

TEST_CASE("raw batches: the kernel makes the bits of the batches made on the CPU") {
  std::vector<std::int64_t> subset;
  for (std::int64_t i = 2; i < 90; i += 2) subset.push_back(i);
  Pool pool(3);
  for (const std::int64_t channels : {1, 2, 3}) {
    Images examples = made_up(90, 41, 30, channels);
    for (std::int32_t& label : examples.labels) label %= 10;
    const auto all = static_cast<std::size_t>(channels);
    const Preprocessing preprocessing{41, 30, channels, {std::vector<float>(all, 0.3f), std::vector<float>(all, 0.7f)}};
    const DatasetPtr whole_set = make_dataset(std::move(examples));
    for (const Augment& augment :
         {Augment{}, Augment{.shift = 29}, Augment{.flip = true}, Augment{.erase = 30},
          Augment{.shift = 3, .flip = true, .erase = 11}, Augment{.shift = 2, .flip = true, .erase = 5, .mixup = 0.3},
          Augment{.mixup = 2.0}}) {
      for (const bool of_subset : {false, true}) {
        CAPTURE(channels);
        CAPTURE(augment.mixup);
        CAPTURE(of_subset);
        const BatchOptions options{
            .batch = 32, .seed = 11, .shuffle = true, .drop_last = of_subset, .augment = augment};
        const DatasetPtr dataset = of_subset ? whole_set->subset(IndexSet(subset)) : whole_set;
        const Made whole = epochs_of(*dataset, preprocessing, options, false, pool),
                   raw = epochs_of(*dataset, preprocessing, options, true, pool);
        REQUIRE(whole.images.size() == (of_subset ? 1u : 5u));
        CHECK(raw.images == whole.images);
        CHECK(raw.targets == whole.targets);
      }
    }
  }
}

TEST_CASE("raw batches: what one costs beside one made on the CPU (printed, not judged)") {
  const Images examples = made_up(256, 224, 224, 3);
  Pool pool(1);
  for (const bool raw : {false, true}) {
    Loader::Options options{.batch = 64,
                            .seed = 4,
                            .shuffle = true,
                            .augment = {.shift = 8, .flip = true},
                            .normalization = {{0.5f, 0.5f, 0.5f}, {0.2f, 0.2f, 0.2f}},
                            .raw = raw};
    Loader loader(examples, options, pool);
    (void)loader.next();
    const double started = seconds_now();
    std::int64_t images = 0;
    while (const Batch* batch = loader.next()) images += batch->count;
    const double each = (seconds_now() - started) / static_cast<double>(images);
    MESSAGE(std::string(raw ? "raw" : "normalised") << ": an image of 224x224x3: " << each * 1e6 << " us on one core, "
                                                    << 224 * 224 * 3 * (raw ? 1 : 4) << " bytes");
    CHECK(images == 192);
  }
}
