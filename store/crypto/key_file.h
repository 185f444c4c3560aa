// The file that holds the keys of an encrypted repository or remote, locked for its members (mlx-format-keys(5)): its
// bytes, and what follows from them without a secret. Unlocking and changes are in key_changes.h. The registry reads
// and writes the file itself.
//
// Parsing is strict and bounded (kCorrupt).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/crypto/key_chain.h"
#include "store/crypto/keys.h"

namespace mlx::store {

struct Member {
  enum class Kind : std::uint8_t { kPassphrase = 1, kRecipient = 2 };
  Kind kind = Kind::kRecipient;
  ScryptCost cost{0, 0, 0};  // of a passphrase; else 0
  Digest salt;               // of a passphrase; else 0
  Digest public_key, signing_key;
  std::int64_t added = 0;  // unix microseconds
  std::string name;
  Digest ephemeral;
  Bytes root;  // sealed
};

struct DataKey {
  std::uint32_t id = 0;
  bool current = false;
  std::int64_t made = 0;  // unix microseconds
  std::string domain;
  Digest check;  // derived from the data key; identifies it, also after it was erased
  Bytes sealed;
  bool erased() const;
};

struct KeyFile {
  RingId ring{};
  std::vector<Member> members;
  std::vector<DataKey> keys;
  Chain chain;  // its last link is this revision
  Digest mac;
  std::uint64_t revision() const { return chain.back().revision; }
};

Bytes encode_key_file(const KeyFile& file);
KeyFile decode_key_file(ByteView bytes, const std::string& what);
// Erases the keys with these ids for good; false if there were none. Needs no key, and makes no revision.
bool erase_keys(KeyFile& file, const std::vector<std::uint32_t>& ids);

// The domains with a current key that was not erased, sorted.
std::vector<std::string> domains(const KeyFile& file);

// What is wrong with a name of a member or a domain, or "".
std::string key_name_problem(std::string_view name);

// What a member's entry in the lock opens.
struct Access {
  Secret root;
  SigningKey signer;
};
// A file with its root key and the key that signs changes.
struct UnlockedKeys {
  KeyFile file;
  Access access;
};

// The file as a remote keeps it: the members without names and the chain in clear, everything else sealed under the
// root key. So it shows no name of a person or a domain, but without a key one can tell which of two files is newer.
struct SealedKeys {
  KeyFile lock;  // ring, members and chain; nothing else
  Bytes outside, sealed;
};
SealedKeys decode_sealed_keys(ByteView bytes, const std::string& what);

// The parts of the bytes that seals, signatures and the MAC are made over.
Bytes member_entry(const Member& member);    // all of it
Bytes member_binding(const Member& member);  // authenticated by its wrapped root key
Bytes key_prefix(const DataKey& key);        // bytes 0 to 127
Bytes encode_lock(const KeyFile& file);      // the part of a remote's keys that is in clear
// False if trying all passphrases costs more than allowed: 16 of them at passphrase_member()'s cost.
bool can_be_opened(const KeyFile& file);
// Both take sealed data keys as zero bytes, so that erasing one changes neither:
Bytes encode_for_mac(const KeyFile& file);
Digest state_of(const KeyFile& file);  // of this revision, without the chain

}  // namespace mlx::store
