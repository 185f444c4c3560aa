// Runs: metrics live and sealed, checkpoints, resuming, lineage.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "registry/maintenance/rebuild.h"
#include "registry/operations/metric_series.h"
#include "registry/versions/lineage.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

std::vector<MetricPoint> some_points(std::int64_t from, std::int64_t to) {
  std::vector<MetricPoint> points;
  for (std::int64_t step = from; step <= to; ++step) {
    points.push_back({step, "train/loss", 1.0 / static_cast<double>(step), 1700000000000000 + step * 1000});
    if (step % 5 == 0)
      points.push_back({step, "valid/accuracy", 0.5 + static_cast<double>(step) / 1000, 1700000000000000 + step});
  }
  return points;
}

Json figures() {
  Json summary;
  summary["accuracy"] = 0.925;
  return summary;
}

}  // namespace

TEST_CASE("a run from start to end") {
  Clone c;
  const Version data = make(c.repo(), "data/fashion", "images", ArtifactKind::kDataset);
  RunStart start = run_start("train", "key");
  start.inputs = {{"data", data.digest}};
  const std::string id = start_run(c.repo(), start);
  CHECK(id.size() == 16);
  Run run = read_run(c.repo(), id);
  CHECK(run.status == RunStatus::kRunning);
  CHECK(run.title == "mlx train");
  CHECK(run.params == start.params);
  CHECK(run.inputs == start.inputs);
  CHECK(run.ended == 0);
  CHECK_FALSE(find_done_run(c.repo(), start.key));

  log_metrics(c.repo(), id, some_points(1, 20));
  CHECK(metrics(c.repo(), id, "valid/accuracy").size() == 4);
  CHECK(metrics(c.repo(), id, "train/loss").size() == 20);
  const Version model = make(c.repo(), "clf", "weights");
  end_run(c.repo(), id, RunStatus::kDone, {{"model", model.digest}}, figures());
  run = read_run(c.repo(), "run:" + id.substr(0, 6));
  CHECK(run.status == RunStatus::kDone);
  CHECK(run.summary == R"({"accuracy":0.925})");
  CHECK(run.outputs.at(0).version == model.digest);
  CHECK(run.ended >= run.started);
  CHECK(find_done_run(c.repo(), start.key)->id == id);
  CHECK_FALSE(find_done_run(c.repo(), Digest::of("another")));
  CHECK(metrics(c.repo(), id).size() == 24);
}

