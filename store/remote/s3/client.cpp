// Each attempt is signed anew, since a signature contains its time. Waits between attempts grow and are random, so that
// many clients do not come back at once.
#include "store/remote/s3/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"

namespace mlx::store::s3 {

namespace {

constexpr double kFirstWait = 0.2, kLongestWait = 10;  // seconds
const std::vector<Header> kContentType = {{"Content-Type", "application/octet-stream"}};
constexpr std::uint64_t kMaxProblem = 64 << 10;  // bytes of an error document

std::string header(const HttpResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? std::string() : found->second;
}

// From 0 to 0.2 s before the second attempt, to 0.4 s before the third …; longer if the server asks for it.
double wait_before(int attempt, const std::string& retry_after) {
  thread_local std::mt19937 random{std::random_device{}()};
  const double most = std::min(kLongestWait, kFirstWait * std::pow(2.0, attempt - 1));
  double seconds = std::uniform_real_distribution<double>(most / 4, most)(random);
  int asked = 0;
  const auto [end, problem] = std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), asked);
  if (problem == std::errc() && asked > 0) seconds = std::max(seconds, std::min(asked + 0.0, kLongestWait));
  return seconds;
}

void wait_for(double seconds, const Interruption& interruption) {
  const double until = seconds_now() + seconds;
  for (double left = seconds; left > 0; left = until - seconds_now()) {
    interruption.check();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.05)));
  }
}

std::uint64_t parse_size(const std::string& text) {
  std::uint64_t size = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (problem != std::errc() || end != text.data() + text.size()) fail(ErrorKind::kIo, "the server names no length");
  return size;
}

}  // namespace

Client::Client(Settings settings, std::unique_ptr<HttpClient> http)
    : settings_(std::move(settings)), http_(std::move(http)), region_(settings_.region) {}

std::string Client::url_of(const std::string& name) const {
  return fmt::format("s3://{}/{}{}{}", settings_.bucket, settings_.prefix, settings_.prefix.empty() ? "" : "/", name);
}

std::string Client::region() const {
  std::lock_guard lock(mutex_);
  return region_;
}

HttpRequest Client::sign(const Call& call, const std::string& region) const {
  std::string host = settings_.host;
  std::string path = settings_.base_path;
  if (settings_.path_style) {
    path += "/" + settings_.bucket;
  } else {
    host = settings_.bucket + "." + host;
  }
  path += "/" + percent_encode(settings_.prefix, true) + (settings_.prefix.empty() ? "" : "/") +
          percent_encode(call.name, true);
  SignedParts parts{call.method, path, "", call.headers, Digest::of(call.body).hex()};
  const std::string date = amz_date(unix_micros());
  parts.headers.emplace_back("Host", host);
  parts.headers.emplace_back("x-amz-content-sha256", parts.payload_hash);
  parts.headers.emplace_back("x-amz-date", date);
  if (!settings_.credentials.session_token.empty())
    parts.headers.emplace_back("x-amz-security-token", settings_.credentials.session_token);
  HttpRequest request;
  request.method = call.method;
  request.url = settings_.scheme + "://" + host + path;
  request.headers = parts.headers;
  request.headers.emplace_back("Authorization", authorization(parts, settings_.credentials, region, "s3", date));
  request.body = call.body;
  request.sent = call.sent;
  request.max_body = std::max(call.max_body, kMaxProblem);
  return request;
}

// The bucket is in another region: the server names it, and the request is signed for that one.
bool Client::moved(const HttpResponse& response, const std::string& region) {
  const std::string other = header(response, "x-amz-bucket-region");
  if (response.status != 301 && response.status != 307 && response.status != 400) return false;
  if (other.empty() || other == region) return false;
  log("s3: the bucket is in {}", other);
  std::lock_guard lock(mutex_);
  region_ = other;
  return true;
}

