// Encryption of stored objects (mlx-format-pack(5), "Encrypted entries"). It wraps the codec's output, so that every
// encoding can be encrypted. Used by a Store's encoding and decoding, and by transfers between plain and encrypted
// stores.
#pragma once

#include "store/crypto/keys.h"
#include "store/format/pack_format.h"

namespace mlx::store {

// Encrypts an object of a plain store under `key`. `extra` stays in clear (the storage id of a delta's base). The same
// object gives the same bytes each time.
StoredObject seal(const DomainKey& key, const StoredObject& plain, ByteView extra);

// The stored bytes of the plain object in `sealed`. kCorrupt, naming `where`, if any of its bytes or of its index
// record was changed.
Bytes open_sealed(const DomainKey& key, const StoredObject& sealed, const std::string& where);

// The plain object with this id, from the encrypted one. kRefused if the ring has no key for it.
StoredObject open_object(const KeyRing& ring, const Digest& id, const StoredObject& sealed, const std::string& where);

}  // namespace mlx::store
