// Weights that sessions share: read in place, packed once whatever the sizes and sessions, the same bits as copies.
#include "graph/weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "kernels/half.h"
#include "sample.h"
#include "tests/kernels/backends.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

std::shared_ptr<const Weights> shared(Tensors tensors) {
  return std::make_shared<const Weights>(std::move(tensors));
}

SessionOptions options_at(kernels::Backend backend) {
  SessionOptions options;
  options.backend = backend;
  return options;
}

// Logits of `count` images.
Bytes run(Session& session, std::int64_t count) {
  const sample::Batch batch = sample::images(count, 5);
  session.run({{session.graph().inputs.at(0), batch.images.data(), {count, 12, 12, 2}}});
  const ByteView logits = session.output(session.graph().outputs.at(0));
  return {logits.begin(), logits.end()};
}

// A linear layer of 64 to 48 over x[batch,64].
Graph linear() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId x = g.input("x", DType::kF32, {batch, Dim::of(64)});
  const ValueId w = g.parameter("w", {Dim::of(48), Dim::of(64)}), b = g.parameter("b", {Dim::of(48)});
  g.outputs = {g.add(Op::kLinear, {}, {x, w, b}, "linear")[0]};
  return g;
}

}  // namespace

TEST_CASE("weights: sessions read them in place, and give the bits of a session with a copy") {
  const Graph graph = to_inference(sample::cnn());
  const Tensors tensors = sample::random_tensors(graph);
  const auto weights = shared(tensors);
  Pool pool(2);
  for (const kernels::Backend backend : kernels::test::backends()) {
    CAPTURE(backend.name());
    Session own(graph, tensors, options_at(backend), pool);
    Session one(graph, weights, options_at(backend), pool), two(graph, weights, options_at(backend), pool);
    for (const std::int64_t count : {1, 7, 64}) {
      const Bytes expected = run(own, count);
      CHECK(run(one, count) == expected);
      CHECK(run(two, count) == expected);
    }
    for (const char* name : {"conv1.weight", "norm1.mean", "dense2.bias"}) {
      if (backend.can().own_memory) break;  // there it is a copy that sessions share
      CHECK(one.state(name) == weights->find(name)->data().data());
      CHECK(two.state(name) == one.state(name));
    }
    CHECK(one.own_state_bytes() == 0);
    CHECK(one.state_bytes() == weights->bytes());
  }
}

TEST_CASE("weights: three batch sizes in two sessions pack a layer once") {
  Pool pool(2);
  const Graph graph = linear();
  const Tensors tensors = sample::random_tensors(graph);
  const std::vector<float> x = sample::random_floats(64 * 64, 3);
  for (const kernels::Backend backend : kernels::test::backends()) {
    CAPTURE(backend.name());
    const auto weights = shared(tensors);
    {
      Session one(graph, weights, options_at(backend), pool), two(graph, weights, options_at(backend), pool);
      for (Session* session : {&one, &two})
        for (const std::int64_t count : {1, 8, 64}) session->run({{graph.inputs[0], x.data(), {count, 64}}});
      const auto weight = weights->find("w");
      if (backend == kernels::backend_named("avx2") || backend == kernels::backend_named("avx512")) {
        CHECK(weight->times_packed() == 1);
        CHECK(weight->packed_bytes() == weight->data().size());
      } else if (backend == kernels::backend_named("onednn")) {
        // oneDNN may choose a layout by the number of rows; the second session packs nothing.
        CHECK(weight->times_packed() >= 1);
        CHECK(weight->times_packed() <= 3);
      }
      const std::int64_t before = weights->times_packed();
      Session three(graph, weights, options_at(backend), pool);
      for (const std::int64_t count : {1, 8, 64}) three.run({{graph.inputs[0], x.data(), {count, 64}}});
      CHECK(weights->times_packed() == before);
    }
    CHECK(weights->packed_bytes() == 0);  // freed with the sessions
  }
}

