// Shared by datasets of every kind, and the way from a version's files to a dataset.

#include "data/dataset.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/splits.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kHoldOutEpoch = ~std::uint64_t{0};  // an epoch number that no training reaches

}  // namespace

std::int64_t Description::examples(std::int64_t context) const {
  return kind->windows ? std::max<std::int64_t>(1, (count - 1 + context - 1) / context) : count;
}

std::int64_t Description::predictions(std::int64_t context) const {
  return kind->windows ? context : 1;
}

std::string Description::examples_text(std::int64_t context) const {
  return kind->windows ? fmt::format("windows of {} tokens", context) : "training examples";
}

std::int64_t Description::batch_bytes(const BatchOptions& options) const {
  const std::int64_t ahead = read_ahead(options);
  switch (kind->form) {
    case Form::kImages:
      break;
    case Form::kFeatures:
      return ahead + options.batch * (features + outputs + 1) * 4;
    case Form::kTokens:
      return ahead + options.batch * options.context * 8;
  }
  // A batch and the next one; images before mixup, and on several ranks their partners in all of these.
  const bool mixed = options.augment.mixup > 0;
  const std::int64_t pixels = height * width * channels;
  return ahead + options.batch * (2 * (pixels + (mixed ? outputs : 0) + 1) + (mixed ? pixels : 0)) * 4 +
         (mixed && options.ranks > 1 ? options.batch * 3 * pixels * 4 : 0);
}

// Two windows of an epoch, which may be shorter than both.
std::int64_t Description::read_ahead(const BatchOptions& options) const {
  if (window == 0) return 0;
  const std::int64_t item = bytes / std::max<std::int64_t>(1, count) * (kind->windows ? options.context : 1);
  return std::min(2 * std::max(window, options.batch * item), bytes) + Spool::kBlock;
}

void Description::set_spool(const Spool& spool, std::int64_t records) {
  bytes = records * spool.record();
  in_memory = spool.in_memory() ? bytes : 0;
  window = spool.window();
}

Parts Dataset::hold_out(std::int64_t size, std::uint64_t seed) const {
  const std::int64_t count = describe().count;
  const IndexList order = shuffled(count, seed, kHoldOutEpoch);
  const std::int64_t cut = std::clamp<std::int64_t>(size, 0, count);
  return {subset(IndexSet(order.sorted(cut, count))), subset(IndexSet(order.sorted(0, cut)))};
}

std::int64_t HoldOut::of(std::int64_t whole) const {
  return share > 0 ? std::llround(share * static_cast<double>(whole)) : count;
}

StoredSplit split_of(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading) {
  StoredSplit out = stored_split(store, manifest, split, reading.division ? &*reading.division : nullptr);
  const auto all = kinds();
  const auto claiming = std::ranges::find_if(
      all, [&](const Kind* kind) { return kind != out.kind && kind->claims && kind->claims(out, reading); });
  if (claiming != all.end()) out.kind = *claiming;
  return out;
}

const Kind& kind_of(const store::Store& store, const Digest& manifest, const std::string& split,
                    const Reading& reading) {
  return *split_of(store, manifest, split, reading).kind;
}

std::vector<std::uint64_t> listed_contents(const store::Store& store, const Digest& manifest, const std::string& split,
                                           const Reading& reading, bool read) {
  const StoredSplit stored = split_of(store, manifest, split, reading);
  return stored.kind->contents ? stored.kind->contents(stored, read) : std::vector<std::uint64_t>();
}

std::vector<std::string> splits(const store::Store& store, const Digest& manifest, const Reading& reading) {
  std::vector<std::string> names;
  const Layout layout = find_layout(store, manifest, reading.division ? &*reading.division : nullptr);
  names.reserve(layout.splits.size());
  for (const auto& [name, files] : layout.splits) names.push_back(name);
  return names;
}

Description describe(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading) {
  const StoredSplit stored = split_of(store, manifest, split, reading);
  return stored.kind->describe(stored, reading);
}

DatasetPtr load(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
                Progress& progress) {
  const StoredSplit stored = split_of(store, manifest, split, reading);
  return stored.kind->load(stored, reading, progress);
}

std::int64_t training_examples(const store::Store& store, const Digest& manifest, const std::string& split,
                               const Reading& reading, const Description& about, const HoldOut& hold_out,
                               std::int64_t context, std::int64_t enough) {
  if (!about.kind->windows) return about.count - hold_out.of(about.count);
  const auto items = static_cast<std::int64_t>(
      (static_cast<double>((enough + 3) * context) + static_cast<double>(hold_out.count)) / (1 - hold_out.share));
  const StoredSplit stored = split_of(store, manifest, split, reading);
  const std::int64_t count = stored.kind->count(stored, reading, items);
  // A shuffled epoch may have two windows fewer.
  return (count - hold_out.of(count)) / std::max<std::int64_t>(1, context) - 2;
}

}  // namespace mlx::data
