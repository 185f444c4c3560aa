// The keys of domains: an unlocked key file (key_changes.h) gives them, Stores and transfers encrypt with them. With an
// empty ring everything is plain.
//
// A KeyRing does not change once it is shared between threads. Memory that held keys is wiped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/crypto.h"

namespace mlx::store {

inline constexpr const char* kMainDomain = "main";        // of artifacts without a domain of their own
inline constexpr const char* kHistoryDomain = "history";  // of operations and whatever belongs to no artifact

// The keys made of one data key (mlx-format-keys(5)).
struct DomainKey {
  std::uint32_t id = 0;  // never 0
  std::string domain;
  bool current = false;  // new content of the domain is encrypted with this key
  Secret ids, content, nonces;
};
DomainKey derive_domain_key(std::uint32_t id, const std::string& domain, bool current, ByteView data_key);

class KeyRing {
 public:
  void add(DomainKey key) { keys_.push_back(std::move(key)); }
  bool empty() const { return keys_.empty(); }
  const std::vector<DomainKey>& keys() const { return keys_; }
  const DomainKey* find(std::uint32_t id) const;  // nullptr if it is not in the ring
  const DomainKey* find_current(const std::string& domain) const;
  const DomainKey& current(const std::string& domain) const;  // kRefused if the domain has none

 private:
  std::vector<DomainKey> keys_;
};

// Gives a store its keys when it first needs them: unlocking may ask the user, and takes a tenth of a second.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Thread-safe; kRefused, with a hint, if no key is unlocked.
  virtual std::shared_ptr<const KeyRing> ring() = 0;
};

// HMAC-SHA-256 of the id under the domain's key.
Digest storage_id(const DomainKey& key, const Digest& id);

}  // namespace mlx::store
