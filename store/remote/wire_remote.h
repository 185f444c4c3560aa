// A remote behind a connection that speaks mlx-format-wire(5). Used by the SSH remote; tests give it other connections.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/parallel.h"
#include "store/remote/remote.h"
#include "store/remote/wire.h"

namespace mlx::store::wire {

// Bytes to and from a server. One thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual bool write(ByteView bytes) = 0;                       // false if the other side no longer reads
  virtual std::size_t read(void* data, std::size_t count) = 0;  // at least one byte; 0 at the end
  virtual Error ended() = 0;                                    // why the stream ended, as far as is known
};

struct RemoteSide {
  std::string where;  // for messages: the host
  std::string path;
  bool create = false;
  std::function<std::unique_ptr<Transport>()> connect;
};

// Connects and opens the store there. If the connection fails later, the next call makes a new one.
std::unique_ptr<Remote> open_wire_remote(RemoteSide side, Pool& pool);

}  // namespace mlx::store::wire
