// When hosts that were lost are asked again.
#include <doctest/doctest.h>

#include "dist/returns.h"

using mlx::dist::Returns;

TEST_CASE("returns: a lost host is asked every ten seconds until it is taken back") {
  Returns returns;
  CHECK(returns.missing().empty());
  CHECK_FALSE(returns.asks("b", 0));
  returns.lose("b", 100);
  returns.lose("b", 105);  // still
  CHECK(returns.missing() == std::vector<std::string>{"b"});
  CHECK_FALSE(returns.asks("b", 109));
  CHECK(returns.asks("b", 110));
  CHECK_FALSE(returns.asks("b", 111));
  CHECK(returns.asks("b", 120));
  CHECK_FALSE(returns.asks("a", 120));
  returns.take_back("b", 165);
  returns.take_back("a", 165);  // was never lost
  CHECK(returns.missing().empty());
  CHECK_FALSE(returns.asks("b", 1000));
  CHECK(returns.suspects(170) == std::vector<std::string>{"b"});
  CHECK(returns.suspects(165 + Returns::kSoon).empty());
}

TEST_CASE("returns: a host that fails again soon is asked after ever longer pauses, up to an hour") {
  Returns returns(1);
  double now = 0, pause = 1;
  for (int failure = 0; failure < 20; ++failure) {
    CAPTURE(failure);
    returns.lose("b", now);
    CHECK_FALSE(returns.asks("b", now + pause - 0.5));
    now += pause;
    CHECK(returns.asks("b", now));
    CHECK_FALSE(returns.asks("b", now + pause - 0.5));
    returns.take_back("b", now);
    pause = std::min(2 * pause, Returns::kLongest);
  }
  CHECK(pause == Returns::kLongest);
  // One that has worked for long is asked soon again.
  now += Returns::kSoon;
  returns.lose("b", now);
  CHECK(returns.asks("b", now + 1));
}
