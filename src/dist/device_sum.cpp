// Trees of device arrays. The peer stream sees to one bucket after another, so that they share what they receive into.
#include "dist/device_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::dist {
namespace {

constexpr std::int64_t kChunkLine = 16;  // a chunk begins at a multiple, as in tree_sum.cpp
constexpr std::chrono::microseconds kShortestLook{20}, kLongestLook{500};

Chunk chunk_of(std::int64_t elements, int rank, int ranks) {
  const std::int64_t lines = (elements + kChunkLine - 1) / kChunkLine;
  const auto begin = [&](std::int64_t part) { return std::min(elements, part * lines / ranks * kChunkLine); };
  return {begin(rank), begin(rank + 1)};
}

std::int64_t nodes_on(int rank, int ranks, int terms) {
  return static_cast<std::int64_t>(nodes_of(terms_of(rank, ranks, terms), terms).size());
}

// What a rank receives of a bucket at once, in elements.
std::int64_t to_receive(std::int64_t elements, int rank, int ranks, int terms) {
  std::int64_t nodes = 0;
  for (int other = 0; other < ranks; ++other)
    if (other != rank) nodes += nodes_on(other, ranks, terms);
  return nodes * chunk_of(elements, rank, ranks).size();
}

constexpr std::int64_t kFloatBytes = sizeof(float);

}  // namespace

DeviceSum::DeviceSum(const kernels::Device& device, DeviceLinks* links, int terms,
                     const std::vector<SummedArray>& arrays)
    : device_(device),
      links_(links),
      rank_(links ? links->rank() : 0),
      ranks_(links ? links->ranks() : 1),
      terms_(terms),
      exceptions_(std::uncaught_exceptions()),
      held_(terms_of(rank_, ranks_, terms)),
      layout_(layout_of(arrays, ranks_)),
      filled_(make_event()),
      done_(make_event()) {
  CHECK(terms >= ranks_);
  for (const BucketLayout::Bucket& of : layout_.buckets) {
    CHECK(of.wire == Wire::kF32 && !of.owned);
    buckets_.push_back({of.elements, of.arrays, of.arrays, held_.begin});
    received_size_ = std::max(received_size_, to_receive(of.elements, rank_, ranks_, terms));
  }
}

DeviceSum::~DeviceSum() {
  if (links_ && std::uncaught_exceptions() > exceptions_) links_->give_up();
  device_.wait();
}

DeviceSum::Array DeviceSum::allocate(std::int64_t elements) const {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  void* const memory = device_.allocate(bytes);
  if (!memory) {
    const auto size = [](std::size_t of) { return format_bytes(static_cast<std::uint64_t>(of)); };
    throw Error(ErrorKind::kMissing,
                fmt::format("GPU: {} of memory for sums of gradients, of which {} are free", size(bytes),
                            size(device_.free_bytes())),
                "another program may hold memory: nvidia-smi; else fewer micro-batches a rank ([train] accumulate)");
  }
  return {static_cast<float*>(memory), [&device = device_](float* of) { device.release(of); }};
}

DeviceSum::Event DeviceSum::make_event() const {
  return {device_.make_event(), [&device = device_](void* event) { device.release_event(event); }};
}

bool DeviceSum::joins_last(const Bucket& bucket) const {
  return !bucket.nodes.empty() && is_node({bucket.nodes.back().begin, bucket.next + 1}, terms_);
}

DeviceSum::Array DeviceSum::take_room(Bucket& bucket) {
  if (bucket.spare.empty()) return allocate(bucket.elements);
  Array out = std::move(bucket.spare.back());
  bucket.spare.pop_back();
  return out;
}

void DeviceSum::put(Bucket& bucket, std::int64_t begin, const float* data, std::int64_t count) {
  if (joins_last(bucket)) return device_.add(bucket.pieces.back().get() + begin, data, count, device_.stream);
  if (!bucket.room) bucket.room = take_room(bucket);
  device_.copy(bucket.room.get() + begin, data, static_cast<std::size_t>(count) * sizeof(float), device_.stream);
}

// At most a node of each level of the tree is held.
void DeviceSum::end_term(Bucket& bucket) {
  if (!joins_last(bucket)) {
    bucket.nodes.push_back({bucket.next, bucket.next});
    bucket.pieces.push_back(std::move(bucket.room));
  }
  std::vector<Terms>& nodes = bucket.nodes;
  nodes.back().end = ++bucket.next;
  while (nodes.size() > 1 && is_node({nodes[nodes.size() - 2].begin, bucket.next}, terms_)) {
    device_.add(bucket.pieces[nodes.size() - 2].get(), bucket.pieces.back().get(), bucket.elements, device_.stream);
    bucket.spare.push_back(std::move(bucket.pieces.back()));
    bucket.pieces.pop_back();
    nodes.pop_back();
    nodes.back().end = bucket.next;
  }
}

void DeviceSum::add(std::size_t i, const float* data) {
  const BucketLayout::Place& place = layout_.places[i];
  Bucket& bucket = buckets_[place.bucket];
  CHECK(bucket.missing > 0 && bucket.next < held_.end);
  put(bucket, place.begin, data, place.count);
  if (--bucket.missing > 0) return;
  end_term(bucket);
  if (bucket.next == held_.end && ranks_ > 1) exchange(bucket);
}

void DeviceSum::end_term() {
  for (Bucket& bucket : buckets_) {
    CHECK(bucket.missing == 0);
    bucket.missing = bucket.arrays;
  }
}

