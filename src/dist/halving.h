// Sums over ranks whose number is a power of two by recursive halving, and the way back by recursive doubling
// (Rabenseifner 2004; Thakur et al. 2005): in each of log2(ranks) rounds a rank exchanges one message with one other.
// Neighbours come first, as the lowest levels of the tree of sum_tree.h pair them, so that the bits are those of the
// tree. In round k a rank keeps half of what it had summed, and what it does not keep goes to rank ^ 2^k. So in the
// end rank r has the part whose number has the bits of r in reverse order. Used by tree_sum.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dist/communicator.h"
#include "dist/wire.h"

namespace mlx::dist {

// Elements [begin, end) of an array.
struct Chunk {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// The part of an array that a rank sums, of as many parts as ranks: that of the same number, or, if their number is a
// power of two, that which halving leaves to it.
int part_of(int rank, int ranks);

struct HalvingRound {
  int other = 0;      // whom it exchanges messages with
  Chunk given, kept;  // this rank sends `given`, and adds what comes to `kept`
};
// Of a rank; `begin(p)`: where part p of `ranks` parts begins.
std::vector<HalvingRound> halving_rounds(int rank, int ranks, const std::function<std::int64_t(int part)>& begin);
// Both ranks of a round keep all of so many elements: half as many messages for more bytes.
std::vector<HalvingRound> doubling_rounds(int rank, int ranks, std::int64_t count);

// One sum, again and again. What leaves it and arrives takes the memory of half of the array.
class Halving {
 public:
  // `adds`: of the sums; `gathers`: of what is brought to all afterwards.
  Halving(std::vector<HalvingRound> rounds, Wire adds, Wire gathers)
      : rounds_(std::move(rounds)), adds_(adds), gathers_(gathers) {}

  // Begin to add up `data`, and to bring each rank's part to all; advance() until it is true. It may pause for some
  // microseconds if nothing moves, unless `poll`.
  void reduce(Communicator& ranks, int tag, float* data);
  void gather(Communicator& ranks, int tag, float* data);
  bool advance(Communicator& ranks, bool poll = false);
  const std::vector<HalvingRound>& rounds() const { return rounds_; }

 private:
  void exchange(Communicator& ranks);
  void take();

  std::vector<HalvingRound> rounds_;
  Wire adds_, gathers_;
  bool reduces_ = true;
  std::size_t done_ = 0;  // rounds
  int tag_ = 0;
  float* data_ = nullptr;
  std::vector<Communicator::Transfer> transfers_;
  std::vector<float> arriving_;
  std::vector<std::uint16_t> packed_leaving_, packed_arriving_;
};

}  // namespace mlx::dist
