// Ranks whose messages take the time of a slow network: each arrives a latency after the last byte has left its rank,
// which sends one message after another. What is waited for is real time.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <thread>

#include "base/clock.h"
#include "dist/communicator.h"
#include "dist/traffic.h"

namespace mlx::dist {

class PacedRank final : public Communicator {
 public:
  PacedRank(Communicator& inner, Link link) : inner_(inner), link_(link) {}

  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  std::string name() const override { return inner_.name(); }

  // The time of arrival goes ahead of the message.
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    free_ = std::max(free_, seconds_now()) + static_cast<double>(bytes) / link_.bytes_per_second;
    Paced& paced = under_way_[++last_];
    paced.arrival = free_ + link_.latency;
    paced.parts = {inner_.send(to, tag, &paced.arrival, sizeof paced.arrival), inner_.send(to, tag, data, bytes)};
    paced.sends = true;
    return {last_};
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    Paced& paced = under_way_[++last_];
    paced.parts = {inner_.receive(from, tag, &paced.arrival, sizeof paced.arrival),
                   inner_.receive(from, tag, data, bytes)};
    return {last_};
  }
  void wait(std::span<Transfer> transfers) override {
    while (!advance(transfers)) continue;
  }
  bool advance(std::span<Transfer> transfers) override {
    const bool all = poll(transfers);
    if (!all) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return all;
  }
  bool poll(std::span<Transfer> transfers) override {
    bool all = true;
    for (Transfer& transfer : transfers) {
      if (transfer.id == 0) continue;
      Paced& paced = under_way_.at(transfer.id);
      if (inner_.poll(paced.parts) && (paced.sends || seconds_now() >= paced.arrival)) {
        under_way_.erase(transfer.id);
        transfer.id = 0;
      } else {
        all = false;
      }
    }
    return all;
  }

 private:
  struct Paced {
    std::array<Transfer, 2> parts;
    double arrival = 0;
    bool sends = false;
  };
  Communicator& inner_;
  Link link_;
  double free_ = 0;  // when the link is
  std::int64_t last_ = 0;
  std::map<std::int64_t, Paced> under_way_;
};

}  // namespace mlx::dist
