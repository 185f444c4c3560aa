// EVP throughout. Ciphers are fetched once and their contexts kept by each thread: most of what is sealed is small.
#include "base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace mlx {

namespace {

constexpr std::size_t kBlock = 64;  // of SHA-256

[[noreturn]] void no_crypto(const char* what) {
  throw Error(ErrorKind::kMissing, fmt::format("OpenSSL offers no {}", what),
              "check the machine's OpenSSL configuration (openssl.cnf)");
}

void require(bool done, const char* what) {
  if (!done) no_crypto(what);
}

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Freer<EVP_CIPHER_CTX_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freer<EVP_PKEY_CTX_free>>;

using HashContext = std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>>;

Key ed25519_key(const Secret& seed) {
  Key key(EVP_PKEY_new_raw_private_key_ex(nullptr, "ED25519", nullptr, ByteView(seed).data(), seed.size()));
  require(key != nullptr, "Ed25519");
  return key;
}

const EVP_CIPHER* aes_256_gcm() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);  // never freed
  require(cipher != nullptr, "AES-256-GCM");
  return cipher;
}

EVP_CIPHER_CTX* cipher_context() {
  thread_local const CipherContext context(EVP_CIPHER_CTX_new());
  if (!context) throw std::bad_alloc();
  return context.get();
}

// Wipes the key schedule from the thread's context.
struct Reset {
  EVP_CIPHER_CTX* context;
  ~Reset() { EVP_CIPHER_CTX_reset(context); }
};

// Writes ciphertext | tag. `key`: null if the context has one.
void seal_in(EVP_CIPHER_CTX* context, const std::uint8_t* key, ByteView nonce, ByteView additional, ByteView plain,
             std::uint8_t* sealed) {
  int size = 0;
  bool done = EVP_EncryptInit_ex2(context, key ? aes_256_gcm() : nullptr, key, nonce.data(), nullptr) == 1;
  done =
      done && EVP_EncryptUpdate(context, nullptr, &size, additional.data(), static_cast<int>(additional.size())) == 1;
  if (!plain.empty())
    done = done && EVP_EncryptUpdate(context, sealed, &size, plain.data(), static_cast<int>(plain.size())) == 1;
  std::uint8_t* const tag = sealed + plain.size();
  done = done && EVP_EncryptFinal_ex(context, tag, &size) == 1;
  done = done && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagSize, tag) == 1;
  require(done, "AES-256-GCM");
}

// False, and `plain` is zero, if the tag does not match.
bool open_in(EVP_CIPHER_CTX* context, const std::uint8_t* key, ByteView nonce, ByteView additional, ByteView sealed,
             std::uint8_t* plain) {
  const ByteView body = sealed.first(sealed.size() - kTagSize);
  std::array<std::uint8_t, kTagSize> tag;
  std::copy(sealed.end() - kTagSize, sealed.end(), tag.begin());
  int size = 0;
  bool done = EVP_DecryptInit_ex2(context, key ? aes_256_gcm() : nullptr, key, nonce.data(), nullptr) == 1;
  done =
      done && EVP_DecryptUpdate(context, nullptr, &size, additional.data(), static_cast<int>(additional.size())) == 1;
  if (!body.empty())
    done = done && EVP_DecryptUpdate(context, plain, &size, body.data(), static_cast<int>(body.size())) == 1;
  done = done && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagSize, tag.data()) == 1;
  require(done, "AES-256-GCM");
  std::uint8_t none = 0;  // GCM adds no bytes at the end
  if (EVP_DecryptFinal_ex(context, &none, &size) == 1) return true;
  OPENSSL_cleanse(plain, body.size());  // not authenticated
  return false;
}

std::array<std::uint8_t, kBlock> padded_key(ByteView key, std::uint8_t mask) {
  std::array<std::uint8_t, kBlock> block{};
  if (key.size() <= kBlock) {
    std::copy(key.begin(), key.end(), block.begin());
  } else {
    const Digest hashed = Digest::of(key);
    std::copy(hashed.bytes.begin(), hashed.bytes.end(), block.begin());
  }
  for (std::uint8_t& byte : block) byte ^= mask;
  return block;
}

