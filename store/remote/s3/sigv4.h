// AWS Signature Version 4: the headers that prove to an S3 server who sent a request. A pure function of the request,
// the key and the time, as Amazon publishes it ("Authenticating Requests: Using the
// Authorization Header"). Used by client.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace mlx::store::s3 {

struct Credentials {
  std::string access_key, secret_key;
  std::string session_token;  // "" for a permanent key
};

using Header = std::pair<std::string, std::string>;  // name and value

struct SignedParts {
  std::string method;           // "GET"
  std::string path;             // percent-encoded, begins with '/'
  std::string query;            // percent-encoded "a=b&c="; sorted here
  std::vector<Header> headers;  // all are signed; `host` and `x-amz-date` must be among them
  std::string payload_hash;     // lower-case hex SHA-256 of the body
};

// The value of the header `Authorization`. `date` is that of `x-amz-date`: "20130524T000000Z".
std::string authorization(const SignedParts& request, const Credentials& credentials, const std::string& region,
                          const std::string& service, const std::string& date);

std::string amz_date(std::int64_t unix_micros);

// Everything but A-Z a-z 0-9 - . _ ~ as %XX; '/' stays if `keep_slash`.
std::string percent_encode(std::string_view text, bool keep_slash);

}  // namespace mlx::store::s3
