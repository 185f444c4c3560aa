// Tests of two samples against values of scipy 1.x, references, and streams with a known change point.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "draws.h"
#include "monitor/drift.h"
#include "monitor/two_samples.h"

namespace mlx::monitor {
namespace {

using Counts = std::vector<std::uint64_t>;

const std::vector<Column> kColumns = {{"age"}, {"city", false}, {"prediction", false, true}};

using mlx::monitor::test::Draws;

template <typename To>
void add_items(To& to, Draws& draws, int count, double shift, double bonn = 0.5) {
  for (int i = 0; i < count; ++i) {
    to.add(0, 40 + 10 * (draws.normal() + shift));
    to.add(1, draws.uniform() < bonn ? "Bonn" : draws.uniform() < 0.5 ? "Ulm" : "Rome");
    to.add(2, draws.uniform() < 0.3 ? "yes" : "no");
    to.next();
  }
}

std::vector<ColumnReference> some_reference() {
  Recorder recorder(kColumns);
  Draws draws(1);
  add_items(recorder, draws, 20000, 0);
  return recorder.finish();
}

}  // namespace

TEST_CASE("monitor: tails of distributions agree with scipy") {
  // scipy.special.kolmogorov, scipy.stats.chi2.sf
  CHECK(kolmogorov_tail(0.3) == doctest::Approx(0.9999906941986655).epsilon(1e-9));
  CHECK(kolmogorov_tail(1.0) == doctest::Approx(0.26999967167735456).epsilon(1e-9));
  CHECK(kolmogorov_tail(2.0) == doctest::Approx(0.0006709252557796953).epsilon(1e-9));
  CHECK(kolmogorov_tail(0) == 1);
  CHECK(chi_square_tail(3.841458820694124, 1) == doctest::Approx(0.05).epsilon(1e-9));
  CHECK(chi_square_tail(18.307038053275146, 10) == doctest::Approx(0.05).epsilon(1e-9));
  CHECK(chi_square_tail(1, 10) == doctest::Approx(0.9998278843700441).epsilon(1e-9));
  CHECK(chi_square_tail(200, 10) == doctest::Approx(1.6139305336977304e-37).epsilon(1e-6));
  CHECK(chi_square_tail(1e6, 3) == 0);
  CHECK(chi_square_tail(0, 3) == 1);
}

TEST_CASE("monitor: chi-square of two rows pools rare cells") {
  // scipy.stats.chi2_contingency([[50, 30, 20], [40, 45, 15]], correction=False)
  const Test test = chi_square(Counts{50, 30, 20}, Counts{40, 45, 15});
  CHECK(test.statistic == doctest::Approx(4.8253968253968254).epsilon(1e-9));
  CHECK(test.p == doctest::Approx(0.08957326253887996).epsilon(1e-9));
  // Cells of 1 and 2 go together, and with the next one, as they can expect less than 5.
  const Test rare = chi_square(Counts{100, 100, 1, 1, 4}, Counts{100, 100, 0, 1, 4});
  const Test joined = chi_square(Counts{100, 100, 6}, Counts{100, 100, 5});
  CHECK(rare.statistic == doctest::Approx(joined.statistic));
  CHECK(rare.p == doctest::Approx(joined.p));
  CHECK(chi_square(Counts{5, 0}, Counts{9, 0}).p == 1);
  CHECK(chi_square(Counts{0, 0}, Counts{9, 3}).p == 1);
  CHECK(chi_square(Counts{2, 1}, Counts{1, 2}).p == 1);  // too few for any test
}

TEST_CASE("monitor: shares are compared exactly where few are expected") {
  // scipy.stats.fisher_exact([[0, 1000], [5, 95]]), [[3, 7], [6, 4]]
  CHECK(same_share(0, 1000, 5, 100).p == doctest::Approx(5.661015424159783e-06).epsilon(1e-7));
  CHECK(same_share(3, 10, 6, 10).p == doctest::Approx(0.3698499642772088).epsilon(1e-7));
  CHECK(same_share(7, 10, 4, 10).p == doctest::Approx(0.3698499642772088).epsilon(1e-7));
  // scipy.stats.chi2_contingency([[300, 700], [60, 40]], correction=False)
  CHECK(same_share(300, 1000, 60, 100).p == doctest::Approx(1.087026572535557e-09).epsilon(1e-7));
  CHECK(same_share(0, 100, 0, 100).p == doctest::Approx(1));
  CHECK(same_share(0, 0, 1, 3).p == 1);
  CHECK(same_share(0, 1'000'000'000, 300, 1000).p < 1e-12);  // soon
}

TEST_CASE("monitor: stability index, Kolmogorov and Smirnov, false discoveries") {
  CHECK(stability_index(Counts{50, 50}, Counts{50, 50}) == 0);
  CHECK(stability_index(Counts{50, 50}, Counts{80, 20}) == doctest::Approx(0.3 * std::log(1.6) - 0.3 * std::log(0.4)));
  CHECK(stability_index(Counts{100, 0}, Counts{0, 100}) > 18);  // finite
  CHECK(stability_index(Counts{0, 0}, Counts{3, 4}) == 0);
  const Test test = kolmogorov_smirnov(Counts{100, 100, 0}, Counts{50, 150, 0});
  CHECK(test.statistic == doctest::Approx(0.25));
  CHECK(test.p ==
        doctest::Approx(5.41e-6).epsilon(0.1));  // scipy.stats.ks_2samp(method="asymp"), which corrects otherwise
  CHECK(kolmogorov_smirnov(Counts{0, 0}, Counts{5, 5}).p == 1);
  // scipy.stats.false_discovery_control([0.01, 0.04, 0.03, 0.5])
  const std::vector<double> q = false_discovery_rates(std::vector<double>{0.01, 0.04, 0.03, 0.5});
  CHECK(q[0] == doctest::Approx(0.04));
  CHECK(q[1] == doctest::Approx(0.16 / 3));
  CHECK(q[2] == doctest::Approx(0.16 / 3));
  CHECK(q[3] == doctest::Approx(0.5));
  CHECK(false_discovery_rates({}).empty());
}

TEST_CASE("monitor: a reference keeps its bytes, and is read again") {
  const Reference reference{"data/houses@v1:train", "test", some_reference()};
  const std::string text = canonical(to_json(reference));
  CHECK(text == canonical(to_json(Reference{"data/houses@v1:train", "test", some_reference()})));
  CHECK(text.size() < 60000);
  CHECK(canonical(to_json(reference_from_json(parse_json(text, "it"), "it"))) == text);
  const ColumnReference& age = reference.columns[0];
  CHECK(age.points.size() <= ColumnReference::kMostPoints + 1);
  CHECK(age.seen() == 20000);
  CHECK(reference.columns[1].values.size() == 3);
  CHECK(reference.columns[1].values[0] == "Bonn");  // the most frequent first
}

TEST_CASE("monitor: a wrong reference is refused") {
  const Reference reference{"d", "", some_reference()};
  const Json good = to_json(reference);
  const auto refused = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    CHECK_THROWS_AS(reference_from_json(bad, "it"), Error);
  };
  refused("/schema", "mlx.monitor.reference/0");
  refused("/columns", 3);
  refused("/columns/0", 3);
  refused("/columns/0/prediction", "yes");
  refused("/columns/0/kind", "colour");
  refused("/columns/0/counts", Json::array({1, 2}));
  refused("/columns/0/counts/1", -4);
  refused("/columns/0/missing", 1.5);
  refused("/columns/0/points/1", "x");
  refused("/columns/0/points/1", 1e9);  // does not ascend
  refused("/columns/1/values/0", 1);
}

TEST_CASE("monitor: the same data is no drift, other data is") {
  const std::vector<ColumnReference> reference = some_reference();
  Window window(reference);
  Draws draws(7);
  add_items(window, draws, 1000, 0);
  Drift drift = compare(reference, window, {});
  CHECK(!drift.any());
  CHECK(drift.columns[0].judged);
  CHECK(drift.columns[0].psi < 0.05);
  CHECK(drift.columns[0].median_before == doctest::Approx(40).epsilon(0.02));

  window.clear();
  add_items(window, draws, 1000, 0.8, 0.2);
  window.add(1, "Oslo"), window.next();
  drift = compare(reference, window, {});
  CHECK(drift.columns[0].drift);
  CHECK(drift.columns[1].drift);
  CHECK(drift.columns[1].unknown == std::vector<std::string>{"Oslo"});
  CHECK(drift.columns[1].missing == 0);
  CHECK(drift.columns[0].missing == 1);
  CHECK(!drift.columns[2].drift);

  window.clear();
  add_items(window, draws, 99, 3);
  CHECK(!compare(reference, window, {}).any());  // too few to be judged
  CHECK(compare(reference, window, {.least_items = 50}).any());
}

TEST_CASE("monitor: values outside of what was seen, missing and odd ones") {
  Recorder recorder({{"same"}, {"none"}});
  for (int i = 0; i < 500; ++i) recorder.add(0, 5.0), recorder.next();
  const std::vector<ColumnReference> reference = recorder.finish();
  CHECK(reference[1].missing == 500);
  for (const double value : {9.0, 1.0}) {
    Window window(reference);
    for (int i = 0; i < 500; ++i) window.add(0, value), window.add(1, value), window.next();
    const Drift drift = compare(reference, window, {});
    CHECK(drift.columns[0].drift);
    CHECK(drift.columns[0].statistic == 1);
    CHECK(drift.columns[1].drift);  // it came to have values
  }
  Window window(reference);
  for (int i = 0; i < 500; ++i) {
    window.add(0, std::numeric_limits<double>::quiet_NaN()), window.add(0, std::numeric_limits<double>::infinity());
    window.next();
  }
  const Drift drift = compare(reference, window, {});
  CHECK(drift.columns[0].missing_after == 1);
  CHECK(drift.columns[0].drift);
  Window empty(reference);
  CHECK(!compare(reference, empty, {}).any());
}

TEST_CASE("monitor: only what lasts is drift") {
  const std::vector<ColumnReference> reference = some_reference();
  Persistence persistence(2);
  Draws draws(3);
  const auto see = [&](double shift, int count = 500) {
    Window window(reference);
    add_items(window, draws, count, shift);
    return persistence.see(compare(reference, window, {}));
  };
  CHECK(see(0).empty());
  CHECK(see(1).empty());
  CHECK(see(0).empty());  // a single one was not
  CHECK(see(1).empty());
  CHECK(see(0, 20).empty());  // could not be judged
  CHECK(see(1) == std::vector<std::string>{"age"});
  CHECK(see(1).empty());  // told once
  CHECK(persistence.drifted() == std::vector<std::string>{"age"});
  CHECK(see(0).empty());
  CHECK(persistence.drifted().empty());
}

}  // namespace mlx::monitor
