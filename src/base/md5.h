// MD5 (RFC 1321, through OpenSSL), by which other tools name their files. Only for checking files from their caches,
// since it can be forged. A header of its own, because nearly everything includes hash.h.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"

namespace mlx {

// Incremental; kMissing if this OpenSSL offers no MD5 (FIPS).
class Md5 {
 public:
  Md5();
  ~Md5();
  void update(ByteView bytes);
  std::string finish();  // 32 lower-case hex digits; once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx
