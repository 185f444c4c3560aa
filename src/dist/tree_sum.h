// The sum of one array over the micro-batches of all ranks, in the order of sum_tree.h: every rank gets the same bits,
// and the same as one rank that has all micro-batches. A rank sends 2 (ranks - 1) / ranks of the array's bytes, the
// least that any all-reduce sends (Patarasuk and Yuan 2009), as long as its micro-batches are one node of the tree.
// That holds if there are as many for each rank and the number of ranks is a power of two; else it sends each node that
// it has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "dist/sum_tree.h"

namespace mlx::dist {

class TreeSum {
 public:
  // An array of `count` elements for each of `terms` micro-batches, of which this rank adds terms_of(). All ranks have
  // the same counts.
  TreeSum(std::int64_t count, int rank, int ranks, int terms);

  // Part of the array of this rank's next micro-batch, from element `begin` on.
  void put(std::int64_t begin, std::span<const float> part);
  // All parts of the next micro-batch have been put. At most a node of each level of the tree is held.
  void add();
  bool is_complete() const { return next_ == held_.end; }
  // Sums over all ranks, once this rank's are complete. The result is valid until clear(). Returns the bytes it sent.
  std::int64_t exchange(Communicator& ranks, int tag);
  float* result() { return pieces_.front().data(); }
  void clear();  // for the next step

 private:
  using Array = std::vector<float>;
  struct Chunk {
    std::int64_t begin = 0, end = 0;
    std::int64_t size() const { return end - begin; }
  };
  bool joins_last() const;         // the next micro-batch is added to the last piece
  Chunk chunk_of(int rank) const;  // the part of the array that a rank sums for all
  void exchange_chunks(Communicator& ranks, int tag);
  void gather_chunks(Communicator& ranks, int tag);
  const float* sum_of(Terms node, std::int64_t begin, std::int64_t size, Array& scratch, std::size_t depth) const;

  std::int64_t count_;
  int rank_, ranks_, terms_, next_;
  Terms held_;
  std::vector<Terms> nodes_;   // of pieces_
  std::vector<Array> pieces_;  // sums of this rank's micro-batches
  std::vector<Array> spare_;   // memory of earlier pieces
  Array room_;                 // the next micro-batch, unless it joins the last piece
  std::vector<Terms> arrived_nodes_;
  std::vector<const float*> arrived_;  // this rank's chunk of each node of all ranks
  Array received_;
};

}  // namespace mlx::dist
