// The report on histories made up through the registry: whole, partly missing, and hostile.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "nn/model.h"
#include "registry/sync/open_repository.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/report.h"
#include "train/evaluate/evaluate.h"

namespace mlx::report {
namespace {

using registry::ArtifactKind;
using registry::Version;

struct History {
  TempFolder folder;
  std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool{1};
  std::unique_ptr<registry::Repository> repository;

  History() {
    registry::Repository::init(folder.path(), *disk);
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
  }

  Version make(const std::string& name, ArtifactKind kind, const store::ManifestSummary& manifest,
               const std::string& run = {}, std::optional<Digest> parent = {},
               const std::string& message = "made for a test") {
    registry::NewVersion version;
    version.artifact = name;
    version.kind = kind;
    version.manifest = manifest;
    version.message = message;
    version.run = run;
    version.parent = parent;
    return registry::create_version(*repository, version).version;
  }

  Version dataset(const std::string& text) {
    const auto batch = repository->store().begin();
    store::Entry entry;
    entry.path = "images";
    entry.size = text.size();
    entry.content = batch->add_blob(as_bytes(text));
    const store::ManifestSummary summary = batch->add_manifest({entry});
    batch->commit();
    return make("data/fashion", ArtifactKind::kDataset, summary);
  }

  nn::Model model(const std::vector<std::string>& labels, const std::string& precision) {
    using graph::Dim;
    nn::Model model;
    graph::Graph& g = model.graph;
    const Dim batch = Dim::sym(g.symbol("batch"));
    const graph::ValueId images = g.input("images", graph::DType::kF32, {batch, Dim::of(2), Dim::of(2), Dim::of(1)});
    const graph::ValueId flat = g.add_shaped(graph::Op::kReshape, {}, {images}, {batch, Dim::of(4)}, "flatten").at(0);
    const auto classes = static_cast<std::int64_t>(labels.size());
    const graph::ValueId w = g.parameter("w", {Dim::of(classes), Dim::of(4)});
    const graph::ValueId logits = g.add(graph::Op::kLinear, {}, {flat, w}, "dense").at(0);
    g.values[static_cast<std::size_t>(logits)].name = "logits";
    g.outputs = {logits};
    graph::Tensor tensor;
    tensor.shape.rank = 2;
    tensor.shape.dims = {classes, 4};
    tensor.data = Bytes(tensor.shape.bytes(), 0);
    model.weights = std::make_shared<const graph::Weights>(graph::Tensors{{"w", tensor}});
    model.family = "mlp";
    model.config = "{}";
    model.preprocessing = {2, 2, 1, {{0.5f}, {0.25f}}};
    model.labels = labels;
    model.data = "{}";
    model.precision = precision;
    return model;
  }

  std::string start(const std::string& command, const std::string& title,
                    std::vector<std::pair<std::string, Digest>> inputs) {
    registry::RunStart start;
    start.command = command;
    start.title = title;
    start.key = Digest::of(title);
    start.inputs = std::move(inputs);
    start.params = R"({"model":{"layers":[{"conv":8},{"dense":4}]},"train":{"epochs":4}})";
    start.environment = R"({"cpu":"Test <CPU>","threads":2})";
    start.code = R"({"branch":"main","dirty":false,"head":"0123abcd"})";
    return registry::start_run(*repository, start);
  }

  void log(const std::string& run) {
    std::vector<registry::MetricPoint> points;
    for (int step = 1; step <= 400; ++step) {
      points.push_back({step, "train/loss", 2.0 / std::sqrt(step), 0});
      points.push_back({step, "train/accuracy", 1 - 1.0 / std::sqrt(step + 1), 0});
      if (step % 100 == 0) points.push_back({step, "valid/loss", 1.8 / std::sqrt(step), 0});
      if (step % 100 == 0) points.push_back({step, "valid/accuracy", 0.9 + step * 1e-4, 0});
    }
    registry::log_metrics(*repository, run, points);
  }

  void evaluate(const Version& version, const Version& data, const std::vector<std::string>& labels,
                std::int64_t right) {
    train::Evaluation e;
    e.split = "test";
    e.data = data.digest;
    e.labels = labels;
    e.loss = 0.25;
    e.per_second = 12345;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      std::vector<std::int64_t> row(labels.size(), 0);
      row[i] = right;
      row[(i + 1) % labels.size()] += 100 - right;
      e.confusion.push_back(row);
      e.correct += right;
      e.count += 100;
    }
    registry::attach(*repository, version.digest, "evaluation", data.digest.text() + "#test",
                     as_bytes(canonical(train::to_json(e))));
  }

