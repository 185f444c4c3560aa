// mlx predict for models of images: a label and its probability for each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/level.h"
#include "cmd/predict.h"
#include "data/image_files.h"
#include "data/normalize.h"
#include "data/split.h"
#include "registry/repository.h"
#include "serve/predictor.h"
#include "train/inputs.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kBatch = 64;

// Images that stand together: a file, or a split of a dataset.
struct Source {
  std::string name;
  data::IdxImages images;
  std::string name_of(std::int64_t i) const { return images.count == 1 ? name : fmt::format("{}[{}]", name, i); }
};

Source read_source(const std::string& word, const PredictOptions& options, Context& context) {
  const std::string path = join_path(context.folder(), word);
  if (path_exists(path) && !is_folder(path)) return {word, data::read_image_file(path, context.progress())};
  if (!registry::try_resolve(context.repository(), word))
    fail(ErrorKind::kNotFound, "'{}': there is no such file, and no dataset of this name", word);
  const registry::Version version = train::resolve_dataset(context.repository(), word, context.progress());
  data::Examples examples =
      data::load_split(context.repository().store(), version.digest, options.split, context.progress());
  return {fmt::format("{}:{}", version.name(), options.split),
          {examples.count, examples.height, examples.width, examples.channels, std::move(examples.pixels)}};
}

void check_size(const Source& source, const PredictInputs& inputs) {
  const nn::Preprocessing& p = inputs.model.preprocessing;
  const data::IdxImages& images = source.images;
  if (images.height == p.height && images.width == p.width && images.channels == p.channels) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: {}x{}x{}, but {} takes images of {}x{}x{} (height, width, channels)", source.name, images.height,
                  images.width, images.channels, inputs.version.name(), p.height, p.width, p.channels),
      "scale it first, or train on images of this size");
}

struct Ranked {
  std::int64_t index = 0;
  double probability = 0;
};

// The likeliest classes first; softmax in double precision.
std::vector<Ranked> rank(const float* logits, std::int64_t classes, std::int64_t top) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  std::vector<Ranked> ranked(static_cast<std::size_t>(classes));
  for (std::int64_t c = 0; c < classes; ++c) {
    ranked[static_cast<std::size_t>(c)] = {c, std::exp(logits[c] - largest)};
    sum += ranked[static_cast<std::size_t>(c)].probability;
  }
  for (Ranked& one : ranked) one.probability /= sum;
  std::ranges::stable_sort(ranked, std::greater<>{}, &Ranked::probability);
  ranked.resize(static_cast<std::size_t>(std::min(top, classes)));
  return ranked;
}

class Printer {
 public:
  Printer(const PredictInputs& inputs, Context& context) : inputs_(inputs), context_(context) {}

  void print(const std::string& image, const std::vector<Ranked>& ranked) {
    std::string text = image;
    Json top = Json::array();
    for (const Ranked& one : ranked) {
      text += fmt::format("  {} {:.4f}", context_.bold(label(one.index)), one.probability);
      top.push_back({{"label", label(one.index)}, {"class", one.index}, {"probability", one.probability}});
    }
    context_.line(text);
    if (!context_.wants_json()) return;
    Json prediction = {{"image", image}};
    prediction.update(top.at(0));
    prediction["top"] = std::move(top);
    predictions_.push_back(std::move(prediction));
  }
  void finish() {
    if (!context_.wants_json()) return;
    context_.json({{"schema", "mlx.predict/1"},
                   {"model", inputs_.version.name()},
                   {"digest", inputs_.version.digest.text()},
                   {"predictions", std::move(predictions_)}});
  }

 private:
  std::string label(std::int64_t index) const {
    const std::vector<std::string>& labels = inputs_.model.labels;
    return labels.empty() ? fmt::format("{}", index) : labels[static_cast<std::size_t>(index)];
  }

  const PredictInputs& inputs_;
  Context& context_;
  Json predictions_ = Json::array();
};

}  // namespace

int predict_images(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (options.inputs.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} classifies images: name some", inputs.version.name()),
                "files (PGM, PPM, IDX) or a dataset with --split");
  }
  if (options.top < 1) fail(ErrorKind::kUsage, "--top {}: expected at least 1", options.top);
  std::vector<Source> sources;
  sources.reserve(options.inputs.size());
  for (const std::string& word : options.inputs) {
    sources.push_back(read_source(word, options, context));
    check_size(sources.back(), inputs);
  }
  serve::Predictor predictor(inputs.model, kBatch, chosen_level(), context.pool());
  Printer printer(inputs, context);
  for (const Source& source : sources) {
    const std::int64_t size = predictor.example_size();
    for (std::int64_t first = 0; first < source.images.count; first += kBatch) {
      check_interrupted();
      const std::int64_t count = std::min(kBatch, source.images.count - first);
      const auto elements = static_cast<std::size_t>(count * size);
      data::normalize(inputs.model.preprocessing.normalization,
                      ByteView(source.images.pixels).subspan(static_cast<std::size_t>(first * size), elements),
                      {predictor.input(), elements});
      const float* logits = predictor.run(count);
      for (std::int64_t i = 0; i < count; ++i) {
        printer.print(source.name_of(first + i),
                      rank(logits + i * predictor.classes(), predictor.classes(), options.top));
      }
    }
  }
  printer.finish();
  return 0;
}

}  // namespace mlx::cmd
