// The listening socket and the server's life: accept, look at `stop`, drain.
//
// Threads: the caller's is the I/O thread; each model has one of its own, which computes on the pool; one more runs
// options.watch. A connection is touched by the first only.
#include "serve/http/server.h"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "serve/http/connection.h"
#include "serve/http/tls.h"

namespace mlx::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Endpoint = asio::generic::stream_protocol::endpoint;
using boost::system::error_code;
using namespace std::chrono_literals;

std::string shown(const ServerOptions& options) {
  if (!options.socket_path.empty()) return "unix:" + options.socket_path;
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

// Removes the socket of a server that has ended without doing so. False if one still listens there.
bool clear_path(asio::io_context& io, const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return true;
  asio::local::stream_protocol::socket probe(io);
  error_code error;
  probe.connect(asio::local::stream_protocol::endpoint(path), error);
  if (!error) return false;
  ::unlink(path.c_str());
  return true;
}

sockaddr_storage address_of(int socket) {
  sockaddr_storage out{};
  socklen_t size = sizeof out;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&out), &size) != 0) fail_errno(errno, "a socket", "ask");
  return out;
}

class Server final : public Control {
 public:
  Server(Service& service, const ServerOptions& options, const Interruption& stop)
      : options_(options), stop_(stop), shared_{service, options, {}, false}, acceptor_(io_), tick_(io_), retry_(io_) {
    if (options.tls) tls_.emplace(*options.tls);
    if (options.keys) service.access().set(*options.keys);
    listen();
  }
  ~Server() override {
    stop_watching();
    if (!bound_path_.empty()) ::unlink(bound_path_.c_str());
  }

  void run() {
    if (options_.listening) options_.listening(port());
    if (options_.watch) watching_ = std::thread([this] { options_.watch(*this); });
    accept();
    look_at_stop();
    io_.run();
    stop_watching();
    retiring_.clear();         // waits for them
    shared_.service.finish();  // what was given up may still be computed, and its answer holds a connection
    io_.restart();
    io_.run();
  }

  void set_keys(std::vector<ApiKey> keys) override { shared_.service.access().set(std::move(keys)); }
  void replace(ModelSpec spec) override {
    std::erase_if(retiring_,
                  [](const std::future<void>& each) { return each.wait_for(0s) == std::future_status::ready; });
    std::shared_ptr<ServedModel> before = shared_.service.replace(std::move(spec));
    retiring_.push_back(std::async(std::launch::async, [before = std::move(before)] {
      while (before.use_count() > 1) std::this_thread::sleep_for(1ms);  // a request is just being given to it
      before->finish();
    }));
  }
  void warn(std::string why) override {
    asio::post(io_, [this, why = std::move(why)] {
      if (options_.warn) options_.warn(why);
    });
  }
  void say(std::string what) override {
    asio::post(io_, [this, what = std::move(what)] {
      if (options_.say) options_.say(what);
    });
  }
  bool stopping() const override { return stopping_; }

 private:
  void stop_watching() {
    stopping_ = true;
    if (watching_.joinable()) watching_.join();
  }

  void listen() {
    if (options_.socket >= 0) return take(options_.socket);
    const std::string& path = options_.socket_path;
    if (!path.empty() && path.size() >= sizeof(sockaddr_un::sun_path))
      fail(ErrorKind::kUsage, "--listen {}: a path of a socket has at most {} bytes", shown(options_),
           sizeof(sockaddr_un::sun_path) - 1);
    if (!path.empty() && !clear_path(io_, path)) refuse(asio::error::address_in_use);
    const Endpoint endpoint =
        path.empty() ? Endpoint(resolve(io_, options_)) : Endpoint(asio::local::stream_protocol::endpoint(path));
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error && path.empty()) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    const mode_t mask = ::umask(0177);  // only the user may connect to a socket of the file system
    if (!error) acceptor_.bind(endpoint, error);
    ::umask(mask);
    if (!error) bound_path_ = path;
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) refuse(error);
  }

  void take(int socket) {
    const int family = options_.socket_path.empty() ? address_of(socket).ss_family : AF_UNIX;
    error_code error;
    acceptor_.assign(asio::generic::stream_protocol(family, 0), socket, error);
    if (error) refuse(error);
  }

  [[noreturn]] void refuse(const error_code& error) const {
    if (error == asio::error::address_in_use) {
      throw Error(ErrorKind::kConflict, fmt::format("{}: another program listens there already", shown(options_)),
                  "stop it, or choose another place with --listen; port 0 takes any free one");
    }
    const bool refused = error == asio::error::access_denied;
    const bool file = !options_.socket_path.empty();
    throw Error(refused ? ErrorKind::kRefused : ErrorKind::kIo,
                fmt::format("cannot listen on {}: {}", shown(options_), error.message()),
                file      ? "name a file in a folder that you may write to"
                : refused ? "choose a port above 1023"
                          : "name an address of this machine, such as 127.0.0.1:8080");
  }

  std::uint16_t port() const {
    if (!options_.socket_path.empty()) return 0;
    tcp::endpoint endpoint;
    const Endpoint local = acceptor_.local_endpoint();
    std::memcpy(endpoint.data(), local.data(), std::min(local.size(), endpoint.capacity()));
    return endpoint.port();
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, Wire::Socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      error_code ignored;
      if (options_.socket_path.empty()) socket.set_option(tcp::no_delay(true), ignored);
      const bool full = shared_.open.size() >= static_cast<std::size_t>(options_.max_connections);
      const auto connection =
          std::make_shared<Connection>(Wire(std::move(socket), tls_ ? tls_->context(options_.warn) : nullptr), shared_);
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
    shared_.draining = stopping_ = true;
    if (options_.draining) options_.draining();
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
  std::optional<Tls> tls_;
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  asio::steady_timer tick_, retry_;
  std::string bound_path_;  // of the socket's file that this server has made; "" for none
  double deadline_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread watching_;
  std::vector<std::future<void>> retiring_;  // models that finish what they have; of the thread that replaces them
};

}  // namespace

void serve_at(const Fd& socket, ServerOptions& options) {
  const sockaddr_storage address = address_of(socket.get());
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (any->sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    options.port = ntohs(four.sin_port);
  } else if (any->sa_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    options.port = ntohs(six.sin6_port);
  } else if (any->sa_family != AF_UNIX) {
    fail(ErrorKind::kUsage, "LISTEN_FDS: a socket of another kind than TCP and unix");
  }
  options.host = text.data();
  options.socket_path = any->sa_family == AF_UNIX ? reinterpret_cast<const sockaddr_un&>(address).sun_path : "";
  options.socket = ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
  if (options.socket < 0) fail_errno(errno, "a socket", "take");
}

void serve(std::vector<ModelSpec> models, const ServerOptions& options, const Interruption& stop) {
  Service service(models, options);
  models.clear();  // one that is replaced is freed
  Server server(service, options, stop);
  server.run();
}

}  // namespace mlx::serve
