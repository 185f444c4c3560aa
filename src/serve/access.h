// Who may ask a server: API keys, of which only digests are known here, with what each may do and how often.
//
// Used by http/service.cpp on the I/O thread; what the keys are is set from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace mlx::serve {

struct ApiKey {
  std::string name;
  Digest digest;  // SHA-256 of the key's text
  bool infer = true, metrics = false;
  std::vector<std::string> models{};  // the names of those that it may ask; empty: all
  std::int64_t expires = 0;           // microseconds since 1970; 0: never
  std::int64_t per_minute = 0;        // requests; 0: any number
  std::int64_t per_day = 0;           // the same, of a day in UTC
  bool may_ask(std::string_view model) const;
};
using ApiKeyPtr = std::shared_ptr<const ApiKey>;

// What a route needs. kOptional: as kInfer, but it answers those without a key, too, and tells them nothing of models.
enum class Need : std::uint8_t { kNothing, kOptional, kInfer, kMetrics };

class Access {
 public:
  // From here on these keys are needed, also if there are none.
  void set(std::vector<ApiKey> keys);
  bool needed() const;
  // The key that a request brings ("" if none), or null where none is needed or brought. Counts the request. `now`: as
  // expires. Throws RefusedRequest: 401 without a key that holds, 403 for one that may not do this, 429 for too many
  // requests.
  ApiKeyPtr admit(std::string_view text, Need need, std::int64_t now);

 private:
  struct Use {
    double left = 0;        // of a minute's requests
    std::int64_t seen = 0;  // when that was
    std::int64_t day = 0, today = 0;
  };
  ApiKeyPtr find(const Digest& digest) const;
  void count(const ApiKey& key, std::int64_t now);

  mutable std::mutex mutex_;
  bool needed_ = false;
  std::vector<ApiKeyPtr> keys_;
  std::unordered_map<Digest, Use, DigestHash> uses_;
};

}  // namespace mlx::serve