  Version trained(const Version& data, const std::vector<std::string>& labels) {
    const std::string run = start("train", "mlx train -c 'a <b>.toml'", {{"data", data.digest}});
    log(run);
    const Version version =
        make("clf", ArtifactKind::kModel, nn::store_model(repository->store(), model(labels, "f32")), run);
    registry::end_run(*repository, run, registry::RunStatus::kDone, {{"model", version.digest}},
                      {{"seconds", 12.5}, {"steps", 400}});
    return version;
  }

  Version quantized(const Version& from, const Version& data, const std::vector<std::string>& labels) {
    const std::string run = start("quantize", "mlx quantize clf", {{"model", from.digest}, {"data", data.digest}});
    const Version version = make("clf", ArtifactKind::kModel,
                                 nn::store_model(repository->store(), model(labels, "int8")), run, from.digest);
    registry::end_run(*repository, run, registry::RunStatus::kDone, {{"model", version.digest}}, Json::object());
    return version;
  }
};

bool has(const std::string& html, const std::string& text) {
  return html.find(text) != std::string::npos;
}

std::size_t times(const std::string& html, const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = html.find(text); at != std::string::npos; at = html.find(text, at + 1)) ++n;
  return n;
}

TEST_CASE("a whole history: every section, both precisions, the same bytes again") {
  History history;
  const std::vector<std::string> labels = {"shirt", "bag", "boot"};
  const Version data = history.dataset("pixels"), f32 = history.trained(data, labels),
                int8 = history.quantized(f32, data, labels);
  history.evaluate(f32, data, labels, 93);
  history.evaluate(int8, data, labels, 92);
  const std::string html = html_report(*history.repository, "");
  for (const char* id : {"quantization", "training", "evaluation", "lineage", "environment", "reproduce"}) {
    CAPTURE(id);
    CHECK(has(html, fmt::format("<section id=\"{}\">", id)));
  }
  CHECK(has(html, "<h1>clf@v2</h1>"));
  CHECK(has(html, "93.00 %"));
  CHECK(has(html, "-1.00 points"));
  CHECK(has(html, "data/fashion@v1"));
  CHECK(has(html, "12.5 s"));
  CHECK(has(html, ">epoch<"));
  CHECK(times(html, "<circle class=\"dot valid\"") == 8);
  CHECK(has(html, "1. conv=8\n2. dense=4"));
  CHECK(has(html, "git checkout 0123abcd"));
  CHECK(has(html, "prefers-color-scheme:dark"));
  CHECK_FALSE(has(html, "http://"));
  CHECK_FALSE(has(html, "https://"));
  CHECK_FALSE(has(html, "<script"));
  CHECK(html == html_report(*history.repository, "clf@v2"));
  const std::string first = html_report(*history.repository, "clf@v1");
  CHECK(has(first, "<h1>clf@v1</h1>"));
  CHECK(has(first, "<section id=\"quantization\">"));
  CHECK(has(first, "<g class=\"node model subject\"><title>clf@v1</title>"));
  CHECK(times(first, " subject\">") == 1);
}

