// Operations: canonical bytes only, since their digest is their identity and every clone has to agree on it.
#include "registry/operations/operation.h"
#include "fuzz.h"

using namespace mlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(data, size);
  fuzz::errors_are_fine([&] {
    const registry::Operation operation = registry::decode(bytes);
    const Bytes again = registry::encode(operation);
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "operations have one encoding");
    fuzz::require(operation.id == Digest::of(bytes), "an operation's id is its digest");
  });
  return 0;
}
