// The module is opened once and kept; handles (one connection each) wait in a list between requests.
#include "store/remote/s3/http.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/module.h"
#include "base/progress.h"
#include "base/text.h"
#include "store/remote/curl/module.h"

namespace mlx::store::s3 {

namespace {

constexpr std::size_t kMaxHeaders = 64 << 10;  // bytes of an answer's headers

const HttpModule& loaded() {
  static std::string problem;
  static const HttpModule* const module = functions_of<HttpModule>("mlx_http", kHttpModuleVersion, problem);
  if (!module) {
    throw Error(ErrorKind::kMissing, "the module for HTTP cannot be opened: " + problem,
                "it needs libcurl: apt install libcurl4, or install mlx anew");
  }
  return *module;
}

constexpr std::uint64_t kMaxErrorBody = 64 << 10;  // of an answer that is none of 2xx
// Small files must arrive within ten times the stall limit, however slowly the bytes come.
constexpr std::uint64_t kSmall = 4 << 20;
constexpr long kDeadlineStalls = 10;

// What the module's callbacks fill.
struct Answer {
  const HttpRequest* request;
  const Interruption* interruption;
  HttpResponse response;
  std::uint64_t max_body = 0;
  std::size_t header_bytes = 0;
  bool too_large = false;
};

bool take_header(void* user, const char* data, std::size_t size) {
  auto& answer = *static_cast<Answer*>(user);
  answer.header_bytes += size;
  if (answer.header_bytes > kMaxHeaders) return false;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {
    answer.response.headers.clear();  // after "100 Continue" the real ones come
    const std::size_t space = line.find(' ');
    const bool good = space != line.npos && line.substr(space + 1).starts_with('2');
    answer.max_body = good ? answer.request->max_body : std::min(answer.request->max_body, kMaxErrorBody);
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return true;
  std::string name(trimmed(line.substr(0, colon)));
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  answer.response.headers[name] = trimmed(line.substr(colon + 1));
  return true;
}

bool take_body(void* user, const std::uint8_t* bytes, std::size_t size) {
  auto& answer = *static_cast<Answer*>(user);
  answer.too_large = size > answer.max_body - answer.response.body.size();
  if (answer.too_large) return false;
  answer.response.body.insert(answer.response.body.end(), bytes, bytes + size);
  return true;
}

bool interrupted(void* user) {
  return static_cast<Answer*>(user)->interruption->signal() != 0;
}

void sent(void* user, std::size_t position) {
  const HttpRequest& request = *static_cast<Answer*>(user)->request;
  if (request.sent) request.sent(position);
}

class CurlClient final : public HttpClient {
 public:
  CurlClient(const HttpModule& module, HttpOptions options)
      : HttpClient(*options.interruption), module_(module), options_(std::move(options)) {}
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;
  ~CurlClient() override {
    for (void* handle : idle_) module_.close_handle(handle);
  }

  std::optional<HttpResponse> perform(const HttpRequest& request, HttpFailure& failure) override {
    interruption().check();
    std::vector<std::string> lines;
    std::vector<const char*> pointers;
    for (const auto& [name, value] : request.headers) lines.push_back(name + ": " + value);
    pointers.reserve(lines.size());
    for (const std::string& line : lines) pointers.push_back(line.c_str());
    Answer answer{&request, &interruption()};
    answer.max_body = request.max_body;
    HttpExchange exchange{};
    exchange.method = request.method.c_str();
    exchange.url = request.url.c_str();
    exchange.headers = pointers.data();
    exchange.header_count = pointers.size();
    exchange.body = request.body.data();
    exchange.body_size = request.body.size();
    exchange.ca_bundle = options_.ca_bundle.empty() ? nullptr : options_.ca_bundle.c_str();
    exchange.stall_seconds = options_.stall_seconds;
    const bool small = request.max_body <= kSmall && request.body.size() <= kSmall;
    exchange.deadline_seconds = small ? kDeadlineStalls * options_.stall_seconds : 0;
    exchange.user = &answer;
    exchange.take_header = take_header;
    exchange.take_body = take_body;
    exchange.interrupted = interrupted;
    exchange.sent = sent;
    void* handle = take();
    module_.perform(handle, &exchange);
    give_back(handle);
    interruption().check();
    if (exchange.status == 0) {
      failure = {answer.too_large ? "the answer is longer than it may be" : exchange.failure, exchange.lasting};
      return std::nullopt;
    }
    answer.response.status = exchange.status;
    return std::move(answer.response);
  }

 private:
  void* take() {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      void* handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
    void* handle = module_.open_handle();
    if (!handle) fail(ErrorKind::kIo, "libcurl cannot be set up");
    return handle;
  }
  void give_back(void* handle) {
    std::lock_guard lock(mutex_);
    idle_.push_back(handle);
  }

  const HttpModule& module_;
  const HttpOptions options_;
  std::mutex mutex_;
  std::vector<void*> idle_;
};

}  // namespace

std::unique_ptr<HttpClient> open_http(const HttpOptions& options) {
  return std::make_unique<CurlClient>(loaded(), options);
}

}  // namespace mlx::store::s3