Digest outer_hash(ByteView key, const Digest& inner) {
  std::array<std::uint8_t, kBlock + 32> message;
  const auto block = padded_key(key, 0x5c);
  std::copy(block.begin(), block.end(), message.begin());
  std::copy(inner.bytes.begin(), inner.bytes.end(), message.begin() + kBlock);
  const Digest result = Digest::of(message);
  OPENSSL_cleanse(message.data(), message.size());
  return result;
}

Key raw_private(const Secret& private_key) {
  Key key(
      EVP_PKEY_new_raw_private_key_ex(nullptr, "X25519", nullptr, ByteView(private_key).data(), private_key.size()));
  require(key != nullptr, "X25519");
  return key;
}

}  // namespace

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) {
    wipe();
    bytes_ = other.bytes_;
  }
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

bool Secret::operator==(const Secret& other) const {
  return equal_in_constant_time(*this, other);
}

void Secret::wipe() {
  if (!bytes_.empty()) OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

bool equal_in_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<std::uint8_t> out) {
  require(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1, "random numbers");
}

void wipe(std::span<std::uint8_t> bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

Digest hmac_sha256(ByteView key, ByteView message) {
  if (message.size() > kBlock) return hmac_sha256(key, message, {});
  std::array<std::uint8_t, 2 * kBlock> inner;  // on the stack: most of what is authenticated is an id
  const auto block = padded_key(key, 0x36);
  std::copy(block.begin(), block.end(), inner.begin());
  std::copy(message.begin(), message.end(), inner.begin() + kBlock);
  const Digest hashed = Digest::of(ByteView(inner).first(kBlock + message.size()));
  OPENSSL_cleanse(inner.data(), inner.size());
  return outer_hash(key, hashed);
}

Digest hmac_sha256(ByteView key, ByteView first, ByteView second) {
  Sha256 inner;
  inner.update(padded_key(key, 0x36));
  inner.update(first);
  inner.update(second);
  return outer_hash(key, inner.finish());
}

// RFC 5869, with its empty salt being 32 zero bytes.
Secret hkdf_sha256(ByteView input, ByteView salt, std::string_view info, std::size_t size) {
  const std::array<std::uint8_t, 32> no_salt{};
  Digest key = hmac_sha256(salt.empty() ? ByteView(no_salt) : salt, input);
  Secret out(size);
  Digest block;
  std::uint8_t counter = 0;
  for (std::size_t done = 0; done < size;) {
    const std::size_t before = counter > 0 ? block.bytes.size() : 0;  // all but the first include the block before
    Bytes message(before + info.size() + 1);
    std::copy_n(block.bytes.begin(), before, message.begin());
    std::ranges::copy(info, message.begin() + static_cast<std::ptrdiff_t>(before));
    message.back() = ++counter;
    block = hmac_sha256(key.bytes, message);
    OPENSSL_cleanse(message.data(), message.size());
    const std::size_t part = std::min<std::size_t>(32, size - done);
    std::copy_n(block.bytes.begin(), part, out.data() + done);
    done += part;
  }
  OPENSSL_cleanse(key.bytes.data(), key.bytes.size());
  OPENSSL_cleanse(block.bytes.data(), block.bytes.size());
  return out;
}

Bytes aes_gcm_seal(ByteView key, ByteView nonce, ByteView additional, ByteView plain) {
  EVP_CIPHER_CTX* const context = cipher_context();
  const Reset reset{context};
  Bytes sealed(kSealedExtra + plain.size());
  std::copy(nonce.begin(), nonce.end(), sealed.begin());
  seal_in(context, key.data(), nonce, additional, plain, sealed.data() + kNonceSize);
  return sealed;
}

bool aes_gcm_open(ByteView key, ByteView additional, ByteView sealed, Bytes& plain) {
  plain.clear();
  if (sealed.size() < kSealedExtra) return false;
  EVP_CIPHER_CTX* const context = cipher_context();
  const Reset reset{context};
  plain.resize(sealed.size() - kSealedExtra);
  if (open_in(context, key.data(), sealed.first(kNonceSize), additional, sealed.subspan(kNonceSize), plain.data()))
    return true;
  plain.clear();
  return false;
}

struct AesGcm::State {
  EVP_CIPHER_CTX *seals = EVP_CIPHER_CTX_new(), *opens = EVP_CIPHER_CTX_new();  // wiped when they are freed
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    EVP_CIPHER_CTX_free(seals);
    EVP_CIPHER_CTX_free(opens);
  }
};

