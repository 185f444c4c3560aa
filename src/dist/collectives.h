// Operations of several ranks over any communicator. Every rank calls the same ones in the same order.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "dist/communicator.h"

namespace mlx::dist {

// A message whose receiver does not know its size.
void send_sized(Communicator& ranks, int to, ByteView bytes);
Bytes receive_sized(Communicator& ranks, int from);

// Gives all ranks the root's bytes. Others need not know how many there are.
void broadcast(Communicator& ranks, int root, Bytes& bytes);
// Every rank's bytes, by rank.
std::vector<Bytes> all_gather(Communicator& ranks, ByteView own);
// Returns when all ranks have called it.
void barrier(Communicator& ranks);

}  // namespace mlx::dist
