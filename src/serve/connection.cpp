// Callbacks in the order in which they happen: head, body, answer, again; or linger and close.
#include "serve/connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <array>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace mlx::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::uint32_t kMaxHead = 16 * 1024;  // bytes of a request's line and header fields
constexpr double kLingerSeconds = 2;           // for a client to read an answer that came before its request's end
constexpr std::size_t kLingerBytes = 64 << 20;

const char* reason(int status) {
  return http::obsolete_reason(static_cast<http::status>(status)).data();  // of string literals
}

std::string text(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

bool is_json(boost::beast::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return boost::beast::iequals(type, "application/json");
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Shared& shared)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), shared_(shared), buffer_(kMaxHead + 64 * 1024) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  shared_.open.insert(this);
  shared_.service.metrics().connections(1);
}

Connection::~Connection() {
  shared_.open.erase(this);
  shared_.service.metrics().connections(-1);
}

void Connection::refuse(const Reply& reply) {
  send(reply, false);
}

bool Connection::idle() const {
  return state_ == State::kHead && buffer_.size() == 0 && parser_ && !parser_->got_some();
}

void Connection::close_if_idle() {
  if (idle()) close();
}

void Connection::abort() {
  close();
}

void Connection::close() {
  timer_.cancel();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// After so many seconds what is being waited for is given up.
void Connection::arm(double seconds) {
  timed_out_ = false;
  timer_.expires_after(std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6)));
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::read_head() {
  if (shared_.draining && buffer_.size() == 0) return close();
  state_ = State::kHead;
  parser_.emplace();
  parser_->header_limit(kMaxHead);
  parser_->body_limit(static_cast<std::uint64_t>(shared_.options.max_body));
  method_.clear();
  target_.clear();
  arm(shared_.options.idle_timeout);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code& error, std::size_t) { self->on_head(error); });
}

void Connection::on_head(const error_code& error) {
  started_ = seconds_now();
  if (error) return on_broken(error);
  const auto& request = parser_->get();
  method_ = text(request.method_string());
  target_ = text(request.target());
  if (const std::optional<Reply> reply = refusal()) return send(*reply, false);
  if (!boost::beast::iequals(request[http::field::expect], "100-continue") || parser_->is_done()) return read_body();
  out_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this()](const error_code& failed, std::size_t) {
    if (failed) return self->close();
    self->read_body();
  });
}

std::optional<Reply> Connection::refusal() const {
  const auto& request = parser_->get();
  if (request.version() != 10 && request.version() != 11) return error_reply(505, "expected HTTP/1.1");
  if (request.version() == 11 && request.count(http::field::host) != 1)
    return error_reply(400, "HTTP/1.1 needs one Host header field");
  // Two ways to tell a body's end are two opinions on where the next request begins.
  if (parser_->chunked() && request.count(http::field::content_length) != 0)
    return error_reply(400, "Content-Length and Transfer-Encoding at once");
  const auto expect = request[http::field::expect];
  if (!expect.empty() && !boost::beast::iequals(expect, "100-continue"))
    return error_reply(417, "this server knows no expectation but 100-continue");
  const auto length = parser_->content_length();
  if (!shared_.service.takes_body(method_, target_)) {
    const bool small = !parser_->chunked() && (!length || *length <= kMaxHead);
    return small ? std::nullopt : std::optional(error_reply(413, "this path takes no body"));
  }
  if (!parser_->chunked() && !length) return error_reply(411, "the request needs a Content-Length");
  if (request.count("Inference-Header-Content-Length") != 0)
    return error_reply(400, "binary tensor data is not supported; send JSON arrays");
  if (request.count(http::field::content_encoding) != 0)
    return error_reply(415, "a Content-Encoding is not supported; send plain JSON", "Accept-Encoding: identity\r\n");
  if (request.count(http::field::content_type) != 0 && !is_json(request[http::field::content_type]))
    return error_reply(415, "expected Content-Type: application/json");
  return std::nullopt;
}

void Connection::read_body() {
  if (parser_->is_done()) return answer();
  state_ = State::kBody;
  arm(shared_.options.idle_timeout);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](const error_code& error, std::size_t) { self->on_body(error); });
}

void Connection::on_body(const error_code& error) {
  if (error) return on_broken(error);
  answer();
}

// Reading failed: what can still be told to the client is told.
void Connection::on_broken(const error_code& error) {
  const bool started = parser_->got_some() || buffer_.size() > 0;
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
  const bool keep_alive = parser_->get().keep_alive();
  const Request request{method_, target_, std::move(parser_->get().body())};
  shared_.service.answer(request, [self = shared_from_this(), keep_alive](Reply reply) mutable {
    // Also from the batcher's thread, which gives away its share: the last one must end on this connection's thread.
    const auto executor = self->socket_.get_executor();
    asio::post(executor,
               [self = std::move(self), keep_alive, reply = std::move(reply)] { self->send(reply, keep_alive); });
  });
}

void Connection::log(const Reply& reply) const {
  shared_.service.metrics().request(reply.status);
  if (!shared_.options.access_log) return;
  std::string line =
      fmt::format("{} {} {} {} {:.1f} ms", method_.empty() ? "-" : method_, target_.empty() ? "-" : target_,
                  reply.status, reply.body.size(), started_ > 0 ? 1e3 * (seconds_now() - started_) : 0.0);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      c = '?';  // no terminal codes from clients
  shared_.options.access_log(line);
}

void Connection::send(const Reply& reply, bool keep_alive) {
  state_ = State::kAnswer;
  keep_alive = keep_alive && !shared_.draining;
  log(reply);
  out_ = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n", reply.status,
                     reason(reply.status), reply.type, reply.body.size(), reply.headers,
                     keep_alive ? "" : "Connection: close\r\n");
  if (keep_alive && parser_ && parser_->get().version() == 10)
    out_.insert(out_.size() - 2, "Connection: keep-alive\r\n");
  if (method_ != "HEAD") out_ += reply.body;
  arm(shared_.options.idle_timeout);
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this(), keep_alive](const error_code& error, std::size_t) {
                      if (error) return self->close();
                      if (keep_alive) return self->read_head();
                      self->linger();
                    });
}

// Closing with unread bytes would reset the connection and may take the answer away from the client: the rest of the
// request is read for a while.
void Connection::linger() {
  state_ = State::kLinger;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  arm(kLingerSeconds);
  discard();
}

void Connection::discard() {
  out_.resize(64 * 1024);
  socket_.async_read_some(asio::buffer(out_), [self = shared_from_this()](const error_code& error, std::size_t count) {
    self->discarded_ += count;
    if (error || self->discarded_ > kLingerBytes) return self->close();
    self->discard();
  });
}

}  // namespace mlx::serve
