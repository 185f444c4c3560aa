// What is said where something is wrong.
#include "serve/exchange.h"

#include "serve/json_reader.h"

namespace mlx::serve {

std::string error_json(std::string_view why) {
  std::string out = "{\"error\":";
  append_json_string(out, why);
  out += '}';
  return out;
}

Reply json_reply(int status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

Reply error_reply(int status, std::string_view why, std::string headers) {
  return {.status = status, .headers = std::move(headers), .error = std::string(why)};
}

Reply error_reply(const Error& error) {
  if (const auto* refused = dynamic_cast<const RefusedRequest*>(&error)) {
    Reply reply = error_reply(refused->status, refused->message, refused->headers);
    reply.code = refused->code;
    return reply;
  }
  const bool request = error.kind == ErrorKind::kUsage || error.kind == ErrorKind::kCorrupt;
  return error_reply(request ? 400 : 500, error.message);
}

Reply busy_reply(std::string_view why) {
  return error_reply(503, why, "Retry-After: 1\r\n");
}

Reply full_reply(std::string_view why) {
  Reply reply = error_reply(429, why, "Retry-After: 1\r\n");
  reply.code = "queue_full";
  return reply;
}

}  // namespace mlx::serve
