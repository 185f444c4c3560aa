// Copies batches (text_windows.h).

#include "compress/text_windows.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::compress {

std::int64_t TextWindows::predicted() const {
  return std::ranges::count_if(labels, [](std::int32_t label) { return label >= 0; });
}

TextWindows read_windows(const data::Dataset& dataset, const data::Preprocessing& preprocessing,
                         const WantedWindows& wanted, Pool& pool) {
  constexpr std::int64_t kAtOnce = 16;
  data::BatchOptions options;
  options.batch = std::min(kAtOnce, wanted.most);
  options.context = wanted.length;
  options.shuffle = wanted.shuffle;
  options.seed = wanted.seed;
  const std::unique_ptr<data::BatchSource> source = dataset.batches(preprocessing, options, pool);
  TextWindows out;
  out.length = wanted.length;
  source->start(0);
  for (const data::BatchView* batch = nullptr; out.count < wanted.most && (batch = source->next());) {
    const std::int64_t count = std::min(batch->count, wanted.most - out.count), tokens = count * wanted.length;
    const auto* const ids = static_cast<const std::int32_t*>(batch->inputs.at(0).data);
    const auto* const labels = static_cast<const std::int32_t*>(batch->target);
    out.ids.insert(out.ids.end(), ids, ids + tokens);
    out.labels.insert(out.labels.end(), labels, labels + tokens);
    out.count += count;
  }
  CHECK(out.count > 0);
  return out;
}

TextWindows first_of(const TextWindows& windows, std::int64_t count) {
  TextWindows out = windows;
  out.count = std::min(count, windows.count);
  out.ids.resize(static_cast<std::size_t>(out.count * out.length));
  out.labels.resize(out.ids.size());
  return out;
}

}  // namespace mlx::compress
