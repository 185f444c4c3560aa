// Callbacks in the order in which they happen: head, body, answer (whole or as a stream), again; or linger and close.
#include "serve/http/connection.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <atomic>
#include <charconv>
#include <chrono>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "serve/encoded_body.h"

namespace mlx::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr int kClientClosed = 499;  // in logs and metrics, as nginx has it: the client left before its answer
constexpr std::uint32_t kMaxHead = 16 * 1024;  // bytes of a request's line and header fields
constexpr double kLingerSeconds = 2;           // for a client to read an answer that came before its request's end
constexpr std::size_t kReadAhead = 4096;       // bytes at a time
constexpr std::size_t kLingerBytes = 64 << 20;
constexpr std::size_t kMostWaiting = 16 << 20;  // bytes of a stream that its client has not taken yet

const char* reason(int status) {
  return http::obsolete_reason(static_cast<http::status>(status)).data();  // of string literals
}

std::string text(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

bool is_type(boost::beast::string_view type, boost::beast::string_view wanted) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return boost::beast::iequals(type, wanted);
}

bool is_json(boost::beast::string_view type) {
  return is_type(type, "application/json");
}

constexpr const char* kJsonSize = "Inference-Header-Content-Length";

// nullopt if it is no number.
template <class Fields>
std::optional<std::size_t> json_size(const Fields& fields) {
  const std::string given = text(fields[kJsonSize]);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  return error == std::errc() && end == given.data() + given.size() ? std::optional(value) : std::nullopt;
}

// As OpenAI's, Azure's and Anthropic's clients send it; "" if there is none.
template <class Fields>
std::string key_text(const Fields& fields) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string given = text(fields[http::field::authorization]);
  if (lower(given.substr(0, kBearer.size())) == kBearer) return given.substr(kBearer.size());
  const std::string other = text(fields["x-api-key"]);
  return other.empty() ? text(fields["api-key"]) : other;
}

// What proxies are asked for, "http://host/path" (RFC 9112, 3.2.2), as "/path"; others as they are.
std::string origin_form(std::string target) {
  const std::string_view scheme = "://";
  const std::size_t at = target.find(scheme);
  const std::string name = lower(target.substr(0, at == std::string::npos ? 0 : at));
  if (name != "http" && name != "https") return target;
  const std::size_t path = target.find_first_of("/?", at + scheme.size());
  if (path == std::string::npos) return "/";
  return (target[path] == '?' ? "/" : "") + target.substr(path);
}

// A photo or a sound.
bool is_photo(boost::beast::string_view type) {
  constexpr std::size_t kPrefix = 6;
  const auto prefix = type.substr(0, kPrefix);
  return type.size() > kPrefix && (boost::beast::iequals(prefix, "image/") || boost::beast::iequals(prefix, "audio/"));
}

}  // namespace

