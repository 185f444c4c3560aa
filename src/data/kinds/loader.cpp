// Batches from images. A batch is cut into slices of images that write disjoint parts of it, while the batch before it
// is used. Raw batches draw the same numbers, and leave their use to the kernels.

#include "data/kinds/loader.h"
#include "data/spool_reader.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/batches.h"
#include "data/images/augment.h"
#include "data/images/pixel_changes.h"
#include "data/kinds/changed_image.h"
#include "data/kinds/mixed_batches.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kImagesPerSlice = 16;
constexpr std::int64_t kPhotosPerSlice = 2;  // where images are decoded or their bytes changed
constexpr std::int64_t kInline = 32 * 1024;  // smaller batches, in elements, are not worth waking another thread

void check_augment(const Augment& augment, const Images& images) {
  const std::int64_t side = std::min(images.height, images.width);
  if (augment.shift < 0 || augment.shift >= side) {
    fail(ErrorKind::kUsage, "augment: a shift of {} does not fit images of {}x{}", augment.shift, images.height,
         images.width);
  }
  if (augment.erase < 0 || augment.erase > side) {
    fail(ErrorKind::kUsage, "augment: an erased square of {} does not fit images of {}x{}", augment.erase,
         images.height, images.width);
  }
  if ((augment.crop > 0 || changes_pixels(augment)) && images.channels != 1 && images.channels != 3) {
    fail(ErrorKind::kUsage, "augment: crops and changes of colour are for images of 1 or 3 channels, not of {}",
         images.channels);
  }
}

kernels::ImageChange row_of(const Change& change) {
  const auto s32 = [](std::int64_t pixels) { return static_cast<std::int32_t>(pixels); };
  return {s32(change.down),  s32(change.right), change.flip ? 1 : 0,
          s32(change.erase), s32(change.top),   s32(change.left)};
}

}  // namespace

struct Loader::State {
  State(const Images& of, Options wanted, Pool& threads)
      : images(of),
        options(std::move(wanted)),
        pool(threads),
        subset(options.subset.value_or(IndexSet(0, of.count))),
        size{of.height, of.width, of.channels},
        order(subset.size(), BatchOptions{.batch = options.batch,
                                          .seed = options.seed,
                                          .shuffle = options.shuffle,
                                          .drop_last = options.drop_last,
                                          .shuffle_buffer = options.shuffle_buffer,
                                          .rank = options.rank,
                                          .ranks = options.ranks,
                                          .shares = options.shares}),
        mixes(options.augment.mixup, options.seed),
        writing(pool) {
    if (images.pixels) reader.emplace(images.pixels, pool);
  }

  const Images& images;
  Options options;
  Pool& pool;
  PixelTable table = PixelTable(options.normalization);
  IndexSet subset;
  ImageSize size;
  Order order;  // of places in `subset`
  std::uint64_t epoch = 0;
  Batch batch;                 // the next, which is being written
  Batch made;                  // what next() returned
  bool begun = false;          // the epoch's first batch
  std::vector<float> unmixed;  // the batch's images before mixup, and perhaps their partners
  MixedBatches mixes;
  std::span<const std::uint8_t* const> stored;  // the batch's images as they were read; none of photos
  std::optional<SpoolReader> reader;            // none of photos; threads that read for it read the order
  Ahead writing;                                // of the batch; last: its slices read all of these

  Change drawn_for(std::int64_t place) const {
    return draw_change(options.augment, size, options.seed, epoch, static_cast<std::uint64_t>(place));
  }

