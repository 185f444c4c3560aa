// A broadcast passes bytes on along a binomial tree. The others are made of it and of messages between all.
#include "dist/collectives.h"

#include <array>
#include <span>
#include <utility>

#include "base/error.h"

namespace mlx::dist {
namespace {

constexpr int kTag = Communicator::kTags - 1;  // of all messages here: the order of calls tells them apart

using Transfer = Communicator::Transfer;

}  // namespace

void send_bytes(Communicator& ranks, int to, ByteView bytes) {
  const std::uint64_t size = bytes.size();
  std::array transfers{ranks.send(to, kTag, &size, sizeof size), ranks.send(to, kTag, bytes.data(), bytes.size())};
  ranks.wait(transfers);
}

Bytes receive_bytes(Communicator& ranks, int from) {
  std::uint64_t size = 0;
  Transfer head = ranks.receive(from, kTag, &size, sizeof size);
  ranks.wait({&head, 1});
  Bytes bytes(size);
  Transfer body = ranks.receive(from, kTag, bytes.data(), bytes.size());
  ranks.wait({&body, 1});
  return bytes;
}

void broadcast(Communicator& ranks, int root, Bytes& bytes) {
  const int count = ranks.ranks(), own = (ranks.rank() - root + count) % count;
  const auto rank_of = [&](int place) { return (place + root) % count; };
  int reach = 1;  // places below it have the bytes
  while (reach <= own) reach *= 2;
  if (own > 0) bytes = receive_bytes(ranks, rank_of(own - reach / 2));
  for (; own + reach < count; reach *= 2) send_bytes(ranks, rank_of(own + reach), bytes);
}

std::vector<Bytes> all_gather(Communicator& ranks, ByteView own) {
  std::vector<Bytes> all(static_cast<std::size_t>(ranks.ranks()));
  for (int from = 0; from < ranks.ranks(); ++from) {
    Bytes bytes;
    if (from == ranks.rank()) bytes.assign(own.begin(), own.end());
    broadcast(ranks, from, bytes);
    all[static_cast<std::size_t>(from)] = std::move(bytes);
  }
  return all;
}

std::vector<Bytes> gather(Communicator& ranks, int root, ByteView own) {
  if (ranks.rank() != root) {
    send_bytes(ranks, root, own);
    return {};
  }
  std::vector<Bytes> all(static_cast<std::size_t>(ranks.ranks()));
  for (int from = 0; from < ranks.ranks(); ++from) {
    Bytes& bytes = all[static_cast<std::size_t>(from)];
    if (from == root)
      bytes.assign(own.begin(), own.end());
    else
      bytes = receive_bytes(ranks, from);
  }
  return all;
}

void barrier(Communicator& ranks) {
  all_gather(ranks, {});
}

}  // namespace mlx::dist
