// The certificate and key of a server, and whose certificates clients must have. Their files are read again when they
// change: connections that are open keep what they began with. TLS 1.3 only.
//
// Used by server.cpp on the I/O thread.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "serve/http/wire.h"
#include "serve/options.h"

namespace mlx::serve {

class Tls {
 public:
  // Throws kUsage, naming the file, for what cannot be used; kNotFound, kIo where it cannot be read.
  explicit Tls(const TlsFiles& files);

  // For a new connection. Looks at the files, at most once a second; files that cannot be used are told to `warn`, and
  // what was read before holds on.
  TlsContext context(const std::function<void(const std::string&)>& warn);

 private:
  // What says that a file is another one.
  using Stamp = std::array<std::int64_t, 4>;
  using Stamps = std::array<Stamp, 3>;
  Stamps stamps() const;

  const TlsFiles files_;
  Stamps read_;
  double looked_ = 0;
  TlsContext context_;
};

}  // namespace mlx::serve
