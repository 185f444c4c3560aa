// Finds ranges of activations, in two passes over the calibration examples. The first finds each value's largest
// magnitude; the second makes a histogram up to it. The range is the clip with the least mean-square error: a smaller
// clip cuts more values off, a larger one rounds the others more coarsely.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "compress/quantize.h"
#include "compress/quantized_graph.h"
#include "infer/examples.h"
#include "infer/session.h"

namespace mlx::compress {
namespace {

constexpr std::size_t kBins = 2048;
constexpr std::int64_t kBatch = 128;

struct Histogram {
  std::string name;
  int levels = 127;  // 255 where the value cannot be negative
  float largest = 0;
  std::vector<std::uint64_t> bins = std::vector<std::uint64_t>(kBins);
};

// Rounding costs step²/12 on average (Widrow 1956); clipping costs the squared distance to the clip.
double error_at(const Histogram& h, std::size_t clip_bin) {
  const double width = static_cast<double>(h.largest) / static_cast<double>(kBins);
  const double clip = width * static_cast<double>(clip_bin + 1);
  const double step = clip / h.levels;
  double error = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double over = width * (static_cast<double>(bin) + 0.5) - clip;
    error += static_cast<double>(h.bins[bin]) * (over > 0 ? over * over : step * step / 12);
  }
  return error;
}

float best_clip(const Histogram& h) {
  if (h.largest == 0) return 1.0f;  // only zeros: any scale represents them
  std::size_t best = kBins - 1;
  double least = error_at(h, best);
  for (std::size_t bin = kBins / 16; bin < kBins; bin += 8) {
    const double error = error_at(h, bin);
    if (error < least) {
      least = error;
      best = bin;
    }
  }
  return h.largest * static_cast<float>(best + 1) / static_cast<float>(kBins);
}

// The number of examples in a batch. Batches of long text windows are smaller, because every layer's input and output
// is kept.
std::int64_t batch_of(const infer::Model& model, std::int64_t examples) {
  constexpr std::int64_t kMostTokens = 1024;
  const std::int64_t context = model.signature().context;
  const std::int64_t most = context > 0 ? std::clamp<std::int64_t>(kMostTokens / context, 1, kBatch) : kBatch;
  return std::min(most, examples);
}

// Shuffled by the seed, so that the first examples are a random sample of the split.
std::unique_ptr<data::BatchSource> sample(const infer::Model& model, const data::Dataset& dataset,
                                          const Calibration& calibration) {
  data::BatchOptions options;
  options.batch = batch_of(model, calibration.examples);
  options.seed = calibration.seed;
  options.shuffle = true;
  options.context = model.signature().context;
  return dataset.batches(model.about().preprocessing, options, model.pool());
}

class Calibrator {
 public:
  Calibrator(const infer::Model& model, const data::Dataset& dataset, const Calibration& calibration)
      : model_(model),
        most_(calibration.examples),
        source_(sample(model, dataset, calibration)),
        observed_(values_to_quantize(model.graph())),
        session_(model, {.observe = observed_}) {
    for (const graph::ValueId value : observed_) {
      histograms_.emplace_back();
      histograms_.back().name = model.graph().value(value).name;
      histograms_.back().levels = is_unsigned(model.graph(), value) ? 255 : 127;
    }
  }

  graph::Tensors run(Progress& progress) {
    const std::int64_t count = std::min(most_, source_->examples());
    progress.begin("calibrating", static_cast<std::uint64_t>(2 * count), "examples");
    pass(progress, [](Histogram& h, const float* x, std::size_t values) {
      for (std::size_t i = 0; i < values; ++i) h.largest = std::max(h.largest, std::fabs(x[i]));
    });
    pass(progress, [](Histogram& h, const float* x, std::size_t values) {
      if (h.largest == 0) return;
      const float per = static_cast<float>(kBins) / h.largest;
      for (std::size_t i = 0; i < values; ++i)
        ++h.bins[std::min(kBins - 1, static_cast<std::size_t>(std::fabs(x[i]) * per))];
    });
    progress.end();
    graph::Tensors ranges;
    for (const Histogram& h : histograms_) {
      if (!std::isfinite(h.largest)) fail(ErrorKind::kNo, "{} is not finite on the calibration data", h.name);
      const float clip = best_clip(h);
      graph::Tensor tensor;
      tensor.shape.rank = 1;
      tensor.shape.dims[0] = 1;
      tensor.data.resize(sizeof clip);
      std::memcpy(tensor.data.data(), &clip, sizeof clip);
      ranges.emplace(h.name, std::move(tensor));
    }
    return ranges;
  }

 private:
  template <typename Observe>
  void pass(Progress& progress, Observe observe) {
    source_->start(0);
    std::int64_t left = most_;
    for (const data::BatchView* batch = nullptr; left > 0 && (batch = source_->next());) {
      progress.check_interrupted();
      const std::int64_t count = std::min(batch->count, left);
      session_.run(*batch, count);
      for (std::size_t i = 0; i < observed_.size(); ++i) observe_value(histograms_[i], i, *batch, count, observe);
      left -= count;
      progress.advance(static_cast<std::uint64_t>(count));
    }
  }

  template <typename Observe>
  void observe_value(Histogram& histogram, std::size_t i, const data::BatchView& batch, std::int64_t count,
                     Observe observe) {
    if (observed_[i] == model_.graph().inputs[0]) {  // the session does not keep its input
      const data::BatchInput& input = batch.inputs.at(0);
      std::int64_t elements = count;
      for (std::size_t d = 1; d < input.dims.size(); ++d) elements *= input.dims[d];
      observe(histogram, static_cast<const float*>(input.data), static_cast<std::size_t>(elements));
    } else {
      const ByteView bytes = session_.value(observed_[i]);
      observe(histogram, reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    }
  }

  const infer::Model& model_;
  std::int64_t most_;
  std::unique_ptr<data::BatchSource> source_;
  std::vector<graph::ValueId> observed_;
  infer::Session session_;
  std::vector<Histogram> histograms_;
};

}  // namespace

std::int64_t calibration_examples(const data::Kind& kind) {
  return kind.windows ? 128 : 1024;
}

graph::Tensors calibrate(const infer::Model& model, const data::Dataset& dataset, const Calibration& calibration,
                         Progress& progress) {
  const data::Description& about = dataset.describe();
  infer::check_fits(model.about(), about);
  Calibration asked = calibration;
  if (asked.examples == 0) asked.examples = calibration_examples(*about.kind);
  return Calibrator(model, dataset, asked).run(progress);
}

}  // namespace mlx::compress