// Of a chunk of no elements nothing is sent.
void DeviceSum::exchange(Bucket& bucket) {
  if (!received_ && received_size_ > 0) received_ = allocate(received_size_);
  device_.record(filled_.get(), device_.stream);
  device_.stream_wait_event(device_.peer_stream, filled_.get());
  const Chunk own = chunk_of(bucket.elements, rank_, ranks_);
  const std::vector<Node> nodes = request_chunks(bucket, own);
  if (own.size() > 0) add_up(nodes, bucket.pieces.front().get() + own.begin, own.size());
  bring_to_all(bucket.pieces.front().get(), bucket.elements);
}

// Every rank gets its chunk of the nodes of all ranks. Returns this rank's, in the order of micro-batches.
std::vector<DeviceSum::Node> DeviceSum::request_chunks(const Bucket& bucket, const Chunk& own) {
  std::vector<kernels::PeerMessage> messages;
  std::vector<Node> nodes;
  float* to = received_.get();
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) {
      for (std::size_t i = 0; i < bucket.nodes.size(); ++i)
        nodes.push_back({bucket.nodes[i], bucket.pieces[i].get() + own.begin});
      continue;
    }
    const Chunk theirs = chunk_of(bucket.elements, other, ranks_);
    for (const Array& piece : bucket.pieces)
      messages.push_back({.other = other, .leaves = piece.get() + theirs.begin, .leaving = theirs.size()});
    for (const Terms node : nodes_of(terms_of(other, ranks_, terms_), terms_)) {
      messages.push_back({.other = other, .arrives = to, .arriving = own.size()});
      nodes.push_back({node, to});
      to += own.size();
    }
  }
  request(messages);
  return nodes;
}

// As soon as two halves of a node are next to each other, the first becomes the node.
void DeviceSum::add_up(const std::vector<Node>& nodes, float* result, std::int64_t size) {
  std::vector<Node> done;
  for (const Node& node : nodes) {
    done.push_back(node);
    while (done.size() > 1 && is_node({done[done.size() - 2].terms.begin, done.back().terms.end}, terms_)) {
      Node& first = done[done.size() - 2];
      device_.add(first.chunk, done.back().chunk, size, device_.peer_stream);
      first.terms.end = done.back().terms.end;
      done.pop_back();
    }
  }
  CHECK(done.size() == 1);
  if (done[0].chunk == result) return;
  device_.copy(result, done[0].chunk, static_cast<std::size_t>(size) * sizeof(float), device_.peer_stream);
}

void DeviceSum::bring_to_all(float* sum, std::int64_t elements) {
  const Chunk own = chunk_of(elements, rank_, ranks_);
  std::vector<kernels::PeerMessage> messages;
  for (int other = 0; other < ranks_; ++other) {
    const Chunk theirs = chunk_of(elements, other, ranks_);
    if (other != rank_) messages.push_back({other, sum + own.begin, own.size(), sum + theirs.begin, theirs.size()});
  }
  request(messages);
}

void DeviceSum::request(const std::vector<kernels::PeerMessage>& messages) {
  for (const kernels::PeerMessage& message : messages) bytes_sent_ += message.leaving * kFloatBytes;
  links_->exchange(messages);
}

void DeviceSum::finish() {
  if (ranks_ == 1) return;
  device_.record(done_.get(), device_.peer_stream);
  device_.stream_wait_event(device_.stream, done_.get());
}

// Not in a call that waits for the GPU: such a one would never return if another rank is lost.
void DeviceSum::wait() {
  if (ranks_ == 1) return;
  for (auto look = kShortestLook; !device_.occurred(done_.get()); look = std::min(2 * look, kLongestLook)) {
    links_->check();
    std::this_thread::sleep_for(look);
  }
  links_->check();
}

const float* DeviceSum::sum(std::size_t i) const {
  const BucketLayout::Place& place = layout_.places[i];
  return buckets_[place.bucket].pieces.front().get() + place.begin;
}

void DeviceSum::end_step() {
  for (Bucket& bucket : buckets_) {
    for (Array& piece : bucket.pieces) bucket.spare.push_back(std::move(piece));
    bucket.pieces.clear();
    bucket.nodes.clear();
    bucket.next = held_.begin;
  }
}

std::vector<std::size_t> DeviceSum::ends_of_buckets() const {
  std::vector<std::size_t> out(buckets_.size(), 0);
  for (std::size_t i = 0; i < layout_.places.size(); ++i) out[layout_.places[i].bucket] = i;
  return out;
}

Traffic DeviceSum::traffic(const std::vector<SummedArray>& arrays, int ranks, int terms) {
  Traffic most;
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) {
    Traffic of;
    const std::int64_t nodes = nodes_on(rank, ranks, terms);
    for (const BucketLayout::Bucket& bucket : layout_of(arrays, ranks).buckets) {
      const std::int64_t own = chunk_of(bucket.elements, rank, ranks).size();
      of.bytes += (nodes * (bucket.elements - own) + (ranks - 1) * own) * kFloatBytes;
      of.messages += (nodes + 1) * (ranks - 1);
    }
    if (of.bytes > most.bytes) most = of;
  }
  return most;
}

// A node of each level of the tree over the rank's own micro-batches, and what is received.
std::int64_t DeviceSum::memory(const std::vector<SummedArray>& arrays, int ranks, int terms) {
  const auto own = static_cast<unsigned>((terms + ranks - 1) / ranks);
  const std::int64_t nodes = std::max<std::int64_t>(1, std::bit_width(own - 1)) + (terms % ranks == 0 ? 0 : 1);
  std::int64_t elements = 0, received = 0;
  for (const BucketLayout::Bucket& bucket : layout_of(arrays, ranks).buckets) {
    elements += nodes * bucket.elements;
    received = std::max(received, to_receive(bucket.elements, ranks - 1, ranks, terms));
  }
  return (elements + received) * kFloatBytes;
}

}  // namespace mlx::dist