// Holds the connection until the request is answered. Other threads may hold and let go of it: the connection itself
// always ends on the I/O thread.
class Connection::Turn final : public Exchange {
 public:
  Turn(std::shared_ptr<Connection> connection, bool keep_alive)
      : executor_(connection->wire_.get_executor()), connection_(std::move(connection)), keep_alive_(keep_alive) {}
  ~Turn() override {
    if (connection_) post(std::move(connection_), [](Connection& c) { c.close(); });  // nobody will answer
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void reply(Reply reply) override {
    post(std::move(connection_),
         [reply = std::move(reply), keep_alive = keep_alive_](Connection& c) { c.send(reply, keep_alive); });
  }
  void begin(Reply head) override {
    post(connection_,
         [head = std::move(head), keep_alive = keep_alive_](Connection& c) { c.begin_stream(head, keep_alive); });
  }
  void write(std::string piece) override {
    post(connection_, [piece = std::move(piece)](Connection& c) { c.write_stream(piece); });
  }
  void end() override {
    post(std::move(connection_), [](Connection& c) { c.end_stream(); });
  }
  void watch() override {
    post(connection_, [](Connection& c) { c.watch(); });
  }
  bool gone() const override { return gone_; }
  void set_gone() { gone_ = true; }

 private:
  template <typename Call>
  void post(std::shared_ptr<Connection> connection, Call call) {
    asio::post(executor_, [self = std::move(connection), call = std::move(call)] { call(*self); });
  }

  asio::any_io_executor executor_;
  std::shared_ptr<Connection> connection_;  // null once the request is answered
  const bool keep_alive_;
  std::atomic<bool> gone_{false};
};

Connection::Connection(Wire wire, Shared& shared)
    : wire_(std::move(wire)), timer_(wire_.get_executor()), shared_(shared), buffer_(kMaxHead + 64 * 1024) {
  shared_.open.insert(this);
  shared_.service.metrics().connections(1);
}

Connection::~Connection() {
  shared_.open.erase(this);
  shared_.service.metrics().connections(-1);
}

void Connection::start() {
  if (!wire_.sealed()) return read_head();
  arm(shared_.options.idle_timeout);
  wire_.async_handshake([self = shared_from_this()](const error_code& error) {
    if (error) return self->close();
    self->read_head();
  });
}

void Connection::refuse(const Reply& reply) {
  if (wire_.sealed()) return close();  // it could not read the answer yet
  send(reply, false);
}

bool Connection::idle() const {
  return state_ == State::kHead && buffer_.size() == 0 && parser_ && (read_on_ || !parser_->got_some());
}

void Connection::close_if_idle() {
  if (idle()) close();
}

void Connection::abort() {
  close();
}

void Connection::close() {
  if (const std::shared_ptr<Turn> turn = turn_.lock()) turn->set_gone();
  if (std::exchange(answering_, false)) log(kClientClosed, stream_ ? stream_->bytes : 0);
  stream_.reset();
  timer_.cancel();
  error_code ignored;
  wire_.socket().shutdown(Wire::Socket::shutdown_both, ignored);
  wire_.socket().close(ignored);
}

// After so many seconds what is being waited for is given up.
void Connection::arm(double seconds) {
  timed_out_ = false;
  timer_.expires_after(std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6)));
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    error_code ignored;
    self->wire_.socket().cancel(ignored);
  });
}

void Connection::read_head() {
  if (shared_.draining && buffer_.size() == 0) return close();
  state_ = State::kHead;
  parser_.emplace();
  parser_->header_limit(kMaxHead);
  parser_->body_limit(static_cast<std::uint64_t>(shared_.options.max_body));
  method_.clear();
  key_.reset();
  target_.clear();
  arm(shared_.options.idle_timeout);
  http::async_read_header(wire_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code& error, std::size_t) { self->on_head(error); });
}

void Connection::on_head(const error_code& error) {
  started_ = seconds_now();
  if (error) return on_broken(error);
  read_line();
  const auto& request = parser_->get();
  if (const std::optional<Reply> reply = refusal()) return send(*reply, false);
  if (!boost::beast::iequals(request[http::field::expect], "100-continue") || parser_->is_done()) return read_body();
  out_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(wire_, asio::buffer(out_), [self = shared_from_this()](const error_code& failed, std::size_t) {
    if (failed) return self->close();
    self->read_body();
  });
}

void Connection::read_line() {
  method_ = text(parser_->get().method_string());
  target_ = origin_form(text(parser_->get().target()));
}

std::optional<Reply> Connection::refusal() {
  const auto& request = parser_->get();
  if (request.version() != 10 && request.version() != 11) return error_reply(505, "expected HTTP/1.1");
  if (request.version() == 11 && request.count(http::field::host) != 1)
    return error_reply(400, "HTTP/1.1 needs one Host header field");
  try {
    key_ = shared_.service.admit(target_, key_text(request));
  } catch (const Error& error) {
    return error_reply(error);
  }
  // Two ways to tell a body's end are two opinions on where the next request begins.
  if (parser_->chunked() && request.count(http::field::content_length) != 0)
    return error_reply(400, "Content-Length and Transfer-Encoding at once");
  // What is before chunks would have to be undone, and HTTP/1.0 knows no chunks: who hands requests on may not, either.
  if (const auto coding = request[http::field::transfer_encoding]; request.count(http::field::transfer_encoding) != 0) {
    if (request.version() == 10) return error_reply(400, "Transfer-Encoding in HTTP/1.0");
    if (!boost::beast::iequals(coding, "chunked"))
      return error_reply(501, "a Transfer-Encoding is not supported; send it chunked, or with a Content-Length");
  }
  const auto expect = request[http::field::expect];
  if (!expect.empty() && !boost::beast::iequals(expect, "100-continue"))
    return error_reply(417, "this server knows no expectation but 100-continue");
  const auto length = parser_->content_length();
  if (!shared_.service.takes_body(method_, target_, key_.get())) {
    const bool small = !parser_->chunked() && (!length || *length <= kMaxHead);
    return small ? std::nullopt : std::optional(error_reply(413, "this path takes no body"));
  }
  if (!parser_->chunked() && !length) return error_reply(411, "the request needs a Content-Length");
  const bool binary = request.count(kJsonSize) != 0;
  if (binary && !json_size(request)) return error_reply(400, fmt::format("{} is no number of bytes", kJsonSize));
  const std::size_t encodings = request.count(http::field::content_encoding);
  if (encodings > 1 || (encodings == 1 && !known_encoding(text(request[http::field::content_encoding]))))
    return error_reply(415, "of Content-Encodings only gzip is supported", "Accept-Encoding: gzip\r\n");
  const auto type = request[http::field::content_type];
  const bool form = is_type(type, "application/x-www-form-urlencoded") && request.count(http::field::origin) == 0 &&
                    Service::takes_forms(target_);
  if (!type.empty() && !form && !is_json(type) && !is_photo(type) &&
      !(binary && is_type(type, "application/octet-stream")))
    return error_reply(
        415,
        "expected Content-Type: application/json (curl: -H 'Content-Type: application/json'), image/* for a photo, or "
        "audio/* for a sound");
  return std::nullopt;
}

