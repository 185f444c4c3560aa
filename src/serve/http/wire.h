// The bytes of one connection: a socket of TCP or of the file system, as it is or under TLS. Used by connection.cpp,
// and by what reads and writes on it through Boost.Asio.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <memory>
#include <utility>

namespace mlx::serve {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

class Wire {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;

  // `tls`: null for a connection without.
  Wire(Socket socket, TlsContext tls) : tls_(std::move(tls)) {
    if (tls_)
      sealed_ = std::make_unique<Sealed>(std::move(socket), *tls_);
    else
      plain_ = std::make_unique<Socket>(std::move(socket));
  }

  executor_type get_executor() { return socket().get_executor(); }
  Socket& socket() { return sealed_ ? sealed_->next_layer() : *plain_; }
  bool sealed() const { return sealed_ != nullptr; }

  template <typename Buffers, typename Done>
  void async_read_some(const Buffers& buffers, Done&& done) {
    if (sealed_)
      sealed_->async_read_some(buffers, std::forward<Done>(done));
    else
      plain_->async_read_some(buffers, std::forward<Done>(done));
  }
  template <typename Buffers, typename Done>
  void async_write_some(const Buffers& buffers, Done&& done) {
    if (sealed_)
      sealed_->async_write_some(buffers, std::forward<Done>(done));
    else
      plain_->async_write_some(buffers, std::forward<Done>(done));
  }
  // Only where it is sealed().
  template <typename Done>
  void async_handshake(Done&& done) {
    sealed_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Done>(done));
  }
  template <typename Done>
  void async_shutdown(Done&& done) {
    sealed_->async_shutdown(std::forward<Done>(done));
  }

 private:
  using Sealed = boost::asio::ssl::stream<Socket>;
  TlsContext tls_;  // outlives the stream
  std::unique_ptr<Sealed> sealed_;
  std::unique_ptr<Socket> plain_;
};

}  // namespace mlx::serve
