// Translates between the two sides. An object may be stored under any key that its domain ever had, so it is looked up
// under all of them; new ones go under the current key.
#include "store/remote/encrypted_remote.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "base/error.h"
#include "store/format/codec.h"
#include "store/pack/cipher.h"

namespace mlx::store {

namespace {

using KeySet = std::unordered_set<ObjectKey, ObjectKeyHash>;

constexpr const char* kWhere = "the encrypted remote";

// The plain bytes of an object whose id is not known yet: an operation.
Bytes decode_payload(const StoredObject& sealed, ByteView payload) {
  PackRecord record = record_of(sealed);
  Bytes plain;
  Codec().decode_unidentified(record, payload, plain, kWhere);
  return plain;
}

}  // namespace

EncryptedRemote* as_encrypted(Remote& remote) {
  return dynamic_cast<EncryptedRemote*>(&remote);
}

void EncryptedRemote::set_domain(const std::string& domain) {
  if (domain == domain_) return;
  domain_ = domain;
  found_.clear();  // the same content may stand in one domain and not in the other
}

std::vector<const DomainKey*> EncryptedRemote::keys_for(ObjectKind kind) const {
  const std::string domain = kind == ObjectKind::kOperation ? kHistoryDomain : domain_;
  std::vector<const DomainKey*> keys;
  for (const DomainKey& key : ring_->keys()) {
    if (domain.empty() || key.domain == domain) keys.push_back(&key);
  }
  return keys;
}

std::vector<ObjectKey> EncryptedRemote::missing(const std::vector<ObjectKey>& keys) {
  std::vector<ObjectKey> asked;
  for (const ObjectKey& key : keys) {
    if (found_.contains(key)) continue;
    for (const DomainKey* with : keys_for(key.kind)) asked.push_back({storage_id(*with, key.id), key.kind});
  }
  const std::vector<ObjectKey> absent = asked.empty() ? asked : inner_->missing(asked);
  const KeySet lacking(absent.begin(), absent.end());
  std::vector<ObjectKey> result;
  KeySet seen;
  auto next = asked.begin();
  for (const ObjectKey& key : keys) {
    if (found_.contains(key) && !seen.contains(key)) continue;
    bool found = false;
    for (std::size_t i = keys_for(key.kind).size(); i > 0; --i, ++next) {
      if (!lacking.contains(*next)) found_[key] = *next, found = true;
    }
    if (seen.insert(key).second && !found) result.push_back(key);
  }
  return result;
}

void EncryptedRemote::send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) {
  std::unordered_map<ObjectKey, const ObjectKey*, ObjectKeyHash> plain_of;
  std::vector<ObjectKey> sent;
  const auto writer = [&](ObjectKind kind) -> const DomainKey& {
    return ring_->current(kind == ObjectKind::kOperation ? kHistoryDomain : domain_);
  };
  for (const ObjectKey& key : keys) {
    const ObjectKey target{storage_id(writer(key.kind), key.id), key.kind};
    plain_of.emplace(target, &key);
    sent.push_back(target);
  }
  // Only read by the threads below. A delta's base goes before it, or was asked for before and is there.
  for (std::size_t i = 0; i < keys.size(); ++i) found_.emplace(keys[i], sent[i]);
  const auto seal_one = [&](const ObjectKey& target) {
    const StoredObject plain = read(*plain_of.at(target));
    Bytes extra;
    if (const auto base = base_of(plain)) {
      const auto at = found_.find(*base);
      const Digest id = at != found_.end() ? at->second.id : storage_id(writer(base->kind), base->id);
      extra.assign(id.bytes.begin(), id.bytes.end());
    }
    return seal(writer(target.kind), plain, extra);
  };
  try {
    inner_->send(sent, seal_one, progress);
  } catch (...) {
    found_.clear();  // what arrived is asked again
    throw;
  }
}

