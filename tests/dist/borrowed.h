// A communicator that passes everything on to another, which outlives it: to be changed by tests, and owned by what
// wraps it.
#pragma once

#include "dist/communicator.h"

namespace mlx::dist {

class Borrowed : public Communicator {
 public:
  explicit Borrowed(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int ranks() const override { return ranks_.ranks(); }
  std::string name() const override { return ranks_.name(); }
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    return ranks_.send(to, tag, data, bytes);
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    return ranks_.receive(from, tag, data, bytes);
  }
  void wait(std::span<Transfer> transfers) override { ranks_.wait(transfers); }
  bool advance(std::span<Transfer> transfers) override { return ranks_.advance(transfers); }
  bool poll(std::span<Transfer> transfers) override { return ranks_.poll(transfers); }

 private:
  Communicator& ranks_;
};

}  // namespace mlx::dist
