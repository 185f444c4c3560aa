// Opening a remote as this clone sees it: encrypted ones with their keys taken in, and this clone's with them.
#pragma once

#include <memory>

#include "registry/sync/sync.h"
#include "registry/sync/unpublished.h"
#include "store/remote/remote.h"

namespace mlx::registry {

enum class Direction { kPush, kFetch, kRepair };  // kRepair: push --repair

// Makes a missing remote where it is pushed to. Keys that changed there are taken in, and on a push those that changed
// here are sent. kCorrupt where no member signed the remote's keys; kRefused where they went back to a revision before
// one that this clone has seen there, do not hold the one that mlx.toml pins, and where an encrypted repository would
// send to a plain remote; kConflict where the remote is encrypted with keys of another ring, or holds plain objects and
// is to be encrypted. A push puts newer keys in place of those that went back, a repair its own in place of whatever is
// damaged or refused.
// `before_sending` is asked before the remote is made, and before keys go there; nothing else is changed by opening it.
std::unique_ptr<store::Remote> open_remote(Repository& repository, const RemoteConfig& remote, Direction direction,
                                           const BeforeSending& before_sending = {});

// Where the remote is there and has keys: true, and they are this clone's where it had none.
bool take_keys_of(Repository& repository, const RemoteConfig& remote);

// Puts the remote's keys in place of this clone's, which are damaged; false where it has none.
bool mend_keys(Repository& repository, const RemoteConfig& remote);

}  // namespace mlx::registry
