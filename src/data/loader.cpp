// Batches out of examples in memory. A batch is cut into slices of sixteen images that write disjoint parts of it. Raw
// ones draw the same numbers, and leave what they are for to the kernels.

#include "data/loader.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/augment.h"
#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kShuffleStream = 0x73687566666C65ull;  // "shuffle"
constexpr std::int64_t kImagesPerSlice = 16;
constexpr std::int64_t kInline = 32 * 1024;  // elements of a batch that are not worth waking another thread

// 0 … count-1 from 64 random bits: the high half of the 128-bit product (bias below count / 2^64).
std::int64_t below(std::uint64_t bits, std::uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>((Wide{bits} * count) >> 64));
}

void check_augment(const Augment& augment, const Examples& examples) {
  const std::int64_t side = std::min(examples.height, examples.width);
  if (augment.shift < 0 || augment.shift >= side) {
    fail(ErrorKind::kUsage, "augment: a shift of {} does not fit images of {}x{}", augment.shift, examples.height,
         examples.width);
  }
  if (augment.erase < 0 || augment.erase > side) {
    fail(ErrorKind::kUsage, "augment: an erased square of {} does not fit images of {}x{}", augment.erase,
         examples.height, examples.width);
  }
}

kernels::ImageChange row_of(const Change& change) {
  const auto s32 = [](std::int64_t pixels) { return static_cast<std::int32_t>(pixels); };
  return {s32(change.down),  s32(change.right), change.flip ? 1 : 0,
          s32(change.erase), s32(change.top),   s32(change.left)};
}

}  // namespace

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::array<std::uint32_t, 4> random{};
  for (std::int64_t i = count - 1; i > 0; --i) {
    // Two draws a block, by position: i takes half i % 2 of block i / 2.
    if (i == count - 1 || i % 2 == 1)
      random = kernels::random_block(seed, kShuffleStream, epoch, static_cast<std::uint64_t>(i) / 2);
    const std::size_t half = 2 * static_cast<std::size_t>(i % 2);
    const std::uint64_t bits = std::uint64_t{random[half]} << 32 | random[half + 1];
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(below(bits, static_cast<std::uint64_t>(i) + 1))]);
  }
  return order;
}

struct Loader::State {
  const Examples& examples;
  Options options;
  Pool& pool;
  PixelTable table = PixelTable(options.normalization);
  ImageSize size;
  std::int64_t count = 0;  // examples in an epoch
  std::uint64_t epoch = 0;
  std::int64_t next = 0;            // batch
  std::vector<std::int64_t> order;  // empty: as they stand
  Batch batch;
  std::vector<float> unmixed;  // the batch's images before mixup

  std::int64_t example(std::int64_t position) const {
    const std::int64_t at = order.empty() ? position : order[static_cast<std::size_t>(position)];
    return options.subset.empty() ? at : options.subset[static_cast<std::size_t>(at)];
  }
  std::int64_t batches() const {
    return options.drop_last ? count / options.batch : (count + options.batch - 1) / options.batch;
  }

  Change drawn_for(std::int64_t index) const {
    return draw_change(options.augment, size, options.seed, epoch, static_cast<std::uint64_t>(index));
  }

