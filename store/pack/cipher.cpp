// Nonces are a keyed hash of the content. Equal objects encrypt to equal bytes: a retried upload repeats itself, and
// nothing depends on the quality of a random generator. Two different objects share a nonce with a chance of 2^-97.
// Equal ciphertexts reveal nothing: equal objects have one storage id and are stored once.
#include "store/pack/cipher.h"

#include "base/error.h"
#include "store/format/codec.h"

namespace mlx::store {

namespace {

// Everything about an object that is stored in clear: authenticated, so that none of it can be changed.
Bytes additional_data(const StoredObject& sealed) {
  ByteWriter out;
  out.raw(sealed.key.id.bytes);
  out.u8(static_cast<std::uint8_t>(sealed.key.kind));
  out.u8(static_cast<std::uint8_t>(sealed.encoding));
  out.u16(static_cast<std::uint16_t>(sealed.extra.size()));
  out.u32(sealed.key_id);
  out.u32(sealed.plain_size);
  out.raw(sealed.extra);
  return out.take();
}

}  // namespace

StoredObject seal(const DomainKey& key, const StoredObject& plain, ByteView extra) {
  StoredObject sealed;
  sealed.key = {storage_id(key, plain.key.id), plain.key.kind};
  sealed.encoding = plain.encoding;
  sealed.key_id = key.id;
  sealed.plain_size = plain.plain_size;
  sealed.extra.assign(extra.begin(), extra.end());
  const Bytes additional = additional_data(sealed);
  const Digest nonce = hmac_sha256(key.nonces, additional, plain.stored);
  sealed.stored = aes_gcm_seal(key.content, ByteView(nonce.bytes).first(kNonceSize), additional, plain.stored);
  sealed.checksum = stored_checksum(sealed.stored);
  return sealed;
}

Bytes open_sealed(const DomainKey& key, const StoredObject& sealed, const std::string& where) {
  Bytes payload;
  if (sealed.key_id != key.id || !aes_gcm_open(key.content, additional_data(sealed), sealed.stored, payload)) {
    fail(ErrorKind::kCorrupt, "{}: object {} is damaged (it does not decrypt)", where, sealed.key.id.brief());
  }
  return payload;
}

StoredObject open_object(const KeyRing& ring, const Digest& id, const StoredObject& sealed, const std::string& where) {
  const DomainKey* key = ring.find(sealed.key_id);
  if (!key) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: object {} is encrypted with key {:08x}, which is not among the keys", where,
                            sealed.key.id.brief(), sealed.key_id),
                "`mlx pull` brings keys that others have made; an erased one is gone for good");
  }
  if (storage_id(*key, id) != sealed.key.id)
    fail(ErrorKind::kCorrupt, "{}: object {} is not what was asked for", where, sealed.key.id.brief());
  StoredObject plain;
  plain.key = {id, sealed.key.kind};
  plain.encoding = sealed.encoding;
  plain.plain_size = sealed.plain_size;
  plain.stored = open_sealed(*key, sealed, where);
  plain.checksum = stored_checksum(plain.stored);
  if (plain.encoding == Encoding::kDelta) {
    const Digest base = delta_base(plain.stored, where);
    plain.extra.assign(base.bytes.begin(), base.bytes.end());
  }
  return plain;
}

}  // namespace mlx::store
