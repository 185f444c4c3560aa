// The listening socket and the server's life: accept, look at `stop`, drain.
//
// Threads: the caller's is the I/O thread; each model has one of its own, which computes on the pool. A connection is
// touched by the first only.
#include "serve/http/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "serve/http/connection.h"

namespace mlx::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

std::string shown(const ServerOptions& options) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", options.port);
}

tcp::endpoint resolve(asio::io_context& io, const ServerOptions& options) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (!error) return {address, options.port};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("--listen {}: {}", shown(options), error.message()),
                "name an address of this machine, such as 127.0.0.1:8080");
  }
  return found.begin()->endpoint();
}

class Server {
 public:
  Server(Service& service, const ServerOptions& options, const Interruption& stop)
      : options_(options), stop_(stop), shared_{service, options, {}, false}, acceptor_(io_), tick_(io_), retry_(io_) {
    listen();
  }

  void run() {
    if (options_.listening) options_.listening(acceptor_.local_endpoint().port());
    accept();
    look_at_stop();
    io_.run();
    shared_.service.finish();  // what was given up may still be computed, and its answer holds a connection
    io_.restart();
    io_.run();
  }

 private:
  void listen() {
    const tcp::endpoint endpoint = resolve(io_, options_);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return;
    if (error == asio::error::address_in_use) {
      throw Error(ErrorKind::kConflict, fmt::format("{}: another program listens there already", shown(options_)),
                  "stop it, or choose another port with --listen; port 0 takes any free one");
    }
    const bool refused = error == asio::error::access_denied;
    throw Error(refused ? ErrorKind::kRefused : ErrorKind::kIo,
                fmt::format("cannot listen on {}: {}", shown(options_), error.message()),
                refused ? "choose a port above 1023" : "name an address of this machine, such as 127.0.0.1:8080");
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      const bool full = shared_.open.size() >= static_cast<std::size_t>(options_.max_connections);
      const auto connection = std::make_shared<Connection>(std::move(socket), shared_);
      if (full) {
        connection->refuse(busy_reply("too many connections"));
      } else {
        connection->start();
      }
      accept();
    });
  }

  // Out of file descriptors, most likely: connections that end give some back.
  void accept_later() {
    retry_.expires_after(100ms);
    retry_.async_wait([this](const error_code& error) {
      if (!error && acceptor_.is_open()) accept();
    });
  }

  void look_at_stop() {
    if (stop_.signal() != 0 && !shared_.draining) drain();
    if (shared_.draining && shared_.open.empty()) return;
    if (shared_.draining && seconds_now() > deadline_) return each([](Connection& c) { c.abort(); });
    tick_.expires_after(shared_.draining ? 10ms : 100ms);
    tick_.async_wait([this](const error_code&) { look_at_stop(); });
  }

  void drain() {
    shared_.draining = true;
    deadline_ = seconds_now() + options_.drain_timeout;
    shared_.service.drain();
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    each([](Connection& c) { c.close_if_idle(); });
  }

  template <typename Call>
  void each(Call call) {
    std::vector<std::shared_ptr<Connection>> all;  // the set changes while connections end
    for (Connection* connection : shared_.open) all.push_back(connection->shared_from_this());
    for (const auto& connection : all) call(*connection);
  }

  const ServerOptions& options_;
  const Interruption& stop_;
  Shared shared_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer tick_, retry_;
  double deadline_ = 0;
};

}  // namespace

void serve(const std::vector<ModelSpec>& models, const ServerOptions& options, const Interruption& stop) {
  Service service(models, options);
  Server server(service, options, stop);
  server.run();
}

}  // namespace mlx::serve
