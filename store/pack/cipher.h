// Encryption of stored objects (mlx-format-pack(5), "Encrypted entries"): around what the codec made, so that every
// encoding composes with it. Used where a Store encodes and decodes, and by transfers between plain and encrypted
// stores.
#pragma once

#include "store/crypto/keys.h"
#include "store/pack/pack_format.h"

namespace mlx::store {

// An object as a plain store keeps it, encrypted under `key`. `extra` is what stands in the clear of the encrypted one
// (a delta's base, by its storage id there). The same object gives the same bytes each time.
StoredObject seal(const DomainKey& key, const StoredObject& plain, ByteView extra);

// The stored bytes of the plain object that `sealed` was made of. kCorrupt, naming `where`, where any of its bytes or
// of what its index says of it was changed.
Bytes open_sealed(const DomainKey& key, const StoredObject& sealed, const std::string& where);

// The plain object that is called `id`, from the encrypted one. kRefused where the ring has no key for it.
StoredObject open_object(const KeyRing& ring, const Digest& id, const StoredObject& sealed, const std::string& where);

}  // namespace mlx::store
