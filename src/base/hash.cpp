// SHA-256 through OpenSSL's EVP. The algorithm is fetched once and contexts are reused, because most of what is hashed
// is small (chunks, manifests, keys) and setting up would cost more than hashing.

#include "base/hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"

namespace mlx {
namespace {

[[noreturn]] void no_sha256() {
  throw Error(ErrorKind::kMissing, "OpenSSL offers no SHA-256",
              "check the machine's OpenSSL configuration (openssl.cnf)");
}

// Never freed: OpenSSL releases it at exit, after the last static object that might still hash.
const EVP_MD* algorithm() {
  static const EVP_MD* const md = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (md == nullptr) no_sha256();
  return md;
}

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

Context new_context() {
  Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!context) throw std::bad_alloc();
  if (EVP_DigestInit_ex2(context.get(), algorithm(), nullptr) != 1) no_sha256();
  return context;
}

// Keeps the context's algorithm and starts over.
void restart(EVP_MD_CTX* context) {
  if (EVP_DigestInit_ex2(context, nullptr, nullptr) != 1) no_sha256();
}

void absorb(EVP_MD_CTX* context, ByteView bytes) {
  if (!bytes.empty() && EVP_DigestUpdate(context, bytes.data(), bytes.size()) != 1) no_sha256();
}

Digest conclude(EVP_MD_CTX* context) {
  Digest digest;
  unsigned length = 0;
  if (EVP_DigestFinal_ex(context, digest.bytes.data(), &length) != 1) no_sha256();
  return digest;
}

}  // namespace

Digest Digest::of(ByteView bytes) {
  thread_local const Context context = new_context();
  restart(context.get());
  absorb(context.get(), bytes);
  return conclude(context.get());
}

Digest Digest::from(ByteView raw) {
  Digest digest;
  if (raw.size() != digest.bytes.size()) fail(ErrorKind::kCorrupt, "a SHA-256 digest has 32 bytes, not {}", raw.size());
  std::ranges::copy(raw, digest.bytes.begin());
  return digest;
}

Digest Digest::parse(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  std::string_view digits = text;
  if (digits.starts_with(kPrefix)) digits.remove_prefix(kPrefix.size());
  const bool lower_hex =
      std::ranges::all_of(digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (digits.size() != 64 || !lower_hex) {
    fail(ErrorKind::kCorrupt, "'{}' is not a digest: expected sha256: and 64 lower-case hex digits",
         text.substr(0, 80));
  }
  return from(from_hex(digits));
}

struct Sha256::State {
  Context context = new_context();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView bytes) {
  absorb(state_->context.get(), bytes);
}

Digest Sha256::finish() {
  const Digest digest = conclude(state_->context.get());
  restart(state_->context.get());
  return digest;
}

}  // namespace mlx
