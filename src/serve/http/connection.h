// One HTTP/1.1 connection: reads requests one after another (pipelined ones wait), guards limits and times, writes
// replies, whole ones and streams. Source: RFC 9110, RFC 9112.
//
// Used by server.cpp. Everything runs on the server's one I/O thread; a connection keeps itself alive while it waits
// for something. A request that is being answered holds an Exchange, which posts its calls onto that thread.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "serve/http/service.h"
#include "serve/http/wire.h"

namespace mlx::serve {

class Connection;

// What all connections share; outlives them.
struct Shared {
  Service& service;
  const ServerOptions& options;
  std::set<Connection*> open;
  bool draining = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Wire wire, Shared& shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void refuse(const Reply& reply);  // instead of start(): answers once, without reading
  void close_if_idle();             // between two requests
  void abort();                     // whatever it does

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State { kHead, kBody, kAnswer, kLinger };
  class Turn;  // the Exchange of one request
  struct Stream {
    int status = 0;
    bool keep_alive = false, chunked = false;
    bool writing = false, ended = false;
    std::size_t bytes = 0;  // of pieces
    std::string waiting;    // for the write before it
  };

  void read_head();
  void on_head(const boost::system::error_code& error);
  void read_line();                // what the request asks for
  std::optional<Reply> refusal();  // of a request whose body has not been read yet
  void read_body();
  void on_body(const boost::system::error_code& error);
  void on_broken(const boost::system::error_code& error);
  void answer();
  void send(const Reply& reply, bool keep_alive);
  std::string head_of(const Reply& reply, const std::string& length, bool keep_alive) const;
  void written(bool keep_alive);  // the answer is: on to the next request, or to the end
  void begin_stream(const Reply& head, bool keep_alive);
  void write_stream(std::string_view piece);
  void end_stream();
  void flush_stream();
  void watch();
  void on_watched(const boost::system::error_code& error, std::size_t count);
  void linger();
  void discard();
  void close();
  void arm(double seconds);
  void log(int status, std::size_t bytes) const;
  bool idle() const;

  Wire wire_;
  boost::asio::steady_timer timer_;
  Shared& shared_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string method_, target_, out_;
  State state_ = State::kHead;
  std::weak_ptr<Turn> turn_;  // of the request that is being answered
  std::optional<Stream> stream_;
  ApiKeyPtr key_;  // that the request has brought
  bool timed_out_ = false, watching_ = false, read_on_ = false;
  bool answering_ = false;  // a request has been read, and its answer is not written yet
  std::size_t discarded_ = 0;
  double started_ = 0;
};

}  // namespace mlx::serve
