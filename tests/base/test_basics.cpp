// Errors, time and the log.
#include <doctest/doctest.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "throws.h"

using namespace mlx;

TEST_CASE("an errno becomes text, kind and hint") {
  const Error full = error_of([] { fail_errno(ENOSPC, "/x/y", "write"); });
  CHECK(full.kind == ErrorKind::kIo);
  CHECK_EQ(full.message, "/x/y: cannot write: No space left on device");
  CHECK_EQ(std::string(full.what()), full.message);
  CHECK(contains(full.hint, "free space"));
  CHECK(contains(error_of([] { fail_errno(EROFS, "p", "write"); }).hint, "read-only"));
  CHECK_EQ(error_of([] { fail_errno(EIO, "p", "read"); }).hint, "");
  CHECK_EQ(error_of([] { fail(ErrorKind::kUsage, "{}: {}", "a", 7); }).message, "a: 7");
}

TEST_CASE("times are told in UTC") {
  CHECK_EQ(iso_time(0), "1970-01-01T00:00:00Z");
  CHECK_EQ(iso_time(1769860800'000000), "2026-01-31T12:00:00Z");
  CHECK_EQ(iso_time(1769860800'999999), "2026-01-31T12:00:00Z");
  CHECK_EQ(iso_time(-1), "1969-12-31T23:59:59Z");
  CHECK_FALSE(iso_time(INT64_MAX).empty());
  CHECK(unix_micros() > 1'700'000'000'000'000);
  const double before = seconds_now();
  CHECK(seconds_now() >= before);
}

TEST_CASE("the log is silent until it has a sink, and lines come whole") {
  CHECK_FALSE(log_enabled());
  log("nobody {}", "hears");
  std::vector<std::string> lines;
  set_log_sink([&](const std::string& line) { lines.push_back(line); });
  CHECK(log_enabled());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log("thread {} line {}", t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  set_log_sink({});
  log("nor {}", "now");
  CHECK_EQ(lines.size(), 200);
}