AesGcm::AesGcm(ByteView key) : state_(std::make_unique<State>()) {
  if (!state_->seals || !state_->opens) throw std::bad_alloc();
  require(EVP_EncryptInit_ex2(state_->seals, aes_256_gcm(), key.data(), nullptr, nullptr) == 1 &&
              EVP_DecryptInit_ex2(state_->opens, aes_256_gcm(), key.data(), nullptr, nullptr) == 1,
          "AES-256-GCM");
}

AesGcm::~AesGcm() = default;
AesGcm::AesGcm(AesGcm&&) noexcept = default;
AesGcm& AesGcm::operator=(AesGcm&&) noexcept = default;

void AesGcm::seal(ByteView nonce, ByteView additional, ByteView plain, std::uint8_t* sealed) {
  seal_in(state_->seals, nullptr, nonce, additional, plain, sealed);
}

bool AesGcm::open(ByteView nonce, ByteView additional, ByteView sealed, std::uint8_t* plain) {
  return open_in(state_->opens, nullptr, nonce, additional, sealed, plain);
}

Secret scrypt(ByteView passphrase, ByteView salt, const ScryptCost& cost, std::size_t size) {
  Secret out(size);
  const std::uint64_t n = std::uint64_t{1} << cost.log2_n;
  const auto r = static_cast<std::uint64_t>(cost.r), p = static_cast<std::uint64_t>(cost.p);
  const std::uint64_t memory = 128 * r * (n + p + 2) + (std::uint64_t{1} << 20);
  const auto* text = reinterpret_cast<const char*>(passphrase.data());
  require(EVP_PBE_scrypt(text == nullptr ? "" : text, passphrase.size(), salt.data(), salt.size(), n, r, p, memory,
                         out.data(), out.size()) == 1,
          "scrypt");
  return out;
}

KeyPair x25519_pair(const Secret& private_key) {
  KeyPair pair{private_key, {}};
  std::size_t size = pair.public_key.bytes.size();
  require(EVP_PKEY_get_raw_public_key(raw_private(private_key).get(), pair.public_key.bytes.data(), &size) == 1,
          "X25519");
  return pair;
}

KeyPair x25519_generate() {
  Secret key(32);
  random_bytes({key.data(), key.size()});
  return x25519_pair(key);
}

std::optional<Secret> x25519_agree(const Secret& private_key, const Digest& peer) {
  const Key own = raw_private(private_key);
  const Key other(EVP_PKEY_new_raw_public_key_ex(nullptr, "X25519", nullptr, peer.bytes.data(), peer.bytes.size()));
  const KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, own.get(), nullptr));
  require(other && context && EVP_PKEY_derive_init(context.get()) == 1, "X25519");
  Secret shared(32);
  std::size_t size = shared.size();
  if (EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1) return {};
  if (EVP_PKEY_derive(context.get(), shared.data(), &size) != 1) return {};
  return shared;
}

Digest ed25519_public(const Secret& seed) {
  Digest key;
  std::size_t size = key.bytes.size();
  require(EVP_PKEY_get_raw_public_key(ed25519_key(seed).get(), key.bytes.data(), &size) == 1, "Ed25519");
  return key;
}

Ed25519Signature ed25519_sign(const Secret& seed, ByteView message) {
  const Key key = ed25519_key(seed);
  const HashContext context(EVP_MD_CTX_new());
  Ed25519Signature signature{};
  std::size_t size = signature.size();
  require(context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
              EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) == 1,
          "Ed25519");
  return signature;
}

bool ed25519_verify(const Digest& public_key, ByteView message, const Ed25519Signature& signature) {
  const Key key(
      EVP_PKEY_new_raw_public_key_ex(nullptr, "ED25519", nullptr, public_key.bytes.data(), public_key.bytes.size()));
  const HashContext context(EVP_MD_CTX_new());
  require(key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1, "Ed25519");
  return EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(), message.size()) == 1;
}

std::array<std::uint8_t, 64> sha512(ByteView bytes) {
  std::array<std::uint8_t, 64> hash{};
  unsigned int size = 0;
  require(EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha512(), nullptr) == 1, "SHA-512");
  return hash;
}

}  // namespace mlx
