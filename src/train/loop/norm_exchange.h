// The collective operations of batch norms that are synchronised over the ranks that share a batch
// (graph::synchronise_norms). In the backward pass gradients are under way over the same messages: then those who see
// to them exchange what a norm waits for too.
#pragma once

#include <cstdint>
#include <span>

#include "dist/gradient_sum.h"
#include "graph/session/collectives.h"

namespace mlx::train {

class NormExchange final : public graph::Collectives {
 public:
  explicit NormExchange(dist::Communicator& ranks) : ranks_(ranks) {}
  // Those that exchange the gradients of the steps to come; outlive this or the next call.
  void meet(dist::GradientSum& sums) { sums_ = &sums; }

  void all_reduce(std::span<float> data) override;  // no norm needs it
  void all_gather(ByteView own, std::span<std::uint8_t> all) override;

  std::int64_t bytes_sent() const { return bytes_sent_; }
  double seconds() const { return seconds_; }

 private:
  dist::Communicator& ranks_;
  dist::GradientSum* sums_ = nullptr;
  std::int64_t bytes_sent_ = 0;
  double seconds_ = 0;
};

}  // namespace mlx::train
