// MD5 through OpenSSL's EVP.
#include "base/md5.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace mlx {

struct Md5::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void must(int code) {
  if (code == 1) return;
  throw Error(ErrorKind::kMissing, "OpenSSL offers no MD5", "it may be set up for FIPS (openssl.cnf)");
}

}  // namespace

Md5::Md5() : state_(std::make_unique<State>()) {
  if (state_->context == nullptr) throw std::bad_alloc();
  must(EVP_DigestInit_ex(state_->context, EVP_md5(), nullptr));
}

Md5::~Md5() = default;

void Md5::update(ByteView bytes) {
  if (!bytes.empty()) must(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Md5::finish() {
  std::array<std::uint8_t, 16> sum{};
  unsigned length = 0;
  must(EVP_DigestFinal_ex(state_->context, sum.data(), &length));
  return to_hex(sum);
}

}  // namespace mlx
