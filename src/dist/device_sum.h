// The sums of a step's gradients over the micro-batches of all ranks, in the memory of devices (device_links.h). They
// are added in the tree of sum_tree.h, as those of GradientSum are: so the bits do not depend on the number of ranks.
// Arrays are put into buckets in the order in which a backward pass makes them. Once this rank's last micro-batch has
// filled a bucket, each rank gets a chunk of it from all others, adds it up, and brings the sum to all: a rank sends
// 2 (ranks - 1) / ranks of the bytes, if its micro-batches are one node of the tree.
//
// Nothing here waits: work is requested on the device's stream, and messages and their sums on its peer stream, which
// events order. So messages are under way while the backward pass computes. Nothing passes through the host's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dist/bucket_layout.h"
#include "dist/device_links.h"
#include "dist/halving.h"
#include "dist/sum_tree.h"
#include "dist/tree_sum.h"

namespace mlx::dist {

class DeviceSum {
 public:
  // Of `terms` micro-batches of all ranks, which have the same arrays, in f32. `links`: null for a rank alone. Both it
  // and the device must outlive this.
  DeviceSum(const kernels::Device& device, DeviceLinks* links, int terms, const std::vector<SummedArray>& arrays);
  DeviceSum(const DeviceSum&) = delete;
  DeviceSum& operator=(const DeviceSum&) = delete;
  ~DeviceSum();  // waits until none of its memory is used; during an exception the links give up first

  Terms terms() const { return held_; }  // this rank's micro-batches
  // Adds array `i` of this rank's current micro-batch, in the device's memory. Arrays may come in any order, each once
  // a micro-batch. All ranks complete buckets in the same order. Throws kMissing if the device has no memory left.
  void add(std::size_t i, const float* data);
  void end_term();
  // After the last micro-batch: what is requested on the device's stream from now on has the sums.
  void finish();
  const float* sum(std::size_t i) const;  // after finish(), until end_step()
  void end_step();
  // Until the messages of the last finish() are there. Throws what DeviceLinks::check() does.
  void wait();
  // The last array of each bucket, in the order of the arrays.
  std::vector<std::size_t> ends_of_buckets() const;
  std::int64_t bytes_sent() const { return bytes_sent_; }  // since it was made

  // Of the rank that sends most, in a step.
  static Traffic traffic(const std::vector<SummedArray>& arrays, int ranks, int terms);
  // The bytes that it takes of a device.
  static std::int64_t memory(const std::vector<SummedArray>& arrays, int ranks, int terms);

 private:
  using Array = std::unique_ptr<float, std::function<void(float*)>>;
  using Event = std::unique_ptr<void, std::function<void(void*)>>;
  struct Bucket {
    std::int64_t elements = 0;
    std::size_t arrays = 0, missing = 0;  // missing in the current micro-batch
    int next = 0;                         // micro-batch
    std::vector<Terms> nodes{};           // of pieces
    std::vector<Array> pieces{}, spare{};
    Array room{};  // the next micro-batch, unless it joins the last piece
  };
  struct Node {
    Terms terms;
    float* chunk = nullptr;
  };
  Array allocate(std::int64_t elements) const;
  Event make_event() const;
  bool joins_last(const Bucket& bucket) const;
  void put(Bucket& bucket, std::int64_t begin, const float* data, std::int64_t count);
  void end_term(Bucket& bucket);
  Array take_room(Bucket& bucket);
  void exchange(Bucket& bucket);
  std::vector<Node> request_chunks(const Bucket& bucket, const Chunk& own);
  void add_up(const std::vector<Node>& nodes, float* result, std::int64_t size);
  void bring_to_all(float* sum, std::int64_t elements);
  void request(const std::vector<kernels::PeerMessage>& messages);

  const kernels::Device& device_;
  DeviceLinks* links_;
  int rank_, ranks_, terms_, exceptions_;
  Terms held_;
  BucketLayout layout_;
  std::vector<Bucket> buckets_;
  Array received_;  // of one bucket after another
  std::int64_t received_size_ = 0, bytes_sent_ = 0;
  Event filled_, done_;
};

}  // namespace mlx::dist
