// Feeds a GPU, now and ahead (feeding.h).

#include "graph/session/feeding.h"

#include <cstring>

#include "base/error.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kFeedAlignment = 256;  // for each input, as for separate memory

constexpr std::size_t feed_aligned(std::size_t bytes) {
  return (bytes + kFeedAlignment - 1) / kFeedAlignment * kFeedAlignment;
}

constexpr std::size_t kKeyBytes = feed_aligned(sizeof(kernels::RandomKey));

}  // namespace

std::size_t feeding_bytes(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  std::size_t bytes = kKeyBytes;
  for (const ValueId id : graph.inputs) bytes += feed_aligned(concrete(graph.value(id), sizes).bytes());
  return bytes;
}

Feeding::Feeding(const kernels::Device& device, std::size_t values)
    : device_(device),
      offset_(values, 0),
      bytes_(values, 0),
      size_(kKeyBytes),
      sent_{make_event(device), make_event(device)},
      taken_(make_event(device)) {}

Feeding::~Feeding() {
  for (const Event& sent : sent_) device_.await(sent.get());
  device_.wait();
}

// Makes room for all of `fed` in the layout. A value that needs more than it had moves others, and only then `size_`
// grows.
void Feeding::fit(const std::vector<FedBytes>& fed) {
  bool grown = false;
  for (const FedBytes& each : fed) {
    std::size_t& bytes = bytes_[static_cast<std::size_t>(each.value)];
    grown = grown || each.bytes > bytes;
    bytes = std::max(bytes, each.bytes);
  }
  if (!grown) return;
  size_ = kKeyBytes;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    offset_[i] = size_;
    size_ += feed_aligned(bytes_[i]);
  }
}

void Feeding::fit_block(const Take& take) {
  if (block_size_ == size_) return;
  block_.reset();
  block_size_ = 0;
  block_ = take(size_, "inputs");
  block_size_ = size_;
}

void Feeding::fit_ahead(const Take& take) {
  if (ahead_size_ == size_) return;
  for (const Event* event : {&sent_[0], &sent_[1], &taken_}) device_.await(event->get());
  ahead_.reset();
  ahead_size_ = 0;
  ahead_ = take(size_, "the next inputs");
  for (PinnedMemory& pinned : pinned_) pinned = allocate_pinned(size_, device_);
  ahead_size_ = size_;
}

void Feeding::upload(const std::vector<FedBytes>& fed, const kernels::RandomKey& key, const Take& take) {
  staged_ = false;
  fit(fed);
  fit_block(take);
  device_.upload(block_.get(), &key, sizeof key);
  for (const FedBytes& each : fed)
    device_.upload(at(block_.get(), offset_[static_cast<std::size_t>(each.value)]), each.data, each.bytes);
}

void Feeding::stage(const std::vector<FedBytes>& fed, const kernels::RandomKey& key, const Take& take) {
  staged_ = false;
  fit(fed);
  fit_ahead(take);
  turn_ = 1 - turn_;
  void* const pinned = pinned_[turn_].get();
  device_.await(sent_[turn_].get());
  std::memcpy(pinned, &key, sizeof key);
  for (const FedBytes& each : fed)
    if (each.bytes > 0) std::memcpy(at(pinned, offset_[static_cast<std::size_t>(each.value)]), each.data, each.bytes);
  device_.stream_wait_event(device_.copy_stream, taken_.get());
  device_.copy(ahead_.get(), pinned, size_, device_.copy_stream);
  device_.record(sent_[turn_].get(), device_.copy_stream);
  staged_ = true;
}

void Feeding::use_staged(const Take& take) {
  CHECK(staged_);
  fit_block(take);
  device_.stream_wait_event(device_.stream, sent_[turn_].get());
  device_.copy(block_.get(), ahead_.get(), size_, device_.stream);
  device_.record(taken_.get(), device_.stream);
  staged_ = false;
}

}  // namespace mlx::graph
