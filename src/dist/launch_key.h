// The key of one launch, which seals what its ranks send each other (sealed.h), and how they come by it. The launcher
// makes it and gives it to one holder on each host: a thread of its own here, and `mlx rank --key` at the other end of
// an ssh connection elsewhere. A holder has the key in memory only. It gives it once to each of the host's ranks over a
// socket of the machine, and then ends. mlx-format-sealed(5) has the bytes.
//
// Nobody else gets it: both ends of the socket look whether the other is a process of the same user, and a holder knows
// which ranks are its own. A rank that has its key is refused another time, so that no two processes send as one rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/fd.h"
#include "dist/hosts.h"

namespace mlx::dist {

// Set for ranks: the name of the holder to ask for the key. It is no secret.
inline constexpr const char* kLaunchVariable = "MLX_LAUNCH";

struct LaunchKey {
  std::array<std::uint8_t, 16> id{};  // drawn with the key
  Secret secret;
  std::vector<Host> hosts;  // in the order of ranks; their names are for people

  std::string rank_name(int rank) const;  // "rank 2 on b"
};
LaunchKey make_launch_key(std::vector<Host> hosts);

// With the ranks of one host.
struct HeldKey {
  LaunchKey key;
  int first = 0, count = 0;
  // Of its holder: there may be several on a machine, which some names of hosts share.
  std::string name() const;
};
Secret encode(const HeldKey& held);
// The next one of a stream. Throws kCorrupt for bytes that are none, kIo if the stream ends.
HeldKey read_held_key(int stream);

// The socket of a holder on this machine; kConflict if there is one.
Fd listen_for_ranks(const HeldKey& held);
// Gives the key to its ranks. Returns when all have it, when `end` (a pipe) is closed by its other side, or after ten
// minutes.
void give_to_ranks(const HeldKey& held, const Fd& listener, int end);

// A holder in this process.
class KeyHolder {
 public:
  explicit KeyHolder(HeldKey held);
  ~KeyHolder();  // ends it

 private:
  Fd close_to_end_;
  std::thread thread_;
};

// Asks a holder on this machine, for a rank. Throws kIo if there is none of this name, kRefused if it is another user's
// or refuses.
LaunchKey ask_for_key(const std::string& holder, int rank, int ranks);

// Keeps this process's memory out of core dumps and of reach for other processes of the user (PR_SET_DUMPABLE).
void hide_memory();

}  // namespace mlx::dist
