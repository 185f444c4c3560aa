// Single objects below s3://BUCKET/PREFIX: GET, HEAD and conditional PUT, signed, tried again where that may help.
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

// What has to hold for a PUT to happen.
struct Condition {
  std::string tag;        // of what must be there; "" means that nothing must
  bool anything = false;  // whatever is there, or nothing
};

struct Written {
  bool done = false;  // false: the condition did not hold
  std::string tag;    // of what was written; "" where the server does not say
};

class Client {
 public:
  Client(Settings settings, std::unique_ptr<HttpClient> http);

  // nullopt where there is no such object; kCorrupt where it is larger than `max_size`. With `known` the tag of what
  // the caller has: `unchanged` is set and the bytes stay empty where it is still that.
  std::optional<Object> get(const std::string& name, std::uint64_t max_size, const std::string& known = {},
                            bool* unchanged = nullptr);
  // Exactly `size` bytes (not 0) from `offset`. kNotFound, kCorrupt where the object is too short.
  Bytes get_range(const std::string& name, std::uint64_t offset, std::uint64_t size);
  std::optional<std::uint64_t> size_of(const std::string& name);  // nullopt where there is no such object
  // The server compares the bytes with their SHA-256. Where an answer was lost and the next attempt finds the condition
  // broken, what is there decides: the same bytes mean done.
  Written put(const std::string& name, ByteView bytes, const Condition& condition);
  // An object whose name says what it holds, unless it is there with as many bytes. `sent` as in HttpRequest.
  void create(const std::string& name, ByteView bytes, std::function<void(std::uint64_t)> sent);

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
  // Any answer that is neither passing nor a redirect to another region.
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
