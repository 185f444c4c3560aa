// A table of the codes that have a remedy of their own; everything else is told as the server says it.
#include "store/remote/s3/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace mlx::store::s3 {

namespace {

constexpr std::size_t kMaxDocument = 64 << 10;
constexpr std::size_t kMaxMessage = 200;

// The text between <NAME> and </NAME>, with XML's five entities resolved and nothing that a terminal would act on.
std::string element(std::string_view document, const std::string& name) {
  const std::size_t begin = document.find("<" + name + ">");
  if (begin == document.npos) return {};
  std::string_view text = document.substr(begin + name.size() + 2);
  const std::size_t end = text.find("</" + name + ">");
  if (end == text.npos) return {};
  text = text.substr(0, std::min(end, 4 * kMaxMessage));
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string out;
  while (!text.empty() && out.size() < kMaxMessage) {
    std::size_t taken = 1;
    char c = text[0] >= ' ' && text[0] < 0x7f ? text[0] : '?';
    for (const auto& [entity, plain] : kEntities) {
      if (text.starts_with(entity)) taken = entity.size(), c = plain;
    }
    out += c;
    text.remove_prefix(taken);
  }
  return out;
}

struct Remedy {
  const char* code;
  ErrorKind kind;
  const char* what;
  const char* hint;
};

constexpr Remedy kRemedies[] = {
    {"NoSuchBucket", ErrorKind::kNotFound, "the bucket does not exist", "make it first: aws s3 mb s3://BUCKET"},
    {"InvalidAccessKeyId", ErrorKind::kRefused, "the server does not know the access key",
     "check AWS_ACCESS_KEY_ID or AWS_PROFILE, and that they are for this endpoint"},
    {"SignatureDoesNotMatch", ErrorKind::kRefused, "the secret key does not fit the access key",
     "check AWS_SECRET_ACCESS_KEY or the profile's aws_secret_access_key"},
    {"ExpiredToken", ErrorKind::kRefused, "the credentials have expired", "log in again, then run the command again"},
    {"InvalidToken", ErrorKind::kRefused, "the session token is not valid",
     "check AWS_SESSION_TOKEN; it has to belong to the access key"},
    {"AccessDenied", ErrorKind::kRefused, "access denied",
     "the key needs s3:GetObject and s3:PutObject below the prefix, and s3:ListBucket to tell what is missing"},
    {"NotImplemented", ErrorKind::kMissing, "the server does not implement what mlx needs",
     "mlx needs conditional PUT (If-Match, If-None-Match) and range GET"},
};

std::string skew(const HttpResponse& response, std::int64_t clock) {
  const auto date = response.headers.find("date");
  const std::int64_t theirs = date == response.headers.end() ? -1 : parse_http_date(date->second);
  if (theirs < 0) return "differs from the server's";
  const std::int64_t seconds = clock / 1'000'000 - theirs;
  return fmt::format("is {} minutes {} the server's", (std::abs(seconds) + 30) / 60,
                     seconds < 0 ? "behind" : "ahead of");
}

}  // namespace

Problem parse_problem(ByteView body) {
  const std::string_view document = as_text(body.first(std::min(body.size(), kMaxDocument)));
  if (document.find("<Error>") == document.npos && document.find("<Error ") == document.npos) return {};
  return {element(document, "Code"), element(document, "Message")};
}

bool is_passing(int status, const Problem& problem) {
  if (status == 501 || problem.code == "NotImplemented") return false;
  return status >= 500 || status == 429 || status == 408 || status == 409 || problem.code == "RequestTimeout" ||
         problem.code == "SlowDown";
}

Error error_of(const HttpResponse& response, const Problem& problem, const std::string& where, std::int64_t clock) {
  const int status = response.status;
  if (problem.code == "RequestTimeTooSkewed") {
    return Error(ErrorKind::kIo,
                 fmt::format("{}: refused, because this machine's clock {}", where, skew(response, clock)),
                 "set the clock (timedatectl set-ntp true), then run the command again");
  }
  // A HEAD is answered without a document.
  const std::string code = !problem.code.empty() ? problem.code
                           : status == 403       ? "AccessDenied"
                           : status == 501       ? "NotImplemented"
                                                 : "";
  for (const Remedy& remedy : kRemedies) {
    if (code == remedy.code)
      return Error(remedy.kind, fmt::format("{}: {} ({})", where, remedy.what, code), remedy.hint);
  }
  if (status == 401 || status == 403)
    return Error(ErrorKind::kRefused, fmt::format("{}: {}: {}", where, code, problem.message));
  if (status == 404) return Error(ErrorKind::kNotFound, fmt::format("{}: there is no such object", where));
  if (status >= 300 && status < 400) {
    return Error(ErrorKind::kIo, fmt::format("{}: the bucket is elsewhere (HTTP {})", where, status),
                 "set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL_S3 to its server");
  }
  const std::string text = code.empty() ? "" : fmt::format(", {}: {}", code, problem.message);
  return Error(ErrorKind::kIo, fmt::format("{}: the server answered {}{}", where, status, text));
}

std::int64_t parse_http_date(const std::string& text) {
  std::tm utc{};
  const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return end && *end == '\0' ? ::timegm(&utc) : -1;
}

}  // namespace mlx::store::s3
