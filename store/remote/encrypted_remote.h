// A remote that holds nothing in clear, over any backend. Callers use plain ids and plain stored objects; the backend
// below sees storage ids and encrypted objects. So every backend is encrypted in the same way, and none knows a key.
//
// Not thread-safe. The callbacks that read and take objects are called by several threads at once.
#pragma once

#include <unordered_map>

#include "store/crypto/keys.h"
#include "store/limits.h"
#include "store/remote/remote.h"

namespace mlx::store {

class EncryptedRemote final : public Remote {
 public:
  EncryptedRemote(std::unique_ptr<Remote> inner, std::shared_ptr<const KeyRing> ring,
                  const Interruption& interruption = Interruption::never())
      : inner_(std::move(inner)), ring_(std::move(ring)), interruption_(interruption) {}

  Remote& inner() { return *inner_; }
  // Of objects but operations, which always belong to kHistoryDomain. With "" only operations can be sent.
  void set_domain(const std::string& domain);
  // The operations that this clone knows. If a head is not among them, the remote's unknown operations are read.
  void expect_operations(const std::vector<Digest>& ids);

  std::vector<Digest> heads() override;
  std::vector<Digest> operations() override;
  std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) override;
  void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) override;
  void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) override;
  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override;
  std::vector<std::string> damage() override { return inner_->damage(); }
  std::vector<std::string> look_for_lost() override { return inner_->look_for_lost(); }
  bool repair(RepairReport& report, Progress& progress) override { return inner_->repair(report, progress); }
  bool drop(const std::vector<ObjectKey>& keys, RepairReport& report, Progress& progress) override;
  std::vector<std::string> mended() override { return inner_->mended(); }
  std::optional<Bytes> read_file(const std::string& name) override { return inner_->read_file(name); }
  bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) override {
    return inner_->write_file(name, expected, bytes);
  }

 private:
  std::vector<const DomainKey*> keys_for(ObjectKind kind) const;
  std::vector<Digest> read_unknown_operations(const std::vector<Digest>& held);
  std::vector<Digest> storage_ids_of_heads(const std::vector<Digest>& heads);

  std::unique_ptr<Remote> inner_;
  std::shared_ptr<const KeyRing> ring_;
  const Interruption& interruption_;
  std::string domain_;
  std::unordered_map<ObjectKey, ObjectKey, ObjectKeyHash> found_;            // plain key → where the remote has it
  std::unordered_map<Digest, Digest, DigestHash> operations_;                // storage id → plain id
  std::unordered_map<Digest, StoredObject, DigestHash> unknown_operations_;  // plain id → plain object, as it was sent
  OperationIntake intake_;                                                   // counts unknown_operations_
};

// The remote as an encrypted one, or nullptr.
EncryptedRemote* as_encrypted(Remote& remote);

}  // namespace mlx::store