TEST_CASE("weights: bug: plans of one kernel and size that pack differently do not share") {
  // Pixels of u8 and of s8 start their sums from different numbers, which are packed with the weights.
  const auto packed = [](DType dtype) {
    kernels::Shape x{dtype, 2, {4, 32}}, w{DType::kS8, 2, {16, 32}}, scales{DType::kF32, 1, {16}}, none, y;
    none.rank = -1;
    y = {DType::kF32, 2, {4, 16}};
    const kernels::Shape inputs[] = {x, w, none, scales};
    kernels::Problem problem;
    problem.op = Op::kLinear;
    problem.input_count = 4;
    problem.output_count = 1;
    problem.inputs = inputs;
    problem.outputs = &y;
    return kernels::prepare(problem, kernels::test::own_backend());
  };
  const kernels::Prepared a = packed(DType::kU8), b = packed(DType::kS8);
  if (a.plan().packed_input < 0) return;  // ref reads weights as they are
  const kernels::Shape shape{DType::kS8, 2, {16, 32}};
  const Bytes data(shape.bytes(), 3);
  const Weight weight(shape, data, Backing{});
  const auto first = weight.packed(a.plan(), shape), second = weight.packed(b.plan(), shape);
  CHECK(first != second);
  CHECK(weight.packed(a.plan(), shape) == first);
  CHECK(weight.times_packed() == 2);
  kernels::Shape turned = shape;
  std::swap(turned.dims[0], turned.dims[1]);
  CHECK(weight.packed(a.plan(), turned) != first);  // seen in another shape: packed by itself
  kernels::Plan silent = a.plan();
  silent.layout_count = -1;  // a kernel that does not say what its layout depends on
  CHECK(weight.packed(silent, shape) != weight.packed(silent, shape));
}

TEST_CASE("weights: forms with other scales are not shared") {
  const kernels::Shape x{DType::kF32, 2, {1, 32}}, w{DType::kS8, 2, {16, 32}}, scales{DType::kF16, 2, {1, 16}};
  const kernels::Shape y{DType::kF32, 2, {1, 16}}, inputs[] = {x, w, scales};
  kernels::Problem problem;
  problem.op = Op::kLinearGroups;
  problem.input_count = 3;
  problem.output_count = 1;
  problem.inputs = inputs;
  problem.outputs = &y;
  const kernels::Prepared kernel = kernels::prepare(problem, kernels::test::own_backend());
  if (kernel.plan().packed_input < 0) return;  // ref reads weights as they are
  REQUIRE(kernel.plan().packed_scales == 2);
  const Bytes data(w.bytes(), 3), ones(scales.bytes(), 1), twos(scales.bytes(), 2);
  const Weight weight(w, data, Backing{}), a(scales, ones, Backing{}), b(scales, twos, Backing{});
  const auto with_a = weight.packed(kernel.plan(), w, &a), with_b = weight.packed(kernel.plan(), w, &b);
  CHECK(with_a != with_b);
  CHECK(weight.packed(kernel.plan(), w, &a) == with_a);
  CHECK(weight.times_packed() == 2);
}

TEST_CASE("weights: they live on with a session alone, and what only they hold goes with the last") {
  const Graph graph = to_inference(sample::cnn());
  Tensors tensors = sample::random_tensors(graph);
  Pool pool(1);
  const Bytes expected = [&] {
    Session session(graph, tensors, {}, pool);
    return run(session, 3);
  }();
  auto memory = std::make_shared<Bytes>(tensors.at("dense1.weight").data);
  const std::weak_ptr<Bytes> alive = memory;
  Weights::Map map = Weights(tensors).all();
  map["dense1.weight"] = std::make_shared<const Weight>(tensors.at("dense1.weight").shape, *memory, Backing{memory});
  auto weights = std::make_shared<const Weights>(std::move(map));
  memory.reset();
  map.clear();
  auto session = std::make_unique<Session>(graph, weights, SessionOptions{}, pool);
  weights.reset();
  CHECK(!alive.expired());
  CHECK(run(*session, 3) == expected);
  session.reset();
  CHECK(alive.expired());
}

TEST_CASE("weights: what a graph writes is the session's own, and a changed weight too") {
  const Graph graph = to_inference(sample::cnn());
  const auto weights = shared(sample::random_tensors(graph));
  Pool pool(1);
  Session changed(graph, weights, {}, pool), other(graph, weights, {}, pool);
  const Bytes before = run(other, 4);
  CHECK(run(changed, 4) == before);
  const Bytes zeros(4 * 16 * sizeof(float), 0);
  changed.set_state("dense2.weight", zeros);
  CHECK(changed.own_state_bytes() == zeros.size());
  CHECK(run(changed, 4) != before);
  CHECK(run(other, 4) == before);
  CHECK(weights->find("dense2.weight")->data()[0] != 0);

  // A training writes parameters and running statistics.
  SessionOptions training;
  training.training = true;
  const TrainingGraph trained = to_training(sample::cnn(), {}, 0);
  const auto start = shared(sample::random_tensors(trained.graph));
  const Tensors untouched = start->tensors();
  Session session(trained.graph, start, training, pool);
  const sample::Batch batch = sample::images(4, 1);
  const float rate = 0.1f;
  session.run({{trained.graph.inputs[0], batch.images.data(), {4, 12, 12, 2}},
               {trained.labels, batch.labels.data(), {4}},
               {trained.learning_rate, &rate, {1}}});
  CHECK(session.own_state_bytes() == session.state_bytes());
  CHECK(session.tensors().at("conv1.weight").data != untouched.at("conv1.weight").data);
  for (const auto& [name, tensor] : untouched) CHECK(start->tensor(name).data == tensor.data);
}