void EncryptedRemote::receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) {
  std::vector<ObjectKey> wanted;
  for (const ObjectKey& key : keys) {
    const auto known = unknown_operations_.find(key.id);
    if (key.kind == ObjectKind::kOperation && known != unknown_operations_.end()) {
      take(StoredObject(known->second));
    } else {
      wanted.push_back(key);
    }
  }
  if (const auto absent = missing(wanted); !absent.empty()) {
    fail(ErrorKind::kNotFound, "{} lacks {} of the needed objects, for example {}", kWhere, absent.size(),
         absent.front().id.brief());
  }
  std::unordered_map<ObjectKey, Digest, ObjectKeyHash> plain_of;
  std::vector<ObjectKey> asked;
  for (const ObjectKey& key : wanted) {
    if (plain_of.emplace(found_.at(key), key.id).second) asked.push_back(found_.at(key));
  }
  if (asked.empty()) return;
  const auto open = [&](StoredObject&& sealed) {
    StoredObject object = open_object(*ring_, plain_of.at(sealed.key), sealed, kWhere);
    object.came_under = sealed.key_id;
    take(std::move(object));
  };
  inner_->receive(asked, open, progress);
}

// Under every key that they may be stored under.
bool EncryptedRemote::drop(const std::vector<ObjectKey>& keys, RepairReport& report, Progress& progress) {
  std::vector<ObjectKey> stored;
  for (const ObjectKey& key : keys) {
    for (const DomainKey* with : keys_for(key.kind)) stored.push_back({storage_id(*with, key.id), key.kind});
  }
  found_.clear();
  return inner_->drop(stored, report, progress);
}

void EncryptedRemote::expect_operations(const std::vector<Digest>& ids) {
  for (const DomainKey* key : keys_for(ObjectKind::kOperation)) {
    for (const Digest& id : ids) operations_.emplace(storage_id(*key, id), id);
  }
}

// Those of `held` (storage ids) that this clone does not know are read and kept: a fetch wants them next.
std::vector<Digest> EncryptedRemote::read_unknown_operations(const std::vector<Digest>& held) {
  std::vector<ObjectKey> unknown;
  for (const Digest& id : held) {
    if (!operations_.contains(id)) unknown.push_back({id, ObjectKind::kOperation});
  }
  std::mutex mutex;
  NoProgress quiet(interruption_);
  const auto take = [&](StoredObject&& sealed) {
    {
      std::lock_guard lock(mutex);
      intake_.count(sealed.plain_size, sealed.stored.size(), kWhere);
    }
    const DomainKey* key = ring_->find(sealed.key_id);
    if (!key) return;  // its key is not here: whoever needs it reports that
    const Digest id = Digest::of(decode_payload(sealed, open_sealed(*key, sealed, kWhere)));
    StoredObject plain = open_object(*ring_, id, sealed, kWhere);
    std::lock_guard lock(mutex);
    operations_.emplace(sealed.key.id, id);
    unknown_operations_.emplace(id, std::move(plain));
  };
  if (!unknown.empty()) inner_->receive(unknown, take, quiet);
  std::vector<Digest> plain;
  for (const Digest& id : held) {
    const auto known = operations_.find(id);
    if (known != operations_.end()) plain.push_back(known->second);
  }
  return plain;
}

std::vector<Digest> EncryptedRemote::heads() {
  const std::vector<Digest> stored = inner_->heads();
  std::vector<Digest> plain = read_unknown_operations(stored);
  if (plain.size() != stored.size()) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: its newest operations are under a key that is not in its keys", kWhere),
                "whoever pushed last has to `mlx push` again");
  }
  std::ranges::sort(plain);
  return plain;
}

std::vector<Digest> EncryptedRemote::operations() {
  return read_unknown_operations(inner_->operations());
}

std::vector<Digest> EncryptedRemote::storage_ids_of_heads(const std::vector<Digest>& heads) {
  std::vector<ObjectKey> keys;
  keys.reserve(heads.size());
  for (const Digest& head : heads) keys.push_back({head, ObjectKind::kOperation});
  if (const auto absent = missing(keys); !absent.empty())
    fail(ErrorKind::kIo, "{}: operation {} was sent and is not there", kWhere, absent.front().id.brief());
  std::vector<Digest> stored;
  stored.reserve(keys.size());
  for (const ObjectKey& key : keys) stored.push_back(found_.at(key).id);
  std::ranges::sort(stored);
  return stored;
}

bool EncryptedRemote::publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) {
  std::vector<Digest> before;
  try {
    before = inner_->heads();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;  // lost heads count as none
  }
  std::vector<Digest> known = read_unknown_operations(before), wanted = expected;
  std::ranges::sort(known);
  std::ranges::sort(wanted);
  if (known != wanted) return false;
  return inner_->publish_heads(before, storage_ids_of_heads(heads));
}

}  // namespace mlx::store
