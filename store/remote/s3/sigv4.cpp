// Canonical request, string to sign, derived key: the three steps of the published algorithm, in that order.
#include "store/remote/s3/sigv4.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "base/crypto.h"
#include "base/text.h"

namespace mlx::store::s3 {

namespace {

// Without spaces at the ends; runs of spaces inside become one.
std::string folded(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string canonical_query(std::string_view query) {
  std::vector<Header> parts;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    parts.emplace_back(part.substr(0, equals), equals == part.npos ? "" : part.substr(equals + 1));
  }
  std::ranges::sort(parts);
  std::string out;
  for (const auto& [name, value] : parts) out += (out.empty() ? "" : "&") + name + "=" + value;
  return out;
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string amz_date(std::int64_t unix_micros) {
  const std::time_t seconds = unix_micros / 1'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

std::string authorization(const SignedParts& request, const Credentials& credentials, const std::string& region,
                          const std::string& service, const std::string& date) {
  std::vector<Header> headers;
  for (const auto& [name, value] : request.headers) headers.emplace_back(lower(name), folded(value));
  std::ranges::sort(headers);
  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path,
                                            canonical_query(request.query), lines, names, request.payload_hash);

  const std::string day = date.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, scope, Digest::of(canonical).hex());

  Digest key = hmac_sha256(as_bytes("AWS4" + credentials.secret_key), as_bytes(day));
  for (const std::string_view step :
       {std::string_view(region), std::string_view(service), std::string_view("aws4_request")})
    key = hmac_sha256(key.bytes, as_bytes(step));
  const Digest signature = hmac_sha256(key.bytes, as_bytes(to_sign));
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", credentials.access_key, scope,
                     names, signature.hex());
}

}  // namespace mlx::store::s3
