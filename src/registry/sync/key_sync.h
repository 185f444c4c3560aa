// Opens a remote from this clone's point of view: the keys of an encrypted remote and of this clone are synchronized
// first.
#pragma once

#include <memory>

#include "registry/sync/sync.h"
#include "registry/sync/unpublished.h"
#include "store/remote/remote.h"

namespace mlx::registry {

enum class Direction { kPush, kFetch, kRepair };  // kRepair: push --repair

// Makes a missing remote if the direction is a push. Accepts keys that changed there; a push also sends keys that
// changed here. Throws kCorrupt if no member signed the remote's keys. Throws kRefused if the keys went back to a
// revision before one that this clone has seen there, if they lack the revision that mlx.toml pins, or if an encrypted
// repository would send to a plain remote. Throws kConflict if the remote is encrypted with another ring's keys, or is
// to be encrypted but holds plain objects. A push replaces keys that went back by newer ones; a repair replaces
// whatever is damaged or refused by this clone's. `before_sending` is called before the remote is made, and before keys
// are sent; opening the remote changes nothing else.
std::unique_ptr<store::Remote> open_remote(Repository& repository, const RemoteConfig& remote, Direction direction,
                                           const BeforeSending& before_sending = {});

// True if the remote exists and has keys. This clone takes them if it has none.
bool take_keys_of(Repository& repository, const RemoteConfig& remote);

// Replaces this clone's damaged keys by the remote's; false if the remote has none.
bool mend_keys(Repository& repository, const RemoteConfig& remote);

}  // namespace mlx::registry