TEST_CASE("a training on ranks: a lane and a row for each, with what they did in every epoch") {
  History history;
  const Version data = history.dataset("pixels");
  const std::string run = history.start("train", "mlx train --ranks 2", {{"data", data.digest}});
  history.log(run);
  std::vector<registry::MetricPoint> points;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto add = [&](const char* what, double seconds) {
        points.push_back({100 * epoch, fmt::format("ranks/{}/{}", rank, what), seconds, 0});
      };
      add("computing", rank == 0 ? 4 : 8), add("reading", 0), add("waiting", rank == 0 ? 6 : 2);
    }
  }
  registry::log_metrics(*history.repository, run, points);
  const Version version = history.make(
      "clf", ArtifactKind::kModel, nn::store_model(history.repository->store(), history.model({"a", "b"}, "f32")), run);
  Json ranks = Json::array();
  for (const char* host : {"here", "<b>"})
    ranks.push_back({{"rank", ranks.size()},
                     {"host", host},
                     {"threads", 2},
                     {"steps", 400},
                     {"seconds", 40},
                     {"waiting", 8},
                     {"bytes_sent", 5000}});
  registry::end_run(*history.repository, run, registry::RunStatus::kDone, {{"model", version.digest}},
                    {{"seconds", 40}, {"steps", 400}, {"communication", {{"ranks", ranks}}}});
  const std::string html = html_report(*history.repository, "clf");
  CHECK(times(html, "<svg class=\"ranks\"") == 1);
  CHECK(has(html, "Ranks over time, rank 0 · here computes 40 %, rank 1 · &lt;b&gt; computes 80 %"));
  // Both communicate for 2 s of each epoch's 10; the first waits for the second.
  CHECK(times(html, "<rect class=\"computing\"") == 1 + 8);
  CHECK(times(html, "<rect class=\"communicating\"") == 1 + 8);
  CHECK(times(html, "<rect class=\"waiting\"") == 1 + 4);
  CHECK(times(html, "<rect class=\"reading\"") == 1);
  CHECK(has(html, "20.0 %"));
  CHECK(timeline_svg({}) == "");
  CHECK(timeline_svg({{"rank 0", {}}}) == "");
  const std::vector<RankLane> many(16, {"rank", std::vector<RankTimes>(5000, {1, 0, 0, 0})});
  CHECK(times(timeline_svg(many), "<rect class=\"computing\"") == 1 + 16 * 160);
}

TEST_CASE("a child, a parent or an evaluation that was never fetched is left out") {
  History history;
  const std::vector<std::string> labels = {"shirt", "bag", "boot"};
  const Version data = history.dataset("pixels"), f32 = history.trained(data, labels),
                int8 = history.quantized(f32, data, labels);
  history.evaluate(f32, data, labels, 93);
  store::ManifestSummary elsewhere;
  elsewhere.id = Digest::of("a child of another clone");
  elsewhere.files = 2;
  elsewhere.bytes = 1000;
  history.make("clf", ArtifactKind::kModel, elsewhere, {}, f32.digest);
  CHECK(has(html_report(*history.repository, f32.name()), int8.name() + " · int8"));
  elsewhere.id = Digest::of("a parent of another clone");
  const Version parent = history.make("other", ArtifactKind::kModel, elsewhere);
  history.make("small", ArtifactKind::kModel,
               nn::store_model(history.repository->store(), history.model({"a", "b"}, "int8")), {}, parent.digest);
  const std::string html = html_report(*history.repository, "small");
  CHECK(has(html, "<h1>small@v1</h1>"));
  CHECK_FALSE(has(html, "<section id=\"quantization\">"));
}

// `document` with every value of it, two levels deep, in turn gone and of each other type.
std::vector<Json> damaged(const Json& document) {
  const std::vector<Json> others = {nullptr, true, -7, 1e300, "x", Json::array(), Json::object(), Json::array({1})};
  std::vector<Json> all;
  const auto damage = [&](const std::string& key, const std::string& inside) {
    Json gone = document;
    (inside.empty() ? gone : gone[key]).erase(inside.empty() ? key : inside);
    all.push_back(gone);
    for (const Json& other : others) {
      Json copy = document;
      (inside.empty() ? copy[key] : copy[key][inside]) = other;
      all.push_back(copy);
    }
  };
  for (const auto& [key, value] : document.items()) {
    damage(key, "");
    if (value.is_object() && key != "graph" && key != "signature")
      for (const auto& [inside, unused] : value.items()) damage(key, inside);
  }
  return all;
}