HttpResponse Client::perform(Call& call, Problem& problem) {
  bool has_moved = false;
  for (int attempt = 1;; ++attempt) {
    const double begin = seconds_now();
    const std::string region = this->region();
    HttpFailure failure;
    std::optional<HttpResponse> response = http_->perform(sign(call, region), failure);
    log("s3: {} {}: {}, {} sent, {} received, {:.0f} ms", call.method, url_of(call.name),
        response ? std::to_string(response->status) : failure.message, call.body.size(),
        response ? response->body.size() : 0, 1e3 * (seconds_now() - begin));
    std::string retry_after;
    if (response) {
      problem = response->status >= 300 ? parse_problem(response->body) : Problem{};
      if (!has_moved && moved(*response, region)) {
        has_moved = true;
        continue;
      }
      if (!is_passing(response->status, problem)) return std::move(*response);
      if (attempt >= settings_.attempts) refuse(*response, problem, call.name);
      retry_after = header(*response, "retry-after");
    } else if (failure.lasting || attempt >= settings_.attempts) {
      throw Error(ErrorKind::kIo,
                  fmt::format("{}: {} does not answer: {}", url_of(call.name), settings_.host, failure.message),
                  attempt > 1 ? fmt::format("tried {} times; what got through stays, so try again later", attempt)
                              : "check the network and AWS_ENDPOINT_URL_S3");
    }
    call.lost |= !response || response->status >= 500;
    wait_for(wait_before(attempt, retry_after), interruption());
  }
}

void Client::refuse(const HttpResponse& response, const Problem& problem, const std::string& name) const {
  throw error_of(response, problem, url_of(name), unix_micros());
}

std::optional<Object> Client::get(const std::string& name, std::uint64_t max_size, const std::string& known,
                                  bool* unchanged) {
  Call call{.method = "GET", .name = name, .max_body = max_size};
  if (!known.empty()) call.headers.emplace_back("If-None-Match", known);
  Problem problem;
  HttpResponse response = perform(call, problem);
  if (unchanged) *unchanged = response.status == 304;
  if (response.status == 304 && !known.empty()) return Object{{}, known};
  if (response.status == 404 && problem.code != "NoSuchBucket") return std::nullopt;
  if (response.status != 200) refuse(response, problem, name);
  if (response.body.size() > max_size) fail(ErrorKind::kCorrupt, "{}: larger than it may be", url_of(name));
  return Object{std::move(response.body), header(response, "etag")};
}

Bytes Client::get_range(const std::string& name, std::uint64_t offset, std::uint64_t size) {
  Call call{.method = "GET", .name = name, .max_body = size};
  call.headers.emplace_back("Range", fmt::format("bytes={}-{}", offset, offset + size - 1));
  Problem problem;
  HttpResponse response = perform(call, problem);
  if (response.status == 416 || (response.status == 206 && response.body.size() != size))
    fail(ErrorKind::kCorrupt, "{}: cut short before byte {}", url_of(name), offset + size);
  if (response.status == 200 && offset == 0 && response.body.size() == size) return std::move(response.body);
  if (response.status == 200) fail(ErrorKind::kIo, "{}: the server does not give parts of objects", url_of(name));
  if (response.status != 206) refuse(response, problem, name);
  return std::move(response.body);
}

std::optional<std::uint64_t> Client::size_of(const std::string& name) {
  Call call{.method = "HEAD", .name = name};
  Problem problem;
  const HttpResponse response = perform(call, problem);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) refuse(response, problem, name);
  return parse_size(header(response, "content-length"));
}

// The answer is 200, or 412 if the condition does not hold.
HttpResponse Client::put_if(Call& call, const Condition& condition) {
  if (!condition.anything)
    call.headers.push_back(condition.tag.empty() ? Header{"If-None-Match", "*"} : Header{"If-Match", condition.tag});
  Problem problem;
  HttpResponse response = perform(call, problem);
  if (response.status == 200 || response.status == 412) return response;
  const bool replaces = !condition.anything && !condition.tag.empty();
  if (response.status != 404 || !replaces || problem.code == "NoSuchBucket") refuse(response, problem, call.name);
  response.status = 412;  // what was to be replaced is gone
  return response;
}

Written Client::put(const std::string& name, ByteView bytes, const Condition& condition) {
  Call call{.method = "PUT", .name = name, .headers = kContentType, .body = bytes};
  const HttpResponse response = put_if(call, condition);
  if (response.status == 200) return {true, header(response, "etag")};
  if (call.lost) {
    const std::optional<Object> there = get(name, bytes.size());
    if (there && std::ranges::equal(there->bytes, bytes)) return {true, there->tag};
  }
  return {false, ""};
}

void Client::create(const std::string& name, ByteView bytes, std::function<void(std::uint64_t)> sent) {
  Call call{.method = "PUT", .name = name, .headers = kContentType, .body = bytes, .sent = std::move(sent)};
  if (put_if(call, {}).status == 200 || size_of(name) == bytes.size()) return;
  log("s3: {} exists with another size: replaced", url_of(name));
  call.headers = kContentType;
  (void)put_if(call, {.anything = true});
}

}  // namespace mlx::store::s3
