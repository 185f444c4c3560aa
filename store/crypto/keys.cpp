// Derivation and look-up of domain keys. Rings are short: a few domains, each with one key for each rotation.
#include "store/crypto/keys.h"

#include "base/error.h"
#include "base/text.h"

namespace mlx::store {

DomainKey derive_domain_key(std::uint32_t id, const std::string& domain, bool current, ByteView data_key) {
  return {id,
          domain,
          current,
          hkdf_sha256(data_key, {}, "mlx ids 1", 32),
          hkdf_sha256(data_key, {}, "mlx content 1", 32),
          hkdf_sha256(data_key, {}, "mlx nonces 1", 32)};
}

const DomainKey* KeyRing::find(std::uint32_t id) const {
  for (const DomainKey& key : keys_) {
    if (key.id == id) return &key;
  }
  return nullptr;
}

const DomainKey* KeyRing::find_current(const std::string& domain) const {
  for (const DomainKey& key : keys_) {
    if (key.current && key.domain == domain) return &key;
  }
  return nullptr;
}

const DomainKey& KeyRing::current(const std::string& domain) const {
  if (const DomainKey* key = find_current(domain)) return *key;
  throw Error(ErrorKind::kRefused, fmt::format("the domain '{}' has no key: it was erased, or never made", domain),
              fmt::format("`mlx key domain add {}` makes one; `mlx key list` lists them", shell_quoted(domain)));
}

Digest storage_id(const DomainKey& key, const Digest& id) {
  return hmac_sha256(key.ids, id.bytes);
}

}  // namespace mlx::store