  void write_slice(std::int64_t begin, std::int64_t end) {
    const std::int64_t elements = size.elements();
    Bytes scratch;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = place_of(order.index(), i, batch.count);
      const DrawKey key{options.seed, epoch, static_cast<std::uint64_t>(place)};
      const std::uint8_t* const read = reader ? stored[static_cast<std::size_t>(i)] : nullptr;
      if (reader && i + 1 < end) prefetch(stored[static_cast<std::size_t>(i + 1)], elements);
      const std::uint8_t* const pixels = changed_image(images, subset[place], read, options.augment, key, scratch);
      if (options.raw) {
        std::copy_n(pixels, elements, batch.raw.pixels.data() + i * elements);
        batch.raw.changes[static_cast<std::size_t>(i)] = row_of(drawn_for(place));
      } else {
        write_image(table, size, drawn_for(place), pixels, batch.images.data() + i * elements);
      }
      batch.labels[static_cast<std::size_t>(i)] = images.labels[static_cast<std::size_t>(subset[place])];
    }
  }

  std::shared_ptr<const Mix> mix_of(std::int64_t at) const {
    const auto before = epoch * static_cast<std::uint64_t>(order.batches_of_all());
    return mixes.at(before + static_cast<std::uint64_t>(at), order.size_of_batch(at));
  }
  // With mixup on several ranks, the partners of a batch's examples, which others may have, are read behind them.
  bool reads_partners() const { return options.augment.mixup > 0 && options.ranks > 1; }
  std::int64_t read_of(std::int64_t own) const { return reads_partners() ? 2 * own : own; }
  // The place in `subset` of what is read for batch `at`, which has `own` examples here.
  std::int64_t place_of(std::int64_t at, std::int64_t i, std::int64_t own) const {
    if (i < own) return order.at(at * order.batch() + i);
    return order.in_batch(at, mix_of(at)->partner[static_cast<std::size_t>(order.share_begin(at) + i - own)]);
  }
  // The same by the number among all that is read in an epoch.
  std::int64_t place_of(std::int64_t read) const {
    const std::int64_t each = read_of(order.batch()), at = read / each;
    return place_of(at, read % each, std::min(order.batch(), order.end() - at * order.batch()));
  }

  // The raw image and draws of the batch's example `partner`, for its example `i`.
  void copy_partner(std::int64_t partner, std::int64_t i) {
    const std::int64_t elements = size.elements();
    std::copy_n(batch.raw.pixels.data() + partner * elements, elements, batch.partners.pixels.data() + i * elements);
    batch.partners.changes[static_cast<std::size_t>(i)] = batch.raw.changes[static_cast<std::size_t>(partner)];
  }

  std::int64_t in_slice() const {
    const bool costly = images.source || options.augment.crop > 0 || changes_pixels(options.augment);
    return costly ? kPhotosPerSlice : kImagesPerSlice;
  }
  std::int64_t slices(std::int64_t count) const { return (count + in_slice() - 1) / in_slice(); }
  // Calls write(begin, end) for the images of a slice of so many.
  template <typename Write>
  void for_slice(std::int64_t slice, std::int64_t count, const Write& write) const {
    write(slice * in_slice(), std::min(count, (slice + 1) * in_slice()));
  }

  // Begins to write the next batch, if there is one.
  void begin_batch() {
    batch.count = order.advance();
    if (batch.count == 0) return;
    if (reader) stored = reader->next();
    const std::int64_t read = read_of(batch.count);
    batch.labels.resize(static_cast<std::size_t>(read));
    if (options.raw)
      fit(batch.raw, read);
    else
      batch.images.resize(static_cast<std::size_t>(read * size.elements()));
    if (read * size.elements() <= kInline) return write_slice(0, read);
    writing.start(slices(read), [this, read](std::int64_t slice) {
      for_slice(slice, read, [this](std::int64_t begin, std::int64_t end) { write_slice(begin, end); });
    });
  }

  void finish_batch() {
    writing.wait();
    if (batch.count > 0 && options.augment.mixup > 0) mix(*mix_of(order.index()));
  }

  void fit(RawImages& to, std::int64_t count) const {
    to.pixels.resize(static_cast<std::size_t>(count * size.elements()));
    to.changes.resize(static_cast<std::size_t>(count));
  }

  void mix(const Mix& drawn) {
    batch.share = drawn.share;
    batch.shares.assign(static_cast<std::size_t>(batch.count * images.classes), 0.0f);
    if (options.raw) {
      fit(batch.partners, batch.count);
    } else {
      unmixed.swap(batch.images);
      batch.images.resize(static_cast<std::size_t>(batch.count * size.elements()));
    }
    const auto mix_slice = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t partner = reads_partners() ? batch.count + i : drawn.partner[static_cast<std::size_t>(i)];
        if (options.raw)
          copy_partner(partner, i);
        else
          mix_image(i, partner);
        mix_label(i, partner);
      }
    };
    pool.run(slices(batch.count), [&](std::int64_t slice) { for_slice(slice, batch.count, mix_slice); });
  }

  void mix_image(std::int64_t i, std::int64_t partner) {
    const std::int64_t elements = size.elements();
    const float own = batch.share, other = 1 - batch.share;
    const float *a = unmixed.data() + i * elements, *b = unmixed.data() + partner * elements;
    float* const to = batch.images.data() + i * elements;
    for (std::int64_t k = 0; k < elements; ++k) to[k] = own * a[k] + other * b[k];
  }

  void mix_label(std::int64_t i, std::int64_t partner) {
    float* const shares = batch.shares.data() + i * images.classes;
    shares[batch.labels[static_cast<std::size_t>(i)]] += batch.share;
    shares[batch.labels[static_cast<std::size_t>(partner)]] += 1 - batch.share;
  }
};

Loader::Loader(const Images& images, Options options, Pool& pool)
    : state_(std::make_unique<State>(images, std::move(options), pool)) {
  const Options& kept = state_->options;
  const std::int64_t count = state_->subset.size();
  CHECK(state_->table.channels() == images.channels);
  CHECK(count == 0 || state_->subset[count - 1] < images.count);
  check_augment(kept.augment, images);
  CHECK(kept.augment.mixup == 0 ||
        std::ranges::all_of(images.labels, [&](std::int32_t label) { return label >= 0 && label < images.classes; }));
  start(0);
}

Loader::~Loader() = default;

std::int64_t Loader::batches() const {
  return state_->order.batches();
}

const PixelTable& Loader::table() const {
  return state_->table;
}

void Loader::start(std::uint64_t epoch, std::int64_t first) {
  State& s = *state_;
  s.writing.stop();
  s.begun = false;
  if (s.reader) s.reader->stop();
  s.epoch = epoch;
  s.order.start(epoch, first);
  if (!s.reader) return;
  const auto image = [&s](std::int64_t read) { return s.subset[s.place_of(read)]; };
  s.reader->start({image, s.read_of(s.order.next()), s.read_of(s.order.end()), s.read_of(s.order.batch())});
}

const Batch* Loader::next() {
  State& s = *state_;
  if (!std::exchange(s.begun, true)) s.begin_batch();
  s.finish_batch();
  if (s.batch.count == 0) return nullptr;
  std::swap(s.batch, s.made);
  s.begin_batch();
  return &s.made;
}

}  // namespace mlx::data
