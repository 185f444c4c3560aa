// A request and the way back to its client. Knows nothing of sockets: http/connection.cpp implements Exchange.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "serve/access.h"

namespace mlx::serve {

struct Request {
  std::string method, target, body;
  std::string type{};  // Content-Type, "" if there is none
  ApiKeyPtr key{};     // that it has brought; null where none is needed
  // How much of the body is JSON, where bytes follow (Inference-Header-Content-Length).
  std::optional<std::size_t> json_size{};
  bool holds_photo() const { return type.starts_with("image/") || type.starts_with("audio/"); }  // or a sound
};

struct Reply {
  int status = 200;
  std::string body{};
  std::string type = "application/json";
  std::string headers{};  // further lines, each with its CRLF
  // Why there is no answer; the protocol of the request's path writes the body then. `code`: a word for it that
  // programs know, or "".
  std::string error{}, code{};
};

// A request that is refused with a status of its own, and a word for it that programs know.
class RefusedRequest final : public Error {
 public:
  RefusedRequest(int with_status, std::string with_code, std::string why, std::string with_headers = {})
      : Error(ErrorKind::kUsage, std::move(why)),
        status(with_status),
        code(std::move(with_code)),
        headers(std::move(with_headers)) {}
  int status;
  std::string code, headers;
};

std::string error_json(std::string_view why);  // {"error":"WHY"}
Reply json_reply(int status, std::string body);
Reply error_reply(int status, std::string_view why, std::string headers = {});
// That of a refused request; else 400 for what is wrong with one, 500 for the rest.
Reply error_reply(const Error& error);
// 503: the server cannot take more.
Reply busy_reply(std::string_view why);
// 429: a model's queue is full, others may have room.
Reply full_reply(std::string_view why);

// One request's answer: either reply(), or begin(), write() any number of times, and end(). One thread uses it at a
// time, whichever it is. An exchange that is let go without an answer closes the connection.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void reply(Reply reply) = 0;
  virtual void begin(Reply head) = 0;  // status, type and headers of a stream; the body is its first piece
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  // From here on a client that closes its side is noticed at once. For answers that take long.
  virtual void watch() = 0;
  virtual bool gone() const = 0;  // the client no longer waits
};
using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace mlx::serve
