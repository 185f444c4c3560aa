// Sizes as people type them.
#include <doctest/doctest.h>

#include "base/byte_size.h"
#include "throws.h"

using namespace mlx;

TEST_CASE("sizes are a number and a unit") {
  CHECK(parse_byte_size("1024") == 1024);
  CHECK(parse_byte_size("4GiB") == std::uint64_t{4} << 30);
  CHECK(parse_byte_size("1.5 MiB") == 3 << 19);
  CHECK(parse_byte_size("500MB") == 500000000);
  for (const char* wrong : {"", "GiB", "4 gib", "-1", "4GiBs", "1e3", "nan", "inf", "99999999999TiB", "4  GiB"})
    CHECK(error_of([&] { parse_byte_size(wrong); }).kind == ErrorKind::kUsage);
}
