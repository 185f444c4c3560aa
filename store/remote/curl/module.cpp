// The one file that knows libcurl: an easy handle for each connection, and one exchange on it.
#include "store/remote/curl/module.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace mlx::store::s3 {
namespace {

constexpr std::size_t kWorthAsking = std::size_t{1} << 20;
constexpr long kSlowest = 256;  // bytes a second: a slower connection counts as stalled

struct Body {
  HttpExchange* exchange;
  std::size_t at = 0;
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto* exchange = static_cast<HttpExchange*>(user);
  return exchange->take_header(exchange->user, data, size * count) ? size * count : 0;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto* exchange = static_cast<HttpExchange*>(user);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data);
  return exchange->take_body(exchange->user, bytes, size * count) ? size * count : 0;
}

std::size_t on_read(char* to, std::size_t size, std::size_t count, void* user) {
  auto* body = static_cast<Body*>(user);
  const std::size_t part = std::min(size * count, body->exchange->body_size - body->at);
  if (part > 0) std::memcpy(to, body->exchange->body + body->at, part);
  body->at += part;
  body->exchange->sent(body->exchange->user, body->at);
  return part;
}

// curl sends again on a fresh connection if a kept one turns out to be closed.
int on_seek(void* user, curl_off_t offset, int origin) {
  auto* body = static_cast<Body*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > body->exchange->body_size)
    return CURL_SEEKFUNC_FAIL;
  body->at = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* exchange = static_cast<HttpExchange*>(user);
  return exchange->interrupted(exchange->user) ? 1 : 0;
}

bool is_lasting(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_WRITE_ERROR:  // take_body() has declined
    case CURLE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

void set_request(CURL* curl, HttpExchange* exchange, Body* body, curl_slist* headers) {
  curl_easy_setopt(curl, CURLOPT_URL, exchange->url);
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);  // what is signed is what is sent
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (std::strcmp(exchange->method, "PUT") == 0) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(exchange->body_size));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(curl, CURLOPT_READDATA, body);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, body);
  } else if (std::strcmp(exchange->method, "HEAD") == 0) {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
}

void set_manners(CURL* curl, HttpExchange* exchange) {
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);  // a signature is good for one host only
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (exchange->ca_bundle) curl_easy_setopt(curl, CURLOPT_CAINFO, exchange->ca_bundle);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, std::min(exchange->stall_seconds, 20L));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kSlowest);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, exchange->stall_seconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, exchange->deadline_seconds);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L * 1024);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L * 1024);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
}

void* open_handle() {
  // The first caller sets libcurl up; later ones find it so.
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  return ready == CURLE_OK ? curl_easy_init() : nullptr;
}

void close_handle(void* handle) {
  curl_easy_cleanup(static_cast<CURL*>(handle));
}

void perform(void* handle, HttpExchange* exchange) {
  auto* curl = static_cast<CURL*>(handle);
  exchange->status = 0;
  exchange->lasting = false;
  exchange->failure[0] = '\0';
  curl_slist* headers = nullptr;
  for (std::size_t i = 0; i < exchange->header_count; ++i) headers = curl_slist_append(headers, exchange->headers[i]);
  // Asking first whether the server wants the body pays only if it is large; some servers never say.
  if (exchange->body_size < kWorthAsking) headers = curl_slist_append(headers, "Expect:");
  Body body{exchange};
  set_request(curl, exchange, &body, headers);
  set_manners(curl, exchange);
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_OK) {
    exchange->status = static_cast<int>(status);
  } else {
    exchange->lasting = is_lasting(code);
    std::snprintf(exchange->failure, sizeof exchange->failure, "%s", curl_easy_strerror(code));
  }
  curl_easy_reset(curl);  // keeps the connection
  curl_slist_free_all(headers);
}

}  // namespace
}  // namespace mlx::store::s3

extern "C" const mlx::store::s3::HttpModule* mlx_http_module() {
  using namespace mlx::store::s3;
  static const HttpModule module{kHttpModuleVersion, open_handle, close_handle, perform};
  return &module;
}
