// What a model is asked while it is served, in the cells of its reference.
#include <chrono>

#include "http.h"
#include "infer/session.h"
#include "monitor/live.h"
#include "monitor/observe.h"
#include "serve/metrics.h"

namespace mlx::serve::test {
namespace {

struct Fed {
  std::vector<float> examples, logits;
};

data::Rows houses(const infer::Model& model, int first, int count) {
  std::string lines;
  for (int i = first; i < first + count; ++i)
    lines += fmt::format("{{\"rooms\":{},\"city\":\"{}\"}}\n", 0.1 * (i * 37 % 90),
                         i % 3 == 0   ? "Bonn"
                         : i % 7 == 0 ? "Oslo"
                                      : "Rome");
  NoProgress silent;
  return data::read_rows({data::memory_source(lines), data::TableKind::kJsonLines, "rows.jsonl"},
                         *model.about().preprocessing.rows, false, silent);
}

Fed fed(const infer::Model& model, const data::Rows& rows) {
  infer::Session session(model, {.max_batch = 256});
  const std::int64_t size = model.signature().example;
  for (std::int64_t i = 0; i < rows.count; ++i) data::write_features(rows[i], rows.schema, session.input() + i * size);
  Fed out;
  out.examples.assign(session.input(), session.input() + rows.count * size);
  const infer::Logits logits = session.run(rows.count);
  out.logits.assign(logits.values, logits.values + logits.rows * logits.width);
  return out;
}

constexpr std::uint64_t kWindow = 180;

void wait_for(const monitor::Live& live, std::uint64_t items) {
  const auto judged = [&] { return live.state().items >= items && live.state().windows >= items / kWindow; };
  for (int i = 0; i < 4000 && !judged(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

TEST_CASE("drift: what a network is fed falls into the cells of what was read") {
  Pool pool(1);
  const ModelSpec spec = Running::spec_of("price", row_model(), pool);
  const infer::Model& model = *spec.model;
  NoProgress silent;
  monitor::Recorder recorder(monitor::columns_of(model));
  monitor::observe_rows(model, houses(model, 0, 250), {}, recorder, silent);
  const std::vector<monitor::ColumnReference> reference = recorder.finish(), cells = monitor::as_fed(model, reference);

  const data::Rows later = houses(model, 40, 200);
  monitor::Window read(reference), served(cells);
  monitor::observe_rows(model, later, {}, read, silent);
  const Fed all = fed(model, later);
  monitor::observe_fed(model, all.examples.data(), {all.logits.data(), 200, model.signature().width()}, served);
  REQUIRE(reference.size() == 4);  // rooms, city, and what the model says of price and rent
  for (std::size_t i = 0; i < reference.size(); ++i) {
    CAPTURE(reference[i].column.name);
    CHECK(cells[i].seen() == 250);
    CHECK(read.counts(i).size() == served.counts(i).size());
    CHECK((read.counts(i) == served.counts(i)));
  }
}

TEST_CASE("drift: a missing number is the mean, a missing category one that the model does not know") {
  Pool pool(1);
  const ModelSpec spec = Running::spec_of("price", row_model(), pool);
  const data::Column& column = spec.model->about().preprocessing.rows->features[0];
  monitor::ColumnReference rooms;
  rooms.column = {column.name};
  rooms.points = {column.mean - 1, column.mean + 1, column.mean + 2}, rooms.counts = {0, 5, 6, 0}, rooms.missing = 4;
  monitor::ColumnReference city;
  city.column = {"city", false};
  city.values = {"Bonn"}, city.counts = {3, 1}, city.missing = 2;
  const std::vector<monitor::ColumnReference> cells = monitor::as_fed(*spec.model, {rooms, city});
  CHECK((cells[0].counts == std::vector<std::uint64_t>{0, 9, 6, 0}));
  CHECK(cells[0].missing == 0);
  CHECK((cells[1].counts == std::vector<std::uint64_t>{3, 3}));
}

TEST_CASE("drift: a server's examples are judged in windows, across requests") {
  Pool pool(1);
  const ModelSpec spec = Running::spec_of("price", row_model(), pool);
  const infer::Model& model = *spec.model;
  NoProgress silent;
  monitor::Recorder recorder(monitor::columns_of(model));
  for (int i = 0; i < 4; ++i) monitor::observe_rows(model, houses(model, 0, 250), {}, recorder, silent);
  const monitor::Reference reference{"houses", "test", recorder.finish()};
  monitor::Live live(spec.model, reference, kWindow, {});
  CHECK(live.state().columns.empty());
  const Fed same = fed(model, houses(model, 0, 250));
  for (int i = 0; i < 3; ++i) live.answered(same.examples, same.logits);
  wait_for(live, 750);
  monitor::Live::State state = live.state();
  CHECK(state.items == 750);
  CHECK(state.windows == 4);
  CHECK(state.dropped == 0);
  CHECK(state.drifted.empty());
  REQUIRE(state.columns.size() == 4);
  Fed moved = same;
  for (std::size_t i = 0; i < moved.examples.size(); i += static_cast<std::size_t>(model.signature().example))
    moved.examples[i] += 3;
  for (int i = 0; i < 2; ++i) live.answered(moved.examples, moved.logits);
  wait_for(live, 1250);
  state = live.state();
  CHECK(state.drifted == std::vector<std::string>{"rooms"});

  const Metrics metrics;
  ModelSample sample{"price", "2", "sha256:00", "f32", 0, {}, state};
  const std::string text = metrics.text({sample, {"other", "1", "", "f32", 0, {}}}, 0);
  CHECK(text.find("mlx_drift{model=\"price\",feature=\"rooms\"} 1\n") != text.npos);
  CHECK(text.find("mlx_drift{model=\"price\",feature=\"city\"} 0\n") != text.npos);
  CHECK(text.find("mlx_drift_examples_total{model=\"price\"} 1250\n") != text.npos);
  CHECK(text.find("mlx_drift_established_windows_total{model=\"price\"} 1\n") != text.npos);
  CHECK(text.find("mlx_drift_psi{model=\"other\"") == text.npos);
  // bug: drift that had passed when it was asked for was not told.
  for (int i = 0; i < 3; ++i) live.answered(same.examples, same.logits);
  wait_for(live, 2000);
  CHECK(live.state().drifted.empty());
  CHECK(live.take_news() == std::vector<std::string>{"rooms"});
  CHECK(live.take_news().empty());
  CHECK(metrics.text({{"other", "1", "", "f32", 0, {}}}, 0).find("mlx_drift") == std::string::npos);
}

TEST_CASE("drift: what nobody has time for is dropped and counted; ending does not wait for it") {
  Pool pool(1);
  const ModelSpec spec = Running::spec_of("price", row_model(), pool);
  NoProgress silent;
  monitor::Recorder recorder(monitor::columns_of(*spec.model));
  monitor::observe_rows(*spec.model, houses(*spec.model, 0, 200), {}, recorder, silent);
  monitor::Live live(spec.model, {"houses", "test", recorder.finish()}, 1000, {});
  const auto rows = std::size_t{1} << 22;
  const std::size_t size = static_cast<std::size_t>(spec.model->signature().example);
  const std::size_t width = static_cast<std::size_t>(spec.model->signature().width());
  for (int i = 0; i < 3; ++i) live.answered(std::vector<float>(rows * size), std::vector<float>(rows * width));
  CHECK(live.state().dropped > 0);
  CHECK(live.state().dropped % rows == 0);
}

}  // namespace mlx::serve::test
