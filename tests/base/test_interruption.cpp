// The token by which one piece of work is interrupted.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "throws.h"

namespace mlx {
namespace {

TEST_CASE("an interruption ends the work at the next look") {
  Interruption interruption;
  interruption.check();
  CHECK(interruption.raise(SIGINT));
  CHECK_FALSE(interruption.raise(SIGTERM));  // again
  CHECK_EQ(interruption.signal(), SIGTERM);
  const Error error = error_of([&] { interruption.check(); });
  CHECK(error.kind == ErrorKind::kInterrupted);
  CHECK_EQ(error.message, "terminated");
  const NoProgress progress(interruption);
  CHECK(error_of([&] { progress.check_interrupted(); }).kind == ErrorKind::kInterrupted);
  NoProgress().check_interrupted();
}

TEST_CASE("of two works in one process the interrupted one ends and the other one goes on") {
  constexpr int kSteps = 1000;
  Interruption first, second;
  std::atomic<bool> interrupted = false;
  const auto work = [&](const Interruption& interruption, int& done) {
    for (; !interrupted; std::this_thread::yield()) interruption.check();
    for (; done < kSteps; ++done) interruption.check();
  };
  int done_by_first = 0, done_by_second = 0;
  ErrorKind ended_with = ErrorKind::kNo;
  std::thread one([&] {
    try {
      work(first, done_by_first);
    } catch (const Error& error) {
      ended_with = error.kind;
    }
  });
  std::thread two([&] { work(second, done_by_second); });
  first.raise(SIGINT);
  interrupted = true;
  one.join();
  two.join();
  CHECK(ended_with == ErrorKind::kInterrupted);
  CHECK_EQ(done_by_first, 0);
  CHECK_EQ(done_by_second, kSteps);
}

TEST_CASE("a deferred interruption comes back, and another one meanwhile ends the work") {
  Interruption interruption;
  { const Interruption::Deferred nothing(interruption); }
  interruption.check();
  interruption.raise(SIGINT);
  {
    const Interruption::Deferred deferred(interruption);
    interruption.check();
    CHECK(interruption.raise(SIGTERM));
    CHECK_EQ(error_of([&] { interruption.check(); }).message, "terminated");
  }
  CHECK_EQ(interruption.signal(), SIGINT);
  CHECK_EQ(error_of([&] { interruption.check(); }).message, "interrupted");
}

}  // namespace
}  // namespace mlx
