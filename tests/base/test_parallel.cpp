// The pool runs each slice once whatever the threads, from many callers at once, nested, and through exceptions.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/parallel.h"

using namespace mlx;

namespace {

// How often each slice ran; plain integers, so that TSan sees two threads in one slice or a result read too early.
std::vector<int> count_runs(Pool& pool, std::int64_t slices) {
  std::vector<int> runs(static_cast<std::size_t>(slices));
  pool.run(slices, [&](std::int64_t slice) { ++runs[static_cast<std::size_t>(slice)]; });
  return runs;
}

}  // namespace

TEST_CASE("every slice runs once, whatever the number of threads") {
  for (int threads : {1, 2, 3, 8}) {
    Pool pool(threads);
    CHECK_EQ(pool.threads(), threads);
    for (std::int64_t slices : {0, 1, 2, 7, 8, 1000}) {
      CHECK(count_runs(pool, slices) == std::vector<int>(static_cast<std::size_t>(slices), 1));
    }
  }
  CHECK_EQ(Pool().threads(), cores());
  CHECK(cores() >= 1);
}

TEST_CASE("short runs one after the other do not lose a worker or a slice") {
  Pool pool(4);
  std::int64_t sum = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<int> runs = count_runs(pool, 8);
    sum += std::accumulate(runs.begin(), runs.end(), 0);
  }
  CHECK_EQ(sum, 3000 * 8);
}

TEST_CASE("workers that have gone to sleep wake for the next run") {
  Pool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> inside = 0;
    std::atomic<bool> met = false;
    // Both slices wait for each other: only two threads at once get through.
    pool.run(2, [&](std::int64_t) {
      ++inside;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (inside == 2) met = true;
    });
    CHECK(met);
  }
}