void Connection::read_body() {
  if (parser_->is_done()) return answer();
  state_ = State::kBody;
  arm(shared_.options.idle_timeout);
  http::async_read(wire_, buffer_, *parser_,
                   [self = shared_from_this()](const error_code& error, std::size_t) { self->on_body(error); });
}

void Connection::on_body(const error_code& error) {
  if (error) return on_broken(error);
  answer();
}

// Reading failed: what can still be told to the client is told.
void Connection::on_broken(const error_code& error) {
  const bool started = parser_->got_some() || buffer_.size() > 0;
  if (state_ == State::kHead) read_line();  // as far as there is one: errors have the form of its protocol
  if (error == asio::error::operation_aborted && timed_out_) {
    if (!started) return close();
    return send(error_reply(408, "the request took too long to arrive"), false);
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return send(error_reply(431, fmt::format("request line and header fields take more than {} bytes", kMaxHead)),
                false);
  if (error == http::error::body_limit)
    return send(error_reply(413, fmt::format("the body is larger than {} bytes", shared_.options.max_body)), false);
  if (error == http::error::partial_message) return send(error_reply(400, "the request ends too early"), false);
  if (error.category() == make_error_code(http::error::bad_method).category() && error != http::error::end_of_stream)
    return send(error_reply(400, "malformed HTTP: " + error.message()), false);
  close();
}

void Connection::answer() {
  state_ = State::kAnswer;
  timer_.cancel();
  std::string& body = parser_->get().body();
  try {
    body = decoded_body(text(parser_->get()[http::field::content_encoding]), std::move(body),
                        static_cast<std::size_t>(shared_.options.max_body));
  } catch (const Error& error) {
    return send(error_reply(error), parser_->get().keep_alive());
  } catch (const std::bad_alloc&) {
    return send(busy_reply("out of memory"), false);
  }
  const auto turn = std::make_shared<Turn>(shared_from_this(), parser_->get().keep_alive());
  turn_ = turn;
  answering_ = true;
  shared_.service.answer({method_, target_, std::move(body), text(parser_->get()[http::field::content_type]), key_,
                          json_size(parser_->get())},
                         turn);
}

void Connection::log(int status, std::size_t bytes) const {
  shared_.service.metrics().request(status);
  if (!shared_.options.access_log) return;
  std::string line =
      fmt::format("{} {} {} {} {:.1f} ms", method_.empty() ? "-" : method_, target_.empty() ? "-" : target_, status,
                  bytes, started_ > 0 ? 1e3 * (seconds_now() - started_) : 0.0);
  if (key_) line += " " + key_->name;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      c = '?';  // no terminal codes from clients
  shared_.options.access_log(line);
}

std::string Connection::head_of(const Reply& reply, const std::string& length, bool keep_alive) const {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}{}", reply.status, reason(reply.status),
                                 reply.type, length, reply.headers);
  if (!keep_alive) head += "Connection: close\r\n";
  if (keep_alive && parser_ && parser_->get().version() == 10) head += "Connection: keep-alive\r\n";
  return head + "\r\n";
}

