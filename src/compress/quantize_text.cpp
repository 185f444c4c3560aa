// The work and its record: the attachment "quantization" of the new version, and the run's summary.

#include "compress/quantize_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "compress/likeness.h"
#include "compress/quantize_work.h"
#include "compress/widths.h"
#include "compress_sources.h"
#include "graph/passes/passes.h"
#include "infer/examples.h"
#include "work/inputs.h"

namespace mlx::compress {
namespace {

// The longest window of tokens, calibrated or compared on: longer contexts cost the square of their length.
constexpr std::int64_t kLongestWindow = 2048;
// What the order of layers is found on, for a bound.
constexpr std::int64_t kOrderWindows = 16, kOrderLogits = std::int64_t{1} << 25;
// Of the model as it was on held-out text: kept for a bound up to so many.
constexpr std::int64_t kKeptLogits = std::int64_t{1} << 27;

// A split of a version of a dataset.
struct Text {
  registry::Version version;
  std::string split;
};

std::string held_out_split(registry::Repository& repository, const registry::Version& data, const std::string& asked,
                           const data::Reading& reading) {
  if (!asked.empty()) return asked;
  const std::vector<std::string> all = data::splits(repository.store(), data.digest, reading);
  for (const char* const split : {"valid", "test"})
    if (std::ranges::find(all, split) != all.end()) return split;
  throw Error(ErrorKind::kUsage, fmt::format("{} has no split valid or test to measure the loss on", data.artifact),
              "name held-out text: --data DATASET, --data-split SPLIT");
}

Json layer_json(const QuantizedLayer& layer, std::size_t width, const Widths& widths, std::size_t index) {
  const bool rounded = width < layer.widths.size();
  Json out = {{"name", layer.name}, {"error", rounded ? layer.errors[width] : 0.0}};
  out["type"] = rounded ? name_of(layer.widths[width]) : "stored";
  if (!widths.gains.empty()) out["gain"] = widths.gains[index];
  if (!layer.columns.empty()) out["scaled"] = true;
  return out;
}

Json text_json(const Text& text, const TextWindows& windows) {
  return {{"data", text.version.digest.text()},
          {"split", text.split},
          {"window", windows.length},
          {"windows", windows.count}};
}

class TextQuantizer {
 public:
  TextQuantizer(registry::Repository& repository, const QuantizeOptions& options, const registry::Version& from,
                const Json& about, Progress& progress)
      : repository_(repository),
        options_(options),
        text_(*options.text),
        from_(from),
        progress_(progress),
        engine_{kernels::portable_backend(options.backend), repository.pool()} {
    if (about.contains("data")) divided_.division = infer::division_of(about["data"]);
    calibration_ = {work::resolve_dataset(repository, options.dataset, progress), options.split};
    held_out_.version =
        text_.data.empty() ? calibration_.version : work::resolve_dataset(repository, text_.data, progress);
    check_kind(calibration_);
    held_out_.split = held_out_split(repository, held_out_.version, text_.split, divided_);
    check_kind(held_out_);
    examples_ = options.calibration.examples;
    if (examples_ == 0) examples_ = calibration_examples(*infer::kind_of(description()));
  }

  work::Work work() const {
    work::Work work = quantize_work(options_, from_);
    work.inputs.emplace_back("data", calibration_.version.digest);
    work.inputs.emplace_back("held_out", held_out_.version.digest);
    Json params = {{"examples", examples_},
                   {"held_out", {{"split", held_out_.split}, {"windows", text_.windows}}},
                   {"method", name_of(text_.plan.method)},
                   {"seed", options_.calibration.seed},
                   {"split", options_.split},
                   {"to", name_of(narrowest())}};
    if (!narrowest().blocks) params["group"] = narrowest().groups.size;
    if (text_.bound.rise) params["max_loss"] = *text_.bound.rise;
    if (text_.bound.kl) params["max_kl"] = *text_.bound.kl;
    work.params = canonical(params);
    work.numerics = {Digest::parse(MLX_COMPRESS_SOURCES), engine_.backend, true};
    return work;
  }

  Json run(work::ActiveRun& run) {
    nn::Model model = nn::load_model_as_stored(repository_.store(), from_.digest);
    check_finite(model);
    const TextWindows windows = read(model, calibration_, {0, examples_, true, options_.calibration.seed});
    const TextWindows held_out = read(model, held_out_, {0, text_.windows});
    if (held_out_.version.digest == calibration_.version.digest && held_out_.split == calibration_.split)
      progress_.warn("the loss is measured on the text that the weights are calibrated on");
    LayerPlan plan = text_.plan;
    if (!text_.bound.wanted()) plan.widths.resize(1);
    const QuantizedLayers layers = quantize_layers(model, plan, windows, engine_, options_.budget, progress_);
    const Widths widths = choose(model, layers, windows, held_out);
    const nn::Model made = with_widths(layers, widths.of, engine_.pool);
    return store(run, made, layers, record(layers, widths, windows, held_out));
  }