TEST_CASE("an ended run takes no more metrics, and ids must name one run") {
  Clone c;
  const std::string id = start_run(c.repo(), run_start("train", "key"));
  end_run(c.repo(), id, RunStatus::kFailed, {}, Json::object(), "no memory");
  CHECK(read_run(c.repo(), id).error == "no memory");
  CHECK(fails_with(ErrorKind::kConflict, "has ended (failed)", [&] { log_metrics(c.repo(), id, some_points(1, 1)); }) ==
        "");
  CHECK(fails_with(ErrorKind::kConflict, "has ended",
                   [&] { end_run(c.repo(), id, RunStatus::kDone, {}, Json::object()); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "killed",
                   [&] { end_run(c.repo(), id, RunStatus::kKilled, {}, Json::object()); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "at least 4", [&] { read_run(c.repo(), id.substr(0, 3)); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "mlx log --runs", [&] { read_run(c.repo(), "0000000000000000"); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "at least 4", [&] { read_run(c.repo(), "%%%%%"); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "no run", [&] { log_metrics(c.repo(), "0000000000000000", {}); }) == "");
}

TEST_CASE("what ranks said is kept with an ended run, and a later process adds to it") {
  Clone c;
  const std::string id = start_run(c.repo(), run_start("train", "key"));
  CHECK(logs(c.repo(), id).empty());
  end_run(c.repo(), id, RunStatus::kFailed, {}, Json::object(), "lost");
  add_logs(c.repo(), id, {{"rank 0 on a", "one\n"}, {"rank 1 on b", "two\n"}});
  add_logs(c.repo(), id, {});
  add_logs(c.repo(), id, {{"rank 0 on a", "three\n"}});
  const auto text = [&] {
    std::string out;
    for (const RankLog& log : logs(c.repo(), id)) out += log.role + ": " + log.text;
    return out;
  };
  const std::string all = "rank 0 on a: one\nrank 1 on b: two\nrank 0 on a: three\n";
  CHECK(text() == all);
  CHECK(read_run(c.repo(), id).status == RunStatus::kFailed);
  NoProgress quiet;
  rebuild_database(c.root, *c.disk, c.pool, quiet);
  CHECK(text() == all);
  CHECK(logs(c.repo(), "0000000000000000").empty());
}

TEST_CASE("the last two checkpoints and the best are kept; a done run needs none") {
  Clone c;
  const std::string id = start_run(c.repo(), run_start("train", "key"));
  const auto steps = [&] {
    std::string out;
    for (const Checkpoint& k : checkpoints(c.repo(), id)) out += fmt::format("{}{} ", k.step, k.best ? "*" : "");
    return out;
  };
  for (int step = 1; step <= 6; ++step) {
    record_checkpoint(
        c.repo(),
        {.run = id, .step = step * 10, .manifest = Digest::of(std::to_string(step)), .best = step == 2 || step == 3});
  }
  CHECK(steps() == "30* 50 60 ");
  resume_run(c.repo(), id, 50);
  CHECK(steps() == "30* 50 ");
  record_checkpoint(c.repo(), {.run = id, .step = 60, .manifest = Digest::of("again"), .best = true});
  CHECK(steps() == "50 60* ");
  end_run(c.repo(), id, RunStatus::kDone, {}, Json::object());
  CHECK(steps() == "");
  CHECK(fails_with(ErrorKind::kConflict, "is done", [&] { resume_run(c.repo(), id, 50); }) == "");
}

TEST_CASE("a resumed run writes its metrics again from its last step") {
  Clone c;
  const std::string id = start_run(c.repo(), run_start("train", "key"));
  log_metrics(c.repo(), id, some_points(1, 30));
  end_run(c.repo(), id, RunStatus::kInterrupted, {}, Json::object());
  resume_run(c.repo(), id, 20);
  CHECK(read_run(c.repo(), id).status == RunStatus::kRunning);
  CHECK(metrics(c.repo(), id, "train/loss").size() == 20);
  log_metrics(c.repo(), id, some_points(21, 30));
  end_run(c.repo(), id, RunStatus::kDone, {}, figures());
  const std::string before = dump(c.repo());
  NoProgress quiet;
  rebuild_database(c.root, *c.disk, c.pool, quiet);
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("sealed series read back bit for bit") {
  std::vector<MetricPoint> points = {
      {-5, "a", -0.0, 0}, {0, "a", std::numeric_limits<double>::infinity(), -7}, {7, "a", 5e-324, 1}};
  points.push_back(
      {std::numeric_limits<std::int64_t>::min(), "ü", std::nan(""), std::numeric_limits<std::int64_t>::max()});
  points.push_back({std::numeric_limits<std::int64_t>::max(), "ü", 1.5, std::numeric_limits<std::int64_t>::min()});
  const std::vector<MetricPoint> back = decode_series(encode_series(points), "series");
  REQUIRE(back.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(back[i].step == points[i].step);
    CHECK(back[i].name == points[i].name);
    CHECK(back[i].time == points[i].time);
    CHECK((std::isnan(points[i].value)
               ? std::isnan(back[i].value)
               : std::signbit(back[i].value) == std::signbit(points[i].value) && back[i].value == points[i].value));
  }
}

TEST_CASE("damaged series are corrupt or harmless") {
  Bytes good = encode_series({{1, "train/loss", 0.5, 1}, {2, "train/loss", 0.25, 2}, {1, "valid/loss", 0.5, 1}});
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(fails_with(ErrorKind::kCorrupt, "series", [&] { decode_series(ByteView(good).first(size), "series"); }) ==
          "");
  }
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    Bytes bytes = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      decode_series(bytes, "series");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
    }
  }
}

TEST_CASE("NaN as a value survives the database") {
  Clone c;
  const std::string id = start_run(c.repo(), run_start("train", "key"));
  log_metrics(c.repo(), id, {{1, "loss", std::nan(""), 1}});
  CHECK(std::isnan(metrics(c.repo(), id).at(0).value));
}

TEST_CASE("lineage goes through runs and parents, both ways") {
  Clone c;
  const Version data1 = make(c.repo(), "data/fashion", "images", ArtifactKind::kDataset);
  NewVersion next = new_version(c.repo(), "data/fashion", "more images", ArtifactKind::kDataset);
  next.parent = data1.digest;
  const Version data2 = create_version(c.repo(), next).version;
  const auto run = [&](const std::string& command, const std::vector<std::pair<std::string, Digest>>& inputs,
                       const std::vector<RunOutput>& outputs) {
    RunStart start = run_start(command, command);
    start.inputs = inputs;
    const std::string id = start_run(c.repo(), start);
    end_run(c.repo(), id, RunStatus::kDone, outputs, Json::object());
    return id;
  };
  const Version f32 = make(c.repo(), "clf", "f32");
  const std::string train = run("train", {{"data", data2.digest}}, {{"model", f32.digest}});
  NewVersion quantized = new_version(c.repo(), "clf", "int8");
  quantized.parent = f32.digest;
  const Version int8 = create_version(c.repo(), quantized).version;
  const std::string quantize =
      run("quantize", {{"model", f32.digest}, {"calibrate", data2.digest}}, {{"model", int8.digest}});
  const std::string eval = run("eval", {{"model", int8.digest}, {"data", Digest::of("somewhere else")}}, {});

  const auto edges = [&](const Version& version) {
    const Lineage found = lineage(c.repo(), version);
    CHECK(found.nodes.at(0).digest == version.digest);
    std::vector<std::string> out;
    for (const auto& [from, to] : found.edges) {
      out.push_back(found.nodes.at(static_cast<std::size_t>(from)).label + " > " +
                    found.nodes.at(static_cast<std::size_t>(to)).label);
    }
    std::ranges::sort(out);
    return join(out);
  };
  const auto sorted = [](std::vector<std::string> lines) {
    std::ranges::sort(lines);
    return join(lines);
  };
  const std::string r1 = "run:" + train, r2 = "run:" + quantize, r3 = "run:" + eval;
  const std::string above_int8[] = {
      "data/fashion@v1 > data/fashion@v2", "data/fashion@v2 > " + r1, r1 + " > clf@v1", "clf@v1 > " + r2,
      "data/fashion@v2 > " + r2,           r2 + " > clf@v2"};
  CHECK(edges(int8) == sorted({above_int8[0], above_int8[1], above_int8[2], above_int8[3], above_int8[4], above_int8[5],
                               "clf@v2 > " + r3}));
  CHECK(edges(data1) == sorted({above_int8[0], above_int8[1], above_int8[2], above_int8[3], above_int8[4],
                                above_int8[5], "clf@v2 > " + r3}));
  CHECK(lineage(c.repo(), f32).nodes.at(0).label == "clf@v1");
}