TEST_CASE("a caller sleeps through a long slice and sees its result") {
  Pool pool(2);
  std::vector<int> out(2);
  pool.run(2, [&](std::int64_t slice) {
    if (slice == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    out[static_cast<std::size_t>(slice)] = 7;
  });
  CHECK(out == std::vector<int>{7, 7});
}

TEST_CASE("callers from several threads share the pool and all finish") {
  Pool pool(3);
  std::vector<int> wrong(4);
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < wrong.size(); ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 300; ++round) {
        const std::int64_t slices = 2 + static_cast<std::int64_t>(caller) * 5;
        wrong[caller] += count_runs(pool, slices) != std::vector<int>(static_cast<std::size_t>(slices), 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a caller makes progress while another's slices hold every worker") {
  Pool pool(2);
  std::atomic<int> held = 0;
  std::atomic<bool> release = false;
  std::thread holder([&] {
    pool.run(2, [&](std::int64_t) {
      ++held;
      while (!release) std::this_thread::yield();
    });
  });
  while (held < 2) std::this_thread::yield();
  CHECK(count_runs(pool, 10) == std::vector<int>(10, 1));
  release = true;
  holder.join();
}

TEST_CASE("a run inside a body is done inline, also on another pool") {
  Pool pool(3), other(2);
  std::atomic<int> total = 0, elsewhere = 0;
  pool.run(6, [&](std::int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    for (Pool* inner : {&pool, &other}) {
      inner->run(5, [&](std::int64_t) {
        ++total;
        elsewhere += std::this_thread::get_id() != here;
      });
    }
  });
  CHECK_EQ(total.load(), 60);
  CHECK_EQ(elsewhere.load(), 0);
}

TEST_CASE("the first exception comes back, later slices are left out, the pool goes on") {
  for (int threads : {1, 3}) {
    Pool pool(threads);
    std::atomic<int> ran = 0;
    CHECK_THROWS_WITH_AS(pool.run(100'000,
                                  [&](std::int64_t slice) {
                                    ++ran;
                                    if (slice == 3) throw std::runtime_error("slice 3");
                                  }),
                         "slice 3", std::runtime_error);
    CHECK(ran < 100'000);
    CHECK(count_runs(pool, 50) == std::vector<int>(50, 1));
    // The mark of being inside a body is gone after an exception too: two threads meet.
    CHECK_THROWS(pool.run(1, [](std::int64_t) { throw std::runtime_error("one"); }));
    CHECK(count_runs(pool, 50) == std::vector<int>(50, 1));
  }
}

TEST_CASE("pools come and go without a run") {
  for (int i = 0; i < 20; ++i) Pool pool(4);
}

TEST_CASE("background jobs run in order and wait() sees them done") {
  std::vector<int> order;
  Background background;
  for (int i = 0; i < 50; ++i) background.post([&order, i] { order.push_back(i); });
  background.wait();
  REQUIRE_EQ(order.size(), 50);
  for (int i = 0; i < 50; ++i) CHECK_EQ(order[static_cast<std::size_t>(i)], i);
  background.wait();  // nothing to wait for
}

TEST_CASE("a background exception comes out of wait() once, the jobs behind it run") {
  int ran = 0;
  Background background;
  background.post([] { throw std::runtime_error("first"); });
  background.post([] { throw std::runtime_error("second"); });
  background.post([&ran] { ++ran; });
  CHECK_THROWS_WITH_AS(background.wait(), "first", std::runtime_error);
  CHECK_EQ(ran, 1);
  background.wait();
}

TEST_CASE("check() throws what a job threw, and leaves it to wait()") {
  Background background;
  background.check();
  background.post([] { throw std::runtime_error("first"); });
  const auto throws = [&] {
    try {
      background.check();
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  };
  while (!throws()) std::this_thread::yield();
  CHECK_THROWS_WITH_AS(background.wait(), "first", std::runtime_error);
  background.check();
}

TEST_CASE("post() with a bound waits until fewer jobs wait") {
  std::atomic<int> ran = 0;
  std::atomic<bool> open = false;
  Background background;
  for (int i = 0; i < 3; ++i) {
    background.post([&] {
      while (!open) std::this_thread::yield();
      ++ran;
    });
  }
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    open = true;
  });
  background.post([&] { ++ran; }, 1);  // only once the three were taken
  CHECK_GE(ran.load(), 2);
  background.wait();
  CHECK_EQ(ran.load(), 4);
  opener.join();
}

TEST_CASE("the destructor of Background waits for its jobs") {
  int ran = 0;
  {
    Background background;
    for (int i = 0; i < 10; ++i) {
      background.post([&ran] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++ran;
      });
    }
    background.post([] { throw std::runtime_error("nobody asks"); });
  }
  CHECK_EQ(ran, 10);
}

TEST_CASE("every slice of work ahead runs once, beside runs that others wait for") {
  for (const int threads : {1, 2, 8}) {
    Pool pool(threads);
    Ahead ahead(pool);
    for (int round = 0; round < 300; ++round) {
      std::vector<int> runs(7);
      ahead.start(7, [&](std::int64_t slice) { ++runs[static_cast<std::size_t>(slice)]; });
      CHECK(count_runs(pool, 5) == std::vector<int>(5, 1));
      ahead.wait();
      CHECK(runs == std::vector<int>(7, 1));
    }
    ahead.wait();  // for nothing
  }
}

TEST_CASE("an idle worker does work ahead before anybody waits for it") {
  Pool pool(2);
  Ahead ahead(pool);
  std::atomic<int> done = 0;
  ahead.start(3, [&](std::int64_t) { ++done; });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (done < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK_EQ(done, 3);
  ahead.wait();
}

TEST_CASE("a run does not wait for work ahead: a worker leaves it after a slice") {
  Pool pool(2);
  Ahead ahead(pool);
  std::atomic<bool> begun = false, let = false;
  std::atomic<int> done = 0;
  ahead.start(2, [&](std::int64_t) {
    begun = true;
    while (!let) std::this_thread::yield();
    ++done;
  });
  while (!begun) std::this_thread::yield();
  CHECK(count_runs(pool, 4) == std::vector<int>(4, 1));
  CHECK_EQ(done, 0);
  let = true;
  ahead.wait();
  CHECK_EQ(done, 2);
}

TEST_CASE("work ahead passes its exception on, and stops where it is no longer needed") {
  for (const int threads : {1, 3}) {
    Pool pool(threads);
    Ahead ahead(pool);
    ahead.start(5, [](std::int64_t slice) {
      if (slice == 2) throw std::runtime_error("slice 2");
    });
    CHECK_THROWS_WITH_AS(ahead.wait(), "slice 2", std::runtime_error);
    ahead.start(1000, [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    ahead.stop();  // at most the slices that run now
    ahead.start(4, [](std::int64_t) {});
  }  // the destructor stops it
}
