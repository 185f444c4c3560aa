// The interface between mlx and the module with libcurl (lib/mlx/mlx_http.so): plain C structures, so that neither
// needs a symbol of the other. No exception crosses it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx::store::s3 {

inline constexpr int kHttpModuleVersion = 2;

struct HttpExchange {
  // In; all owned by the caller until perform() returns.
  const char* method;
  const char* url;
  const char* const* headers;  // "Name: value"
  std::size_t header_count;
  const std::uint8_t* body;
  std::size_t body_size;
  const char* ca_bundle;  // nullptr: the system's
  long stall_seconds;
  long deadline_seconds;  // for the whole exchange; 0: none
  // Called from inside perform(), on its thread; `user` is handed on.
  void* user;
  bool (*take_header)(void* user, const char* line, std::size_t size);
  bool (*take_body)(void* user, const std::uint8_t* bytes, std::size_t size);  // false ends the request
  bool (*interrupted)(void* user);
  void (*sent)(void* user,
               std::size_t position);  // bytes of the body that went out; less than before after a new start
  // Out.
  int status;         // 0 if there is no whole answer
  bool lasting;       // trying again would not help
  char failure[256];  // why, in words; never anything of the request
};

struct HttpModule {
  int version;
  void* (*open_handle)();  // one connection's; nullptr if memory is short
  void (*close_handle)(void* handle);
  void (*perform)(void* handle, HttpExchange* exchange);
};

}  // namespace mlx::store::s3
