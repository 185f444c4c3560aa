// MD5 (RFC 1321, through OpenSSL), which other tools know their files by: to check what comes from their caches, and
// for nothing else, since it can be forged. A header of its own, as hash.h is included nearly everywhere.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"

namespace mlx {

// Incremental; kMissing where this OpenSSL offers no MD5 (FIPS).
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