void Connection::send(const Reply& reply, bool keep_alive) {
  if (!wire_.socket().is_open()) return;  // logged when it was closed
  answering_ = false;
  state_ = State::kAnswer;
  keep_alive = keep_alive && !shared_.draining;
  const std::string body = reply.error.empty() ? reply.body : Service::error_body(target_, reply);
  log(reply.status, body.size());
  out_ = head_of(reply, fmt::format("Content-Length: {}\r\n", body.size()), keep_alive);
  if (method_ != "HEAD") out_ += body;
  arm(shared_.options.idle_timeout);
  asio::async_write(wire_, asio::buffer(out_),
                    [self = shared_from_this(), keep_alive](const error_code& error, std::size_t) {
                      if (error) return self->close();
                      self->written(keep_alive);
                    });
}

void Connection::written(bool keep_alive) {
  if (!keep_alive) return linger();
  if (!watching_) return read_head();
  read_on_ = true;  // what is being read ahead is the beginning of the next request
  state_ = State::kHead;
  arm(shared_.options.idle_timeout);
}

// A stream's end is told by chunks; to HTTP/1.0 by the connection's.
void Connection::begin_stream(const Reply& head, bool keep_alive) {
  if (!wire_.socket().is_open()) return;
  const bool chunked = parser_->get().version() != 10;
  stream_ = Stream{};
  stream_->status = head.status;
  stream_->chunked = chunked;
  stream_->keep_alive = keep_alive && chunked && !shared_.draining;
  stream_->waiting = head_of(head, chunked ? "Transfer-Encoding: chunked\r\n" : "", stream_->keep_alive);
  write_stream(head.body);
  flush_stream();
}

void Connection::write_stream(std::string_view piece) {
  if (!stream_ || piece.empty()) return;
  if (stream_->waiting.size() > kMostWaiting) return close();
  stream_->bytes += piece.size();
  std::string& to = stream_->waiting;
  if (stream_->chunked) to += fmt::format("{:x}\r\n", piece.size());
  to += piece;
  if (stream_->chunked) to += "\r\n";
  flush_stream();
}

void Connection::end_stream() {
  if (!stream_) return;
  stream_->ended = true;
  if (stream_->chunked) stream_->waiting += "0\r\n\r\n";
  flush_stream();
}

// What comes while a write is under way goes out with the next one.
void Connection::flush_stream() {
  if (!stream_ || stream_->writing) return;
  if (stream_->waiting.empty()) {
    timer_.cancel();
    if (!stream_->ended) return;
    const bool keep_alive = stream_->keep_alive;
    answering_ = false;
    log(stream_->status, stream_->bytes);
    stream_.reset();
    return written(keep_alive);
  }
  out_.swap(stream_->waiting);
  stream_->waiting.clear();
  stream_->writing = true;
  arm(shared_.options.idle_timeout);
  asio::async_write(wire_, asio::buffer(out_), [self = shared_from_this()](const error_code& error, std::size_t) {
    if (error || !self->stream_) return self->close();
    self->stream_->writing = false;
    self->flush_stream();
  });
}

// Reads ahead while the request is answered: the client's end is noticed at once. Where it sends another request, that
// is kept, and its end is noticed by a failing write.
void Connection::watch() {
  if (watching_ || !answering_ || !wire_.socket().is_open() || buffer_.size() > 0) return;
  watching_ = true;
  wire_.async_read_some(buffer_.prepare(kReadAhead),
                        [self = shared_from_this()](const error_code& error, std::size_t count) {
                          self->watching_ = false;
                          self->on_watched(error, count);
                        });
}

void Connection::on_watched(const error_code& error, std::size_t count) {
  if (error) return close();
  buffer_.commit(count);
  if (std::exchange(read_on_, false)) read_head();
}

// Closing with unread bytes would reset the connection and may take the answer away from the client: the rest of the
// request is read for a while.
void Connection::linger() {
  state_ = State::kLinger;
  buffer_.consume(buffer_.size());
  arm(kLingerSeconds);
  if (wire_.sealed())
    return wire_.async_shutdown([self = shared_from_this()](const error_code& /*error*/) { self->close(); });
  error_code ignored;
  wire_.socket().shutdown(Wire::Socket::shutdown_send, ignored);
  discard();
}

void Connection::discard() {
  out_.resize(64 * 1024);
  wire_.async_read_some(asio::buffer(out_), [self = shared_from_this()](const error_code& error, std::size_t count) {
    self->discarded_ += count;
    if (error || self->discarded_ > kLingerBytes) return self->close();
    self->discard();
  });
}

}  // namespace mlx::serve
