// mlx.toml and JSON, which a clone or a remote may have from anyone.
#include "base/json.h"
#include "base/toml.h"
#include "fuzz.h"

using namespace mlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text({data, size});
  fuzz::errors_are_fine([&] { (void)toml_to_json(parse_toml(text, "mlx.toml")); });
  fuzz::errors_are_fine([&] {
    const std::string once = canonical(parse_json(text, "json"));
    fuzz::require(canonical(parse_json(once, "json")) == once, "canonical JSON is its own canonical form");
  });
  return 0;
}