TEST_CASE("weights: folding changes copies of what it folds and shares the rest") {
  const Graph inference = to_inference(sample::cnn());
  Tensors tensors = sample::random_tensors(inference);
  const auto weights = shared(tensors);
  const auto [graph, folded] = fuse(inference, *weights);
  const Graph expected = fuse(inference, tensors);
  CHECK(canonical(to_json(graph)) == canonical(to_json(expected)));
  CHECK(folded->size() == tensors.size());
  for (const auto& [name, tensor] : tensors) CHECK(folded->tensor(name).data == tensor.data);
  CHECK(folded->find("dense1.weight") == weights->find("dense1.weight"));
  CHECK(folded->find("conv1.weight") != weights->find("conv1.weight"));
  CHECK_FALSE(folded->contains("norm1.gamma"));
  CHECK(weights->tensor("conv1.weight").data == sample::random_tensors(inference).at("conv1.weight").data);
}

TEST_CASE("weights: a tensor that is not aligned for its type is copied, others are not") {
  const auto memory = std::make_shared<Bytes>(65);
  const kernels::Shape shape{DType::kF32, 1, {8}};
  const ByteView bytes = *memory;
  const Weights weights({{"aligned", {shape, bytes.subspan(4, 32)}}, {"odd", {shape, bytes.subspan(33, 32)}}},
                        Backing{memory});
  CHECK(weights.find("aligned")->data().data() == memory->data() + 4);
  CHECK(weights.find("odd")->data().data() != memory->data() + 33);
  CHECK(reinterpret_cast<std::uintptr_t>(weights.find("odd")->data().data()) % sizeof(float) == 0);
  CHECK(weights.find("nobody") == nullptr);
  CHECK_THROWS_AS(weights.tensor("nobody"), Error);
}

TEST_CASE("weights: sessions of many threads share one packed form") {
  const Graph graph = to_inference(sample::cnn());
  const Tensors tensors = sample::random_tensors(graph);
  const auto weights = shared(tensors);
  const auto backend = kernels::test::own_backend();
  constexpr int kThreads = 8;
  std::vector<Bytes> got(kThreads);
  std::vector<std::unique_ptr<Pool>> pools;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < kThreads; ++i) {
    pools.push_back(std::make_unique<Pool>(2));
    sessions.push_back(std::make_unique<Session>(graph, weights, options_at(backend), *pools.back()));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (const std::int64_t count : {1, 5, 9}) got[i] = run(*sessions[i], count);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Bytes& each : got) CHECK(each == got[0]);
  for (const auto& [name, weight] : weights->all()) CHECK(weight->times_packed() <= 1);
}

TEST_CASE("weights: what is stored in half precision gives the bits of its f32, and is widened only if it must") {
  const Graph graph = to_inference(sample::cnn());
  const auto rounded = [](float x, DType half) {
    return half == DType::kBF16 ? kernels::widen(kernels::to_bf16(x)) : kernels::widen(kernels::to_f16(x));
  };
  Pool pool(2);
  for (const DType half : {DType::kBF16, DType::kF16}) {
    Tensors f32 = sample::random_tensors(graph);
    Weights::Map halves;
    for (auto& [name, tensor] : f32) {
      if (tensor.shape.dtype != DType::kF32) continue;
      kernels::Shape shape = tensor.shape;
      shape.dtype = half;
      const auto stored = std::make_shared<Bytes>(shape.bytes());
      for (std::size_t i = 0; i < stored->size() / 2; ++i) {
        float x;
        std::memcpy(&x, tensor.data.data() + 4 * i, 4);
        x = rounded(x, half);
        std::memcpy(tensor.data.data() + 4 * i, &x, 4);
        if (half == DType::kBF16)
          reinterpret_cast<kernels::BF16*>(stored->data())[i] = kernels::to_bf16(x);
        else
          reinterpret_cast<kernels::F16*>(stored->data())[i] = kernels::to_f16(x);
      }
      halves[name] = std::make_shared<const Weight>(shape, *stored, Backing{stored});
    }
    for (const kernels::Backend backend : kernels::test::backends()) {
      CAPTURE(backend.name());
      for (const std::int64_t tile : {0, 1}) {
        SessionOptions options = options_at(backend);
        options.tile = tile;
        Weights::Map map;
        for (const auto& [name, stored] : halves) map[name] = std::make_shared<const Weight>(stored);
        const auto weights = std::make_shared<const Weights>(std::move(map));
        Session plain(graph, f32, options, pool), late(graph, weights, options, pool);
        // oneDNN's own product of f32 sums in another order; it leaves weights in half precision to ours.
        if (backend.can().independent_rows) {
          CHECK(run(late, 3) == run(plain, 3));
          CHECK(run(late, 64) == run(plain, 64));
        } else {
          run(late, 3);
        }
        const bool packs = backend.name() != std::string("ref");
        const auto dense = weights->find("dense1.weight");
        CHECK(dense->late());
        CHECK(dense->kept() == !packs);
        CHECK(std::ranges::equal(dense->data(), f32.at("dense1.weight").data));
      }
    }
  }
}

