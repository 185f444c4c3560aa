// Parts of a key file's bytes that seals and the MAC vouch for. Shared by key_file.cpp and key_changes.cpp.
#pragma once

#include "store/key_file.h"

namespace mlx::store {

Bytes member_entry(const Member& member);    // all of it
Bytes member_binding(const Member& member);  // what its wrapped root key vouches for
Bytes key_prefix(const DataKey& key);        // bytes 0 to 95
Bytes encode_lock(const KeyFile& file);      // what stands in clear of a remote's keys
Bytes encode_without_mac(const KeyFile& file, bool with_keys);

}  // namespace mlx::store
