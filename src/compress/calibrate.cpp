// Ranges of activations: two passes over the calibration examples (largest magnitude, then a histogram below it), and
// the clip that loses least in mean square between rounding below it and cutting above it.

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "compress/quantize.h"
#include "compress/quantized_graph.h"
#include "data/loader.h"
#include "graph/passes.h"
#include "graph/session.h"

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

// Rounding costs step²/12 on average (Widrow 1956), cutting the square of what is cut.
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
  if (h.largest == 0) return 1.0f;  // nothing but zeros: any scale represents them
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

class Calibrator {
 public:
  Calibrator(const nn::Model& model, const data::Examples& examples, const Calibration& calibration,
             kernels::Level level, Pool& pool)
      : examples_(examples), loader_(examples, loader_options(model, examples, calibration), pool) {
    auto [graph, weights] = graph::fuse(graph::to_inference(model.graph), *model.weights);
    observed_ = values_to_quantize(graph);
    for (const graph::ValueId value : observed_) {
      graph.outputs.push_back(value);
      histograms_.emplace_back();
      histograms_.back().name = graph.value(value).name;
      histograms_.back().levels = is_unsigned(graph, value) ? 255 : 127;
    }
    images_ = graph.inputs.at(0);
    graph::SessionOptions options;
    options.level = level;
    session_ = std::make_unique<graph::Session>(graph, weights, options, pool);
  }

  graph::Tensors run(Progress& progress) {
    progress.begin("calibrating", static_cast<std::uint64_t>(2 * loader_.batches() * kBatch), "images");
    pass(progress, [](Histogram& h, const float* x, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) h.largest = std::max(h.largest, std::fabs(x[i]));
    });
    pass(progress, [](Histogram& h, const float* x, std::size_t count) {
      if (h.largest == 0) return;
      const float per = static_cast<float>(kBins) / h.largest;
      for (std::size_t i = 0; i < count; ++i)
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
  static data::Loader::Options loader_options(const nn::Model& model, const data::Examples& examples,
                                              const Calibration& calibration) {
    data::Loader::Options options;
    options.batch = std::min(kBatch, examples.count);
    options.normalization = model.preprocessing.normalization;
    options.subset = data::shuffled(examples.count, calibration.seed, 0);
    options.subset.resize(static_cast<std::size_t>(std::min(examples.count, calibration.examples)));
    return options;
  }

  template <typename Observe>
  void pass(Progress& progress, Observe observe) {
    loader_.start(0);
    while (const data::Batch* batch = loader_.next()) {
      check_interrupted();
      session_->run(
          {{images_, batch->images.data(), {batch->count, examples_.height, examples_.width, examples_.channels}}});
      for (std::size_t i = 0; i < observed_.size(); ++i) {
        // The images themselves are an input, which the session does not keep.
        if (observed_[i] == images_) {
          observe(histograms_[i], batch->images.data(), batch->images.size());
        } else {
          const ByteView bytes = session_->output(observed_[i]);
          observe(histograms_[i], reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
        }
      }
      progress.advance(static_cast<std::uint64_t>(batch->count));
    }
  }

  const data::Examples& examples_;
  data::Loader loader_;
  std::unique_ptr<graph::Session> session_;
  graph::ValueId images_ = graph::kNone;
  std::vector<graph::ValueId> observed_;
  std::vector<Histogram> histograms_;
};

}  // namespace

graph::Tensors calibrate(const nn::Model& model, const data::Examples& examples, const Calibration& calibration,
                         kernels::Level level, Pool& pool, Progress& progress) {
  return Calibrator(model, examples, calibration, level, pool).run(progress);
}

}  // namespace mlx::compress
