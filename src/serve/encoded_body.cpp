// See encoded_body.h.
#include "serve/encoded_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/readers/source.h"
#include "serve/exchange.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kPiece = 256 * 1024;  // bytes at a time: no more than that is expanded in vain

bool is_gzip(std::string_view encoding) {
  return lower(encoding) == "gzip" || lower(encoding) == "x-gzip";
}

std::string inflate(std::string body, std::size_t most) {
  if (!body.starts_with("\x1f\x8b")) throw RefusedRequest(400, "", "the body is no gzip, as its Content-Encoding says");
  const std::unique_ptr<data::Source> source = data::inflated(data::memory_source(std::move(body)), "the body")();
  std::string out;
  for (;;) {
    const std::size_t before = out.size();
    out.resize(before + std::min(kPiece, most + 1 - before));
    const std::size_t wanted = out.size() - before;
    const std::size_t got = source->read_at(before, out.data() + before, wanted);
    out.resize(before + got);
    if (out.size() > most)
      throw RefusedRequest(413, "", fmt::format("the body is larger than {} bytes, once it is expanded", most));
    if (got < wanted) return out;
  }
}

}  // namespace

bool known_encoding(std::string_view encoding) {
  return lower(encoding) == "identity" || is_gzip(encoding);
}

std::string decoded_body(std::string_view encoding, std::string body, std::size_t most) {
  if (!is_gzip(encoding)) return body;
  try {
    return inflate(std::move(body), most);
  } catch (const data::SourceDamaged& damaged) {
    throw RefusedRequest(400, "", damaged.error.message);
  } catch (const RefusedRequest&) {
    throw;
  } catch (const Error& error) {
    throw RefusedRequest(400, "", error.message);
  }
}

}  // namespace mlx::serve
