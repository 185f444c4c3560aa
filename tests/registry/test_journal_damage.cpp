// Damage to the end of a journal, told from the torn end that a crash leaves.
#include <doctest/doctest.h>

#include "base/fd.h"
#include "clone.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/maintenance/rebuild.h"
#include "registry/sync/sync.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

void two_versions(Clone& c) {
  make(c.repo(), "clf", "one");
  make(c.repo(), "clf", "two");
}

}  // namespace

TEST_CASE("bug: a flipped bit in the journal's last record passed for a torn end if packs have the operation") {
  Clone c;
  two_versions(c);
  NoProgress quiet;
  push(c.repo(), {"origin", c.path("../origin")}, quiet);  // seals the operations
  const std::string journal = c.path(".mlx/journal");
  Bytes bytes = read_file(journal);
  SUBCASE("in the operation") {
    bytes[bytes.size() - 40] ^= 1;
  }
  SUBCASE("in the trailer") {
    bytes[bytes.size() - 3] ^= 1;
  }
  c.close();
  write_file_atomically(journal, bytes);
  c.open();
  const std::vector<std::string> problems = check_metadata(c.repo()).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("the last operations are damaged") != std::string::npos);
  c.close();
  rebuild_database(c.root, *c.disk, c.pool, quiet);
  c.open();
  CHECK(check_metadata(c.repo()).problems.empty());
  CHECK(versions(c.repo()).size() == 2);
}

TEST_CASE("bug: the size of a journal with a torn end was recorded as that of a whole one") {
  Clone c;
  two_versions(c);
  c.close();
  const std::string journal = c.path(".mlx/journal");
  const Bytes whole = read_file(journal);
  Bytes torn = whole;
  torn.insert(torn.end(), whole.begin() + 16, whole.begin() + 60);
  write_file_atomically(journal, torn);
  c.open();
  CHECK(check_metadata(c.repo()).problems.empty());
  CHECK(read_file(journal) == whole);
}
