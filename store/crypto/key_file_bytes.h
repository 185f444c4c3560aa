// Parts of a key file's bytes that seals, signatures and the MAC vouch for. Shared by key_file.cpp, key_changes.cpp and
// key_join.cpp.
#pragma once

#include "store/crypto/key_file.h"

namespace mlx::store {

Bytes member_entry(const Member& member);    // all of it
Bytes member_binding(const Member& member);  // what its wrapped root key vouches for
Bytes key_prefix(const DataKey& key);        // bytes 0 to 127
Bytes encode_lock(const KeyFile& file);      // what stands in clear of a remote's keys
// False where trying all passphrases costs more than a file may: 16 of them at the cost that passphrase_member() has.
bool can_be_opened(const KeyFile& file);
// With sealed data keys taken as zero bytes, so that erasing one changes neither:
Bytes encode_for_mac(const KeyFile& file);
Digest state_of(const KeyFile& file);  // of the revision itself, without those before

}  // namespace mlx::store
