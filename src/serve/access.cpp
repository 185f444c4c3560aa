// See access.h.
#include "serve/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/crypto.h"
#include "serve/exchange.h"

namespace mlx::serve {
namespace {

constexpr std::int64_t kMinute = 60'000'000, kDay = 1440 * kMinute;

[[noreturn]] void too_many(const std::string& why, std::int64_t wait) {
  const std::int64_t seconds = std::max<std::int64_t>(1, (wait + 999'999) / 1'000'000);
  throw RefusedRequest(429, "rate_limit_exceeded", why, fmt::format("Retry-After: {}\r\n", seconds));
}

}  // namespace

bool ApiKey::may_ask(std::string_view model) const {
  return models.empty() || std::ranges::find(models, model) != models.end();
}

void Access::set(std::vector<ApiKey> keys) {
  const std::lock_guard lock(mutex_);
  needed_ = true;
  keys_.clear();
  for (ApiKey& key : keys) keys_.push_back(std::make_shared<const ApiKey>(std::move(key)));
  std::erase_if(uses_, [this](const auto& each) { return !find(each.first); });
}

// All are compared, and each in constant time.
ApiKeyPtr Access::find(const Digest& digest) const {
  ApiKeyPtr found;
  for (const ApiKeyPtr& key : keys_)
    if (equal_in_constant_time(key->digest.bytes, digest.bytes)) found = key;
  return found;
}

bool Access::needed() const {
  const std::lock_guard lock(mutex_);
  return needed_;
}

ApiKeyPtr Access::admit(std::string_view text, Need need, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  if (!needed_ || need == Need::kNothing) return nullptr;
  if (need == Need::kOptional && text.empty()) return nullptr;
  const char* const challenge = "WWW-Authenticate: Bearer\r\n";
  if (text.empty())
    throw RefusedRequest(401, "missing_api_key", "this server needs an API key: Authorization: Bearer KEY", challenge);
  ApiKeyPtr key = find(Digest::of(text));
  if (!key) throw RefusedRequest(401, "invalid_api_key", "there is no such API key, or it was revoked", challenge);
  if (key->expires != 0 && now >= key->expires)
    throw RefusedRequest(401, "invalid_api_key", "the API key has expired", challenge);
  if (need == Need::kMetrics ? !key->metrics : !key->infer)
    throw RefusedRequest(403, "insufficient_permissions",
                         fmt::format("this API key lacks the role {}", need == Need::kMetrics ? "metrics" : "infer"));
  count(*key, now);
  return key;
}

// A minute's requests come back evenly, and may be used at once.
void Access::count(const ApiKey& key, std::int64_t now) {
  const auto [found, fresh] = uses_.try_emplace(key.digest);
  Use& use = found->second;
  const auto most = static_cast<double>(key.per_minute);
  if (fresh) use.left = most;
  use.left = std::min(most, use.left + most * static_cast<double>(std::max<std::int64_t>(0, now - use.seen)) / kMinute);
  use.seen = std::max(use.seen, now);
  if (now / kDay != use.day) use.day = now / kDay, use.today = 0;
  if (key.per_day > 0 && use.today >= key.per_day)
    too_many(fmt::format("this API key has made its {} requests of today", key.per_day), kDay - now % kDay);
  if (key.per_minute > 0 && use.left < 1)
    too_many(fmt::format("this API key may make {} requests a minute", key.per_minute),
             static_cast<std::int64_t>((1 - use.left) / most * kMinute));
  use.left -= 1;
  ++use.today;
}

}  // namespace mlx::serve
