// When a release is taken back: enough answers beyond a bound, counted from where the version began.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cmd/release_guard.h"

namespace mlx::cmd {
namespace {

void answer(serve::ModelCounts& counts, int times, double seconds) {
  for (int i = 0; i < times; ++i) counts.latency.add(seconds);
}

TEST_CASE("release guard: ten errors, and more than their share") {
  ReleaseGuard guard(parse_release_bounds("errors=1%"));
  serve::ModelCounts counts;
  counts.failed = 500;  // of the version before
  CHECK_FALSE(guard.broken(counts));
  guard.begin(counts);
  counts.failed += 9;
  CHECK_FALSE(guard.broken(counts));
  counts.failed += 1;
  CHECK(guard.broken(counts).value() == "10 of 10 answers were errors (100.00 %), errors=1% allowed");
  answer(counts, 990, 0.001);
  CHECK_FALSE(guard.broken(counts));  // one in a hundred
  counts.failed += 1;
  CHECK(guard.broken(counts));
  guard.end();
  CHECK_FALSE(guard.broken(counts));
}

TEST_CASE("release guard: slow answers, and many good ones do not hide them") {
  ReleaseGuard guard(parse_release_bounds("errors=50%,p99=50ms,p50=2s"));
  serve::ModelCounts counts;
  guard.begin(counts);
  answer(counts, 1000, 0.04);
  CHECK_FALSE(guard.broken(counts));
  answer(counts, 9, 0.07);
  CHECK_FALSE(guard.broken(counts));
  answer(counts, 10'000, 0.04);
  CHECK_FALSE(guard.broken(counts));  // counts begin anew
  answer(counts, 100, 0.04);
  answer(counts, 10, 0.07);
  CHECK(guard.broken(counts).value().starts_with("10 of 110 answers took more than 50 ms (9.09 %), p99=50ms"));
}

TEST_CASE("release guard: bounds that are none are refused") {
  CHECK(parse_release_bounds("").empty());
  CHECK(parse_release_bounds("errors=0%,p99.9=1.5s").size() == 2);
  for (const char* const wrong : {",", "errors", "errors=", "errors=5", "errors=-1%", "errors=nan%", "p=1s", "p100=1s",
                                  "p99=0s", "p99=1m", "x=1%", "errors=1% ", "errors=1%,,p50=1s"})
    CHECK_THROWS_AS(parse_release_bounds(wrong), Error);
}

}  // namespace
}  // namespace mlx::cmd
