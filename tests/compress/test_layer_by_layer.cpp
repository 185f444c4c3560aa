// Language models whose layers are rounded on data: the same bits however they are computed, scales that change nothing
// by themselves, widths that keep a bound.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../infer/language_model.h"
#include "base/error.h"
#include "compress/awq.h"
#include "compress/segments.h"
#include "compress/widths.h"
#include "graph/passes/passes.h"
#include "kernels/philox.h"

namespace mlx {
namespace {

using compress::Bound;
using compress::Comparison;
using compress::Engine;
using compress::Likeness;
using compress::Method;
using compress::QuantizedLayers;
using compress::TextWindows;

constexpr std::int64_t kLetters = 40;

// Biases, and what norms add, are not 0, as they are before a training.
nn::Model small_model(const std::string& family) {
  nn::Model model =
      infer::test::model_of_config(fmt::format("family = \"{}\"\nlayers = 2\nwidth = 64\nheads = 4\ncontext = 32\n{}",
                                               family, family == "llama" ? "kv_heads = 2\nhidden = 96\n" : ""),
                                   kLetters, 4);
  graph::Tensors tensors = model.weights->tensors();
  for (auto& [name, tensor] : tensors) {
    if (!name.ends_with("bias") && !name.ends_with("beta")) continue;
    auto* const to = reinterpret_cast<float*>(tensor.data.data());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i) to[i] = 0.3f * std::sin(static_cast<float>(3 * i));
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  return model;
}

// Some letters are frequent.
TextWindows windows_of(std::int64_t count, std::uint64_t seed) {
  TextWindows out;
  out.count = count, out.length = 32;
  const auto letter = [&](std::int64_t i) {
    const std::uint32_t a = kernels::random_u32(seed, 1, 0, static_cast<std::uint64_t>(i)) % kLetters;
    const std::uint32_t b = kernels::random_u32(seed, 2, 0, static_cast<std::uint64_t>(i)) % kLetters;
    return static_cast<std::int32_t>(std::min(a, b));
  };
  for (std::int64_t i = 0; i < count * out.length; ++i)
    out.ids.push_back(letter(i)), out.labels.push_back(letter(i + 1));
  return out;
}

std::optional<kernels::Backend> portable(const char* name) {
  const kernels::Backend backend = kernels::backend_named(name);
  if (!kernels::problem_of(backend).empty()) return std::nullopt;
  return backend;
}

QuantizedLayers quantized(const nn::Model& model, Method method, int bits, const Engine& engine, bool wider = false,
                          const data::MemoryBudget& budget = {}) {
  NoProgress silent;
  compress::LayerPlan plan{method, {{{bits, 32}}}};
  if (wider) plan.widths.push_back({{8, 32}});
  return compress::quantize_layers(model, plan, windows_of(24, 5), engine, budget, silent);
}

std::vector<std::size_t> all_at(const QuantizedLayers& layers, std::size_t width) {
  return std::vector<std::size_t>(layers.layers.size(), width);
}

Bytes bytes_of(const nn::Model& model) {
  return nn::encode_tensors(model.weights->tensors());
}

}  // namespace

TEST_CASE("layer by layer: pieces follow one another, and each has layers") {
  for (const char* const family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const graph::Graph graph = graph::to_inference(small_model(family).graph);
    const std::vector<std::size_t> layers = compress::groupable_layers(graph, {{4, 32}}).nodes;
    CHECK(layers.size() == 9);  // four a block, and the head
    const std::vector<compress::Segment> segments = compress::segments_of(graph, layers);
    CHECK(segments.size() == 5);  // attention and the rest of each block, and the head
    std::size_t next = 0, count = 0;
    graph::ValueId value = graph.inputs[0];
    for (const compress::Segment& segment : segments) {
      CHECK(segment.first == next);
      CHECK(segment.from == value);
      next = segment.last, value = segment.to;
      for (const compress::LayerGroup& group : segment.groups) count += group.nodes.size();
      CHECK(compress::piece_of(graph, segment, segment.to).inputs.size() == 1);
    }
    CHECK(next == graph.nodes.size());
    CHECK(value == graph.outputs[0]);
    CHECK(count == layers.size());
  }
}

TEST_CASE("layer by layer: the same bits for any number of threads, on all portable kernels, from memory or a file") {
  for (const Method method : {Method::kRtn, Method::kGptq, Method::kAwq}) {
    CAPTURE(compress::name_of(method));
    const nn::Model model = small_model("llama");
    std::vector<Bytes> all;
    for (const char* const name : {"avx2", "avx512"}) {
      const std::optional<kernels::Backend> backend = portable(name);
      if (!backend) continue;
      for (const int threads : {1, 3}) {
        Pool pool(threads);
        const data::MemoryBudget budget = threads == 1 ? data::MemoryBudget() : data::MemoryBudget(1, "/tmp");
        const QuantizedLayers layers = quantized(model, method, 4, {*backend, pool}, false, budget);
        all.push_back(bytes_of(compress::with_widths(layers, all_at(layers, 0), pool)));
      }
    }
    for (const Bytes& each : all) CHECK(each == all[0]);
  }
}

TEST_CASE("layer by layer: data make the model likelier to itself; eight bits lose little") {
  NoProgress silent;
  Pool pool(2);
  const Engine engine{kernels::backend_named("ref"), pool};
  for (const char* const family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const nn::Model model = small_model(family);
    Comparison held_out(model, windows_of(16, 77), true, engine);
    const auto compared = [&](Method method, int bits) {
      const QuantizedLayers layers = quantized(model, method, bits, engine);
      CHECK(layers.left == 0);
      for (const compress::QuantizedLayer& layer : layers.layers) CHECK(layer.errors.at(0) < (bits == 4 ? 0.25 : 0.03));
      const nn::Model made = compress::with_widths(layers, all_at(layers, 0), pool);
      CHECK(made.precision == (bits == 4 ? "int4" : "int8"));
      return held_out.with(made, silent);
    };
    const Likeness rtn = compared(Method::kRtn, 4), gptq = compared(Method::kGptq, 4), awq = compared(Method::kAwq, 4);
    MESSAGE(std::string(family) << ": KL " << rtn.kl_divergence << " rtn, " << gptq.kl_divergence << " gptq, "
                                << awq.kl_divergence << " awq");
    CHECK(gptq.kl_divergence < rtn.kl_divergence);
    CHECK(awq.kl_divergence < rtn.kl_divergence);
    CHECK(compared(Method::kGptq, 8).kl_divergence < 0.3 * gptq.kl_divergence);
    CHECK(rtn.tokens == 16 * 32);
    CHECK(rtn.top1 > 0.5);
  }
}

TEST_CASE("layer by layer: the scales of AWQ change nothing until weights are rounded") {
  NoProgress silent;
  Pool pool(2);
  const Engine engine{kernels::backend_named("ref"), pool};
  for (const char* const family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const nn::Model model = small_model(family);
    const QuantizedLayers layers = quantized(model, Method::kAwq, 4, engine);
    const auto scaled = [](const compress::QuantizedLayer& layer) { return !layer.columns.empty(); };
    CHECK(std::ranges::count_if(layers.layers, scaled) > 2);
    const nn::Model as_it_was = compress::with_widths(layers, all_at(layers, 1), pool);
    CHECK(as_it_was.weights->contains("norm.gamma"));
    const Likeness like = Comparison(model, windows_of(4, 3), false, engine).with(as_it_was, silent);
    CHECK(like.kl_divergence < 1e-9);
    CHECK(like.top1 > 0.98);
  }
}

TEST_CASE("layer by layer: layers get wider until a bound holds") {
  NoProgress silent;
  Pool pool(2);
  const Engine engine{kernels::backend_named("ref"), pool};
  const nn::Model model = small_model("llama");
  const QuantizedLayers layers = quantized(model, Method::kGptq, 4, engine, true);
  Comparison held_out(model, windows_of(8, 77), true, engine), calibration(model, windows_of(4, 5), true, engine);
  const auto find = [&](const Bound& bound) {
    return compress::find_widths(layers, bound, held_out, calibration, pool, silent);
  };
  const compress::Widths narrow = find({});
  CHECK(narrow.of == all_at(layers, 0));
  CHECK(narrow.gains.empty());
  const double four = narrow.likeness.kl_divergence;
  const double eight = held_out.with(compress::with_widths(layers, all_at(layers, 1), pool), silent).kl_divergence;
  const compress::Widths mixed = find({{}, (four + eight) / 2});
  CHECK(mixed.likeness.kl_divergence <= (four + eight) / 2);
  CHECK(mixed.gains.size() == layers.layers.size());
  CHECK(std::ranges::count(mixed.of, 0u) > 0);
  CHECK(std::ranges::count(mixed.of, 1u) > 0);
  const nn::Model made = compress::with_widths(layers, mixed.of, pool);
  CHECK(made.precision == "int4");  // the fewest bits
  CHECK(held_out.with(made, silent).kl_divergence == mixed.likeness.kl_divergence);
  // Less than all of eight bits lose: some stay as they are stored.
  const compress::Widths stored = find({{}, eight / 2});
  CHECK(stored.likeness.kl_divergence <= eight / 2);
  CHECK(std::ranges::count(stored.of, 2u) > 0);
  CHECK(std::ranges::count(stored.of, 2u) < static_cast<std::ptrdiff_t>(stored.of.size()));
  CHECK_THROWS_WITH_AS(find({{}, 0.0}), doctest::Contains("with all layers in int8"), Error);
}

}  // namespace mlx
