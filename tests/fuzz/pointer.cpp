// Pointer files: what is accepted is written again as the same text.
#include "fuzz.h"
#include "registry/versions/pointers.h"

using namespace mlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text({data, size});
  fuzz::errors_are_fine([&] {
    fuzz::require(registry::encode_pointer(registry::decode_pointer(text, "pointer")) == text,
                  "a pointer has one text");
  });
  return 0;
}