// What `body` ends with, other than a success or an error that names damage; "" where nothing else.
std::string surprise(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind == ErrorKind::kCorrupt ? "" : error.message;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("bug: damaged models, evaluations and records of runs are damage and no mistake of ours") {
  History history;
  registry::Repository& repository = *history.repository;
  repository.db().run("PRAGMA synchronous = OFF");
  const std::vector<std::string> labels = {"shirt", "bag"};
  const Version data = history.dataset("pixels"), good = history.trained(data, labels);
  Json model = nn::load_model_json(repository.store(), good.digest);
  model["preprocessing"]["target"] = "class";
  int number = 0;
  for (const Json& one : damaged(model)) {
    const std::string name = fmt::format("m{}", number++), text = one.dump();
    CAPTURE(text);
    const auto batch = repository.store().begin();
    store::Entry entry;
    entry.path = "model.json";
    entry.size = text.size();
    entry.content = batch->add_blob(as_bytes(text));
    const store::ManifestSummary manifest = batch->add_manifest({entry});
    batch->commit();
    history.make(name, ArtifactKind::kModel, manifest);
    CHECK(surprise([&] { html_report(repository, name); }) == "");
  }
  history.evaluate(good, data, labels, 93);
  const Json evaluation = parse_json(
      as_text(repository.store().read_blob(registry::attachments(repository, good.digest, "evaluation").at(0).blob)),
      "");
  for (const Json& one : damaged(evaluation)) {
    const std::string text = one.dump();
    CAPTURE(text);
    registry::attach(repository, good.digest, "evaluation", "damaged", as_bytes(text));
    CHECK(surprise([&] { html_report(repository, "clf"); }) == "");
  }
}

TEST_CASE("names of columns end inside the picture") {
  const std::string svg = confusion_svg({"a", "b", "thirteen long"}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}});
  const auto number_after = [&](const std::string& text, std::size_t from) {
    const std::size_t at = svg.find(text, from);
    REQUIRE(at != std::string::npos);
    return std::stod(svg.substr(at + text.size()));
  };
  const double width = number_after("viewBox=\"0 0 ", 0), start = number_after("translate(", svg.rfind("translate("));
  CHECK(start + 13 * 7.2 * 0.7071 <= width);
}

TEST_CASE("what is missing is left out or said") {
  History history;
  CHECK_THROWS_AS(html_report(*history.repository, ""), Error);
  const Version data = history.dataset("pixels");
  CHECK_THROWS_AS(html_report(*history.repository, "data/fashion"), Error);
  history.make("clf", ArtifactKind::kModel,
               nn::store_model(history.repository->store(), history.model({"a", "b"}, "f32")));
  const std::string html = html_report(*history.repository, "clf");
  CHECK(has(html, "has not been measured yet"));
  for (const char* id : {"quantization", "training", "environment", "reproduce"})
    CHECK_FALSE(has(html, fmt::format("<section id=\"{}\">", id)));
  const Version f32 = history.trained(data, {"a", "b", "c"});
  const Version int8 = history.quantized(f32, data, {"a", "b", "c"});
  history.evaluate(f32, data, {"a", "b", "c"}, 90);
  CHECK(has(html_report(*history.repository, int8.name()), "Evaluate both"));
}

TEST_CASE("names are text, whatever they are") {
  History history;
  const std::vector<std::string> labels = {"<script>alert(1)</script>", "\"quoted\" & 'more'",
                                           "a name that is much too long for a cell, é"};
  const Version data = history.dataset("pixels"), f32 = history.trained(data, labels);
  history.evaluate(f32, data, labels, 70);
  const std::string html = html_report(*history.repository, "clf");
  CHECK_FALSE(has(html, "<script"));
  CHECK(has(html, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK(has(html, "&quot;quoted&quot; &amp; &#39;more&#39;"));
  CHECK(has(html, "Test &lt;CPU&gt;"));
  CHECK(has(html, "a &lt;b&gt;.toml"));
  CHECK(escape("a\x01\xff") == "a\uFFFD\uFFFD");
}

TEST_CASE("ticks are round and cover the range") {
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(0, 1, 4).size() == 3);
  CHECK(ticks(5, 5, 4).size() == 1);
  CHECK(ticks(0, std::nan(""), 4).size() == 1);
  for (const double high : {1e-9, 0.37, 3.1, 99.0, 1e12}) CHECK(ticks(0, high, 6).size() >= 3);
}

TEST_CASE("figures as people write them") {
  CHECK(count(1234567) == "1,234,567");
  CHECK(count(-1000) == "-1,000");
  CHECK(count(999) == "999");
  CHECK(bytes(999) == "999 B");
  CHECK(bytes(1'234'567) == "1.23 MB");
  CHECK(percent(0.92714) == "92.71 %");
}

TEST_CASE("charts of nothing, of one point and of many") {
  LineChart chart{"Loss", "step", false, {{"train", "train", {}, {}}}};
  CHECK(has(to_svg(chart), "<svg"));
  chart.series[0].points = {{1, 0.5}};
  CHECK_FALSE(has(to_svg(chart), "nan"));
  std::vector<std::pair<double, double>> many;
  for (int i = 0; i < 10000; ++i) many.emplace_back(i, i);
  CHECK(thinned(many, 100).size() == 100);
  CHECK(thinned(many, 100).back().first == 9999);
  CHECK(thinned(many, 20000).size() == 10000);
}

}  // namespace
}  // namespace mlx::report
