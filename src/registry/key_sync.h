// Opening a remote as this clone sees it: encrypted ones with their keys taken in, and this clone's with them.
#pragma once

#include <memory>

#include "registry/sync.h"
#include "store/remote.h"

namespace mlx::registry {

enum class Towards { kRemote, kHere };  // push; fetch

// Makes a missing remote where `towards` it. Keys that changed there are taken in, and on a push those that changed
// here are sent. kRefused where an encrypted repository would send to a plain remote; kConflict where the remote is
// encrypted with keys of another ring, or holds plain objects and is to be encrypted.
std::unique_ptr<store::Remote> open_remote(Repository& repository, const RemoteConfig& remote, Towards towards);

// Where the remote is there and has keys: true, and they are this clone's where it had none.
bool take_keys_of(Repository& repository, const RemoteConfig& remote);

}  // namespace mlx::registry
