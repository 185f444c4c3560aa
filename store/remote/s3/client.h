// Single objects below s3://BUCKET/PREFIX: GET, HEAD and conditional PUT, signed, tried again if that may help.
// Thread-safe. Used by catalogue_file.cpp, pack_tables.cpp and remote.cpp.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "store/remote/s3/answer.h"
#include "store/remote/s3/http.h"
#include "store/remote/s3/settings.h"

namespace mlx::store::s3 {

struct Object {
  Bytes bytes;
  std::string tag;  // entity tag, as the server writes it
};

// The condition of a PUT.
struct Condition {
  std::string tag;        // of the object to replace; "": there must be none
  bool anything = false;  // no condition
};

struct Written {
  bool done = false;  // false: the condition did not hold
  std::string tag;    // of what was written; "" if the server does not say
};

class Client {
 public:
  Client(Settings settings, std::unique_ptr<HttpClient> http);

  // nullopt if there is no such object; kCorrupt if it is larger than `max_size`. With `known` the tag of what
  // the caller has: `unchanged` is set and the bytes stay empty if it is still that.
  std::optional<Object> get(const std::string& name, std::uint64_t max_size, const std::string& known = {},
                            bool* unchanged = nullptr);
  // Exactly `size` bytes (not 0) from `offset`. kNotFound, kCorrupt if the object is too short.
  Bytes get_range(const std::string& name, std::uint64_t offset, std::uint64_t size);
  std::optional<std::uint64_t> size_of(const std::string& name);  // nullopt if there is no such object
  // The server compares the bytes with their SHA-256. If an answer was lost and the next attempt finds the condition
  // broken, the object is read: the same bytes mean done.
  Written put(const std::string& name, ByteView bytes, const Condition& condition);
  // Writes an object that is named by its content, unless one of this size is there. `sent` as in HttpRequest.
  void create(const std::string& name, ByteView bytes, std::function<void(std::uint64_t)> sent);

  const Interruption& interruption() const { return http_->interruption(); }
  std::string url_of(const std::string& name) const;  // s3://BUCKET/PREFIX/NAME, for messages

 private:
  struct Call {
    std::string method, name;
    std::vector<Header> headers;
    ByteView body;
    std::function<void(std::uint64_t)> sent;
    std::uint64_t max_body = 0;
    bool lost = false;  // out: an earlier attempt may have been carried out
  };
  // The first answer that is neither a passing failure nor a redirect to another region.
  HttpResponse perform(Call& call, Problem& problem);
  HttpRequest sign(const Call& call, const std::string& region) const;
  bool moved(const HttpResponse& response, const std::string& region);
  std::string region() const;
  HttpResponse put_if(Call& call, const Condition& condition);
  [[noreturn]] void refuse(const HttpResponse& response, const Problem& problem, const std::string& name) const;

  const Settings settings_;
  const std::unique_ptr<HttpClient> http_;
  mutable std::mutex mutex_;
  std::string region_;
};

}  // namespace mlx::store::s3