 private:
  const nn::Model& description() {
    if (!description_) {
      description_ = nn::load_description(repository_.store(), from_.digest);
      check_language_model(*description_, from_);
    }
    return *description_;
  }

  void check_kind(const Text& text) {
    const std::string split = text.split;
    infer::check_kind(description(), data::kind_of(repository_.store(), text.version.digest, split, divided_));
  }

  TextWindows read(const nn::Model& model, const Text& text, WantedWindows wanted) {
    data::Reading reading = infer::reading_of(model);
    reading.budget = options_.budget;
    const data::DatasetPtr data = data::load(repository_.store(), text.version.digest, text.split, reading, progress_);
    infer::check_fits(model, data->describe());
    wanted.length = std::min(kLongestWindow, infer::context_of(model));
    return read_windows(*data, model.preprocessing, wanted, engine_.pool);
  }

  Widths choose(const nn::Model& model, const QuantizedLayers& layers, const TextWindows& windows,
                const TextWindows& held_out) {
    nn::Model before = model;
    before.weights = std::make_shared<const graph::Weights>(nn::in_f32(model.graph, *model.weights));  // for both
    const graph::Graph& graph = layers.model.graph;
    const std::int64_t vocabulary = graph.value(graph.outputs[0]).dims.back().size;
    const std::int64_t few = std::clamp<std::int64_t>(kOrderLogits / (windows.length * vocabulary), 1, kOrderWindows);
    const bool fits = held_out.count * held_out.length <= kKeptLogits / vocabulary;
    Comparison on_held_out(before, held_out, text_.bound.wanted() && fits, engine_);
    Comparison on_calibration(before, first_of(windows, few), true, engine_);
    return find_widths(layers, text_.bound, on_held_out, on_calibration, engine_.pool, progress_);
  }

  Json record(const QuantizedLayers& layers, const Widths& widths, const TextWindows& windows,
              const TextWindows& held_out) const {
    const Likeness& like = widths.likeness;
    Json out = {{"method", name_of(text_.plan.method)},
                {"to", name_of(narrowest())},
                {"from", from_.digest.text()},
                {"calibrated_on", text_json(calibration_, windows)},
                {"measured_on", text_json(held_out_, held_out)},
                {"perplexity_before", like.perplexity_before()},
                {"perplexity", like.perplexity()},
                {"perplexity_rise", like.rise()},
                {"kl_divergence", like.kl_divergence},
                {"top1_agreement", like.top1}};
    out["measured_on"]["tokens"] = like.tokens;
    if (!narrowest().blocks) out["group"] = narrowest().groups.size;
    if (text_.bound.rise) out["max_loss"] = *text_.bound.rise;
    if (text_.bound.kl) out["max_kl"] = *text_.bound.kl;
    Json list = Json::array();
    for (std::size_t i = 0; i < layers.layers.size(); ++i)
      list.push_back(layer_json(layers.layers[i], widths.of[i], widths, i));
    out["layers"] = std::move(list);
    return out;
  }

  const WeightType& narrowest() const { return text_.plan.widths[0]; }

  Json store(work::ActiveRun& run, const nn::Model& made, const QuantizedLayers& layers, Json record) const {
    const std::string message = fmt::format("{} of {} by {}", made.precision, from_.name(), name_of(text_.plan.method));
    const store::ManifestSummary stored =
        work::store_output(run, {from_.artifact, message, from_.digest},
                           [&](store::Store& store) { return nn::store_model(store, made); });
    record["bytes_before"] = from_.bytes;
    record["bytes"] = stored.bytes;
    run.attachments.push_back(
        {stored.id, "quantization", held_out_.version.digest.text() + "#" + held_out_.split, canonical(record)});
    Json summary = {{"bytes", stored.bytes},
                    {"bytes_before", from_.bytes},
                    {"precision", made.precision},
                    {"quantization", std::move(record)}};
    add_layer_counts(static_cast<std::int64_t>(layers.layers.size()), layers.left, layers.small, summary);
    return summary;
  }

  registry::Repository& repository_;
  const QuantizeOptions& options_;
  const TextOptions& text_;
  const registry::Version& from_;
  Progress& progress_;
  Engine engine_;
  data::Reading divided_;
  Text calibration_, held_out_;
  std::int64_t examples_ = 0;
  std::optional<nn::Model> description_;
};

}  // namespace

QuantizeOutcome quantize_text(registry::Repository& repository, const QuantizeOptions& options,
                              const registry::Version& from, const Json& about, Progress& progress) {
  TextQuantizer quantizer(repository, options, from, about, progress);
  const work::Outcome done = work::run_once(
      repository, quantizer.work(), [&](work::ActiveRun& run) { return quantizer.run(run); }, progress);
  if (options.point) work::point_at(repository, done.versions[0]);
  return {done.unchanged, from, done.versions[0], done.run.summary};
}

}  // namespace mlx::compress