  void write_slice(std::int64_t first, std::int64_t begin, std::int64_t end) {
    const std::int64_t elements = size.elements();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t index = example(first + i);
      if (options.raw)
        write_raw(index, i, batch.raw);
      else
        write_image(table, size, drawn_for(index), examples.pixels.data() + index * elements,
                    batch.images.data() + i * elements);
      batch.labels[static_cast<std::size_t>(i)] = examples.labels[static_cast<std::size_t>(index)];
    }
  }

  void write_raw(std::int64_t index, std::int64_t i, RawImages& to) const {
    const std::int64_t elements = size.elements();
    std::copy_n(examples.pixels.data() + index * elements, elements, to.pixels.data() + i * elements);
    to.changes[static_cast<std::size_t>(i)] = row_of(drawn_for(index));
  }

  // Calls write(begin, end) for all of the batch.
  template <typename Write>
  void in_slices(const Write& write) {
    if (batch.count * size.elements() <= kInline) return write(0, batch.count);
    const std::int64_t slices = (batch.count + kImagesPerSlice - 1) / kImagesPerSlice;
    pool.run(slices, [&](std::int64_t slice) {
      write(slice * kImagesPerSlice, std::min(batch.count, (slice + 1) * kImagesPerSlice));
    });
  }

  void write_batch(std::int64_t number) {
    const std::int64_t first = number * options.batch;
    batch.count = std::min(options.batch, count - first);
    batch.labels.resize(static_cast<std::size_t>(batch.count));
    if (options.raw)
      fit(batch.raw);
    else
      batch.images.resize(static_cast<std::size_t>(batch.count * size.elements()));
    in_slices([&](std::int64_t begin, std::int64_t end) { write_slice(first, begin, end); });
    if (options.augment.mixup > 0)
      mix(first, epoch * static_cast<std::uint64_t>(batches()) + static_cast<std::uint64_t>(number));
  }

  void fit(RawImages& images) const {
    images.pixels.resize(static_cast<std::size_t>(batch.count * size.elements()));
    images.changes.resize(static_cast<std::size_t>(batch.count));
  }

  void mix(std::int64_t first, std::uint64_t step) {
    const Mix drawn = draw_mix(options.augment.mixup, batch.count, options.seed, step);
    batch.share = drawn.share;
    batch.shares.assign(static_cast<std::size_t>(batch.count * examples.classes), 0.0f);
    if (options.raw) {
      fit(batch.partners);
    } else {
      unmixed.swap(batch.images);
      batch.images.resize(unmixed.size());
    }
    in_slices([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t partner = drawn.partner[static_cast<std::size_t>(i)];
        if (options.raw)
          write_raw(example(first + partner), i, batch.partners);
        else
          mix_image(i, partner);
        mix_label(i, partner);
      }
    });
  }

  void mix_image(std::int64_t i, std::int64_t partner) {
    const std::int64_t elements = size.elements();
    const float own = batch.share, other = 1 - batch.share;
    const float *a = unmixed.data() + i * elements, *b = unmixed.data() + partner * elements;
    float* const to = batch.images.data() + i * elements;
    for (std::int64_t k = 0; k < elements; ++k) to[k] = own * a[k] + other * b[k];
  }

  void mix_label(std::int64_t i, std::int64_t partner) {
    float* const shares = batch.shares.data() + i * examples.classes;
    shares[batch.labels[static_cast<std::size_t>(i)]] += batch.share;
    shares[batch.labels[static_cast<std::size_t>(partner)]] += 1 - batch.share;
  }
};

Loader::Loader(const Examples& examples, Options options, Pool& pool)
    : state_(std::make_unique<State>(State{examples, std::move(options), pool})) {
  const Options& kept = state_->options;
  CHECK(kept.batch > 0);
  CHECK(state_->table.channels() == examples.channels);
  CHECK(std::ranges::all_of(kept.subset, [&](std::int64_t i) { return i >= 0 && i < examples.count; }));
  check_augment(kept.augment, examples);
  CHECK(kept.augment.mixup == 0 || std::ranges::all_of(examples.labels, [&](std::int32_t label) {
          return label >= 0 && label < examples.classes;
        }));
  state_->size = {examples.height, examples.width, examples.channels};
  state_->count = kept.subset.empty() ? examples.count : static_cast<std::int64_t>(kept.subset.size());
  start(0);
}

Loader::~Loader() = default;

std::int64_t Loader::batches() const {
  return state_->batches();
}

const PixelTable& Loader::table() const {
  return state_->table;
}

void Loader::start(std::uint64_t epoch, std::int64_t first) {
  state_->epoch = epoch;
  state_->next = first;
  if (state_->options.shuffle) state_->order = shuffled(state_->count, state_->options.seed, epoch);
}

const Batch* Loader::next() {
  if (state_->next >= state_->batches()) return nullptr;
  state_->write_batch(state_->next++);
  return &state_->batch;
}

}  // namespace mlx::data
