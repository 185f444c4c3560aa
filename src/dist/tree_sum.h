// The sum of one array over the micro-batches of all ranks, in the order of sum_tree.h: every rank gets the same bits,
// and the same as one rank that has all micro-batches. A rank sends 2 (ranks - 1) / ranks of the array's bytes, the
// least that any all-reduce sends (Patarasuk and Yuan 2009), as long as its micro-batches are one node of the tree.
// That holds if there are as many for each rank and the number of ranks is a power of two; else it sends each node that
// it has. Up to kDirect ranks, and numbers that are no power of two, send each other rank its part directly; others
// take 2 log2(ranks) rounds of one message each (halving.h). Small arrays are sent whole: then a sum takes half
// as many messages, and two ranks send no more bytes.
//
// With Wire::kBF16 elements take half the bytes. Every node of the tree, from micro-batches to the result, is added in
// f32 and then rounded, wherever it is made: so the bits still do not depend on the number of ranks.
//
// A sum with bounds gives each rank the sum of its own part only. The rank may then write there what all are to have in
// its stead, and gather() brings it to them, in f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "dist/halving.h"
#include "dist/shares.h"
#include "dist/wire.h"

namespace mlx::dist {

// What a rank sends.
struct Traffic {
  std::int64_t bytes = 0, messages = 0;
};
// Of one round after another: each waits for the messages of the one before.
using Rounds = std::vector<Traffic>;
Traffic total(const Rounds& rounds);

class TreeSum {
 public:
  // An array of `count` elements for each of `terms` micro-batches, of which this rank adds terms_of(), or from share()
  // on its share. All ranks have the same counts and shares.
  // `bounds`: a rank gets the sum of elements [bounds[p], bounds[p + 1]) for its part p (part_of()); empty: all get
  // all.
  TreeSum(std::int64_t count, int rank, int ranks, int terms, Wire wire = Wire::kF32,
          const std::vector<std::int64_t>& bounds = {});

  void share(const Shares& shares);  // between steps
  // Part of the array of this rank's next micro-batch, from element `begin` on.
  void put(std::int64_t begin, std::span<const float> part);
  // All parts of the next micro-batch have been put. At most a node of each level of the tree is held.
  void add();
  bool is_complete() const { return next_ == held_.end; }

  // Begins to sum over all ranks, once this rank's are complete; advance() tells when the result is there. Sums with
  // different tags go on side by side. Returns the bytes that this rank sends.
  std::int64_t begin(Communicator& ranks, int tag);
  bool advance(Communicator& ranks, bool poll = false);  // `poll`: does not pause if nothing moves
  // Both, until it is.
  std::int64_t exchange(Communicator& ranks, int tag);
  float* result() { return pieces_.front().data(); }  // valid until clear(); with bounds: own part
  const float* result() const { return pieces_.front().data(); }
  // With bounds, once the result is there: begins to bring each rank's part of it to all; advance() as above. Returns
  // the bytes that this rank sends.
  std::int64_t gather(Communicator& ranks, int tag);
  // Of this rank: for the sum, and for bringing the parts of it to all.
  Rounds reducing() const;
  Rounds gathering() const;
  // Whether so many ranks, each with one node of the tree, exchange messages in rounds. Over shared memory a sum of 4
  // MiB took 3.5 ms directly and 6.7 ms in rounds on 4 ranks, 16.7 ms and 10.3 ms on 8; on 2 a round is all, and its
  // adding needs no scratch.
  static bool halves(int ranks) { return ranks == 2 || (ranks > kDirect && (ranks & (ranks - 1)) == 0); }
  static constexpr int kDirect = 4;
  void clear();  // for the next step
  // Afterwards the result, to be written there, is as if it had been made here: of a step of an earlier process.
  float* restore();

 private:
  using Array = std::vector<float>;
  bool joins_last() const;                            // the next micro-batch is added to the last piece
  Chunk chunk_of(int rank) const;                     // the part of the array that a rank sums
  std::size_t bytes_of(std::int64_t elements) const;  // on their way
  void add_to(float* sum, const float* term, std::int64_t count) const;
  void choose_route();
  std::int64_t begin_of(int part) const;
  void begin_to_gather(Communicator& ranks);
  void exchange_chunks(Communicator& ranks);
  void sum_chunk();
  void gather_chunks(Communicator& ranks);
  void take_gathered();
  bool gathers_packed() const { return wire_ == Wire::kBF16 && bounds_.empty(); }
  const float* sum_of(Terms node, std::int64_t begin, std::int64_t size, std::size_t depth);

  std::int64_t count_;
  int rank_, ranks_, terms_, next_;
  Wire wire_;
  std::vector<std::int64_t> bounds_;  // empty: chunks are of equal sizes
  bool whole_ = false;                // each rank sums the whole array
  std::optional<Halving> halving_;    // else each rank sends to each other one
  Shares shares_;
  Terms held_;
  std::vector<Terms> nodes_;   // of pieces_
  std::vector<Array> pieces_;  // sums of this rank's micro-batches
  std::vector<Array> spare_;   // memory of earlier pieces
  Array room_;                 // the next micro-batch, unless it joins the last piece
  // Of the exchange.
  int tag_ = 0;
  enum class State { kNone, kReducing, kGathering } state_ = State::kNone;
  std::vector<Communicator::Transfer> transfers_;
  std::vector<Terms> arrived_nodes_;
  std::vector<const float*> arrived_;  // this rank's chunk of each node of all ranks
  Array received_, scratch_;
  std::vector<std::uint16_t> leaving_, arriving_;  // in bf16: this rank's pieces, later its sum; and others'
};

}  // namespace mlx::dist