TEST_CASE("weights: tables in half precision are read as they are stored, with the bits of f32") {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId ids = g.input("ids", DType::kS32, {batch, Dim::of(3)});
  const ValueId table = g.parameter("table", {Dim::of(50), Dim::of(37)}),
                places = g.parameter("places", {Dim::of(4), Dim::of(37)});
  const ValueId rows = g.add(Op::kEmbedding, {}, {ids, table}, "tokens")[0];
  const ValueId x = g.add(Op::kAddPositions, {}, {rows, places}, "positions")[0];
  g.outputs = {g.add(Op::kLinear, {}, {x, table}, "logits")[0]};  // the head's weights are the table
  const std::vector<std::int32_t> tokens{0, 7, 49, -1, 50, 3};
  Pool pool(2);
  for (const DType half : {DType::kBF16, DType::kF16})
    for (const kernels::Backend backend : kernels::test::backends()) {
      CAPTURE(backend.name());
      Tensors f32 = sample::random_tensors(g);
      Weights::Map map;
      for (auto& [name, tensor] : f32) {
        kernels::Shape shape = tensor.shape;
        shape.dtype = half;
        const auto stored = std::make_shared<Bytes>(shape.bytes());
        for (std::size_t i = 0; i < stored->size() / 2; ++i) {
          float number;
          std::memcpy(&number, tensor.data.data() + 4 * i, 4);
          const kernels::BF16 as_bf16 = kernels::to_bf16(number);
          const kernels::F16 as_f16 = kernels::to_f16(number);
          number = half == DType::kBF16 ? kernels::widen(as_bf16) : kernels::widen(as_f16);
          std::memcpy(tensor.data.data() + 4 * i, &number, 4);
          std::memcpy(stored->data() + 2 * i, half == DType::kBF16 ? &as_bf16.bits : &as_f16.bits, 2);
        }
        map[name] = std::make_shared<const Weight>(std::make_shared<const Weight>(shape, *stored, Backing{stored}));
      }
      const auto weights = std::make_shared<const Weights>(std::move(map));
      Session plain(g, f32, options_at(backend), pool), late(g, weights, options_at(backend), pool);
      const std::vector<Feed> feeds{{ids, tokens.data(), {2, 3}}};
      plain.run(feeds);
      late.run(feeds);
      if (backend.can().independent_rows)  // oneDNN leaves products with weights in half precision to other kernels
        CHECK(std::ranges::equal(late.output(g.outputs[0]), plain.output(g.outputs[0])));
      CHECK_FALSE(weights->find("places")->kept());
      const bool packs = backend.name() != std::string("ref");
      CHECK(weights->find("table")->kept() == !packs);
    }
}

TEST_CASE("weights: packing gives a mapped file's pages back, and what is read later is the same") {
  static int released = 0;
  const Graph graph = to_inference(sample::cnn());
  const Tensors tensors = sample::random_tensors(graph);
  Pool pool(1);
  Weights::Map map;
  for (const auto& [name, tensor] : tensors)
    map[name] =
        std::make_shared<const Weight>(tensor.shape, tensor.data, Backing{nullptr, [](ByteView) { ++released; }});
  Session plain(graph, tensors, {}, pool);
  released = 0;
  const auto weights = std::make_shared<const Weights>(std::move(map));
  Session session(graph, weights, {}, pool);
  CHECK(run(session, 2) == run(plain, 2));
  CHECK(released == weights->times_packed());
}
