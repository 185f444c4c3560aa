// Two ranks, or any with little to sum, send all they have to each other, which takes one exchange. Else each rank sums
// a chunk and sends the sum to the others, which is two exchanges of fewer bytes (Rabenseifner 2004).
#include "dist/all_reduce.h"

#include <algorithm>

namespace mlx::dist {
namespace {

constexpr int kSumTag = 0;
constexpr std::int64_t kFew = 4096;  // elements

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

}  // namespace

std::int64_t AllReduce::sum(std::span<float> data) {
  if (ranks_.ranks() == 1) return 0;
  std::int64_t sent = 0;
  const auto count = static_cast<std::int64_t>(data.size());
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t size = std::min(kPiece, count - begin);
    const std::span<float> piece = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    sent += ranks_.ranks() == 2 || size <= kFew ? sum_directly(piece) : sum_by_chunks(piece);
  }
  return sent;
}

// `received_` has as many elements of each other rank.
void AllReduce::add_in_order(std::span<float> own) {
  const auto others = static_cast<std::size_t>(ranks_.ranks() - 1), before = static_cast<std::size_t>(ranks_.rank());
  const std::size_t count = own.size();
  const float* const terms = received_.data();
  for (std::size_t i = 0; i < count; ++i) {
    float sum = before == 0 ? own[i] : terms[i];
    for (std::size_t k = 1; k < before; ++k) sum += terms[k * count + i];
    if (before > 0) sum += own[i];
    for (std::size_t k = before; k < others; ++k) sum += terms[k * count + i];
    own[i] = sum;
  }
}

std::int64_t AllReduce::sum_directly(std::span<float> data) {
  const int own = ranks_.rank(), ranks = ranks_.ranks();
  received_.resize(data.size() * static_cast<std::size_t>(ranks - 1));
  std::vector<Communicator::Transfer> transfers;
  float* to = received_.data();
  for (int other = 0; other < ranks; ++other) {
    if (other == own) continue;
    transfers.push_back(ranks_.receive(other, kSumTag, to, data.size_bytes()));
    to += data.size();
  }
  for (int other = 0; other < ranks; ++other)
    if (other != own) transfers.push_back(ranks_.send(other, kSumTag, data.data(), data.size_bytes()));
  ranks_.wait(transfers);
  add_in_order(data);
  return static_cast<std::int64_t>(data.size_bytes()) * (ranks - 1);
}

std::int64_t AllReduce::sum_by_chunks(std::span<float> data) {
  const int own = ranks_.rank(), ranks = ranks_.ranks();
  const auto count = static_cast<std::int64_t>(data.size());
  const auto begin = [&](int rank) { return rank * count / ranks; };
  const auto size = [&](int rank) { return begin(rank + 1) - begin(rank); };
  const std::span<float> mine = data.subspan(static_cast<std::size_t>(begin(own)), static_cast<std::size_t>(size(own)));
  received_.resize(mine.size() * static_cast<std::size_t>(ranks - 1));
  std::vector<Communicator::Transfer> transfers;
  float* to = received_.data();
  for (int other = 0; other < ranks; ++other) {
    if (other == own) continue;
    transfers.push_back(ranks_.receive(other, kSumTag, to, mine.size_bytes()));
    to += mine.size();
  }
  for (int other = 0; other < ranks; ++other)
    if (other != own)
      transfers.push_back(ranks_.send(other, kSumTag, data.data() + begin(other), float_bytes(size(other))));
  ranks_.wait(transfers);
  add_in_order(mine);
  transfers.clear();
  for (int other = 0; other < ranks; ++other) {
    if (other == own) continue;
    transfers.push_back(ranks_.receive(other, kSumTag, data.data() + begin(other), float_bytes(size(other))));
    transfers.push_back(ranks_.send(other, kSumTag, mine.data(), mine.size_bytes()));
  }
  ranks_.wait(transfers);
  return static_cast<std::int64_t>(float_bytes(count - size(own) + (ranks - 1) * size(own)));
}

}  // namespace mlx::dist
