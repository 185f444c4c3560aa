// Operations of several ranks over any communicator. Every rank calls the same ones in the same order.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "dist/communicator.h"

namespace mlx::dist {

// Gives all ranks the root's bytes. Others need not know how many there are.
void broadcast(Communicator& ranks, int root, Bytes& bytes);
// A message whose length the receiver need not know.
void send_bytes(Communicator& ranks, int to, ByteView bytes);
Bytes receive_bytes(Communicator& ranks, int from);
// Every rank's bytes, by rank.
std::vector<Bytes> all_gather(Communicator& ranks, ByteView own);
// Every rank's bytes, by rank, for the root; nothing for the others.
std::vector<Bytes> gather(Communicator& ranks, int root, ByteView own);
// Returns when all ranks have called it.
void barrier(Communicator& ranks);

}  // namespace mlx::dist
