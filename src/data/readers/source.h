// The bytes of one file: out of the store, from disk or from memory. Used by everything that reads tables or compares
// contents. Not thread-safe: each thread opens its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/interruption.h"
#include "store/pack/store.h"

namespace mlx::data {

// A stored file or a disk is damaged, which no comparison takes for a difference. Not an Error, so that it passes
// through what catches those of formats.
struct SourceDamaged {
  Error error;
};

class Source {
 public:
  virtual ~Source() = default;
  // Up to `count` bytes from `offset`; fewer only at the end. Throws SourceDamaged.
  virtual std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const = 0;
  // Of a source whose size is not known without reading it: found by reading single bytes.
  virtual std::uint64_t size() const;
  // The size if it is known without reading the source.
  virtual std::optional<std::uint64_t> known_size() const { return std::nullopt; }
  // True if many small reads in any order take about as long as one large read.
  virtual bool reads_anywhere() const { return false; }
  // The stored chunks that make up exactly [begin, end); empty where that is not known. Equal lists mean equal bytes.
  virtual std::vector<Digest> chunks(std::uint64_t, std::uint64_t) const { return {}; }
};
using OpenSource = std::function<std::unique_ptr<Source>()>;

// Reading from the store or from disk ends with kInterrupted after an interruption: of the store, or of `interruption`.
OpenSource stored_source(const store::Store& store, const Digest& content);
OpenSource disk_source(const std::string& path, const Interruption& interruption);
OpenSource memory_source(std::string bytes);
// The same, inflated where the bytes are gzip or zstd. Reading backwards then starts again from the beginning.
OpenSource inflated(OpenSource open, const std::string& name);
// The same, also as UTF-8 where the text is UTF-16 with a byte order mark.
OpenSource plain_text(OpenSource open, const std::string& name);

// Raw deflate data (RFC 1951) as the plain bytes. `name` stands in messages.
std::unique_ptr<Source> deflated_source(std::unique_ptr<Source> source, const std::string& name);

// The first `most` bytes.
Bytes read_head(const Source& source, std::size_t most);

}  // namespace mlx::data
