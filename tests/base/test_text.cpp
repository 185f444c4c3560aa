#include "base/text.h"

#include <doctest/doctest.h>

#include <string>

using namespace mlx;

TEST_CASE("blanks go from the ends of a text and nowhere else") {
  CHECK(trimmed("") == "");
  CHECK(trimmed(" \t\r\n") == "");
  CHECK(trimmed("\r\n a\tb \n") == "a\tb");
  CHECK(trimmed("a") == "a");
}

TEST_CASE("ASCII letters become small, other bytes stay") {
  CHECK(lower("AZaz09@[\xC3\x84") == "azaz09@[\xC3\x84");
}

TEST_CASE("bug: a rate of ten thousand was shown as 1.137e+04") {
  CHECK(brief_number(11372.4) == "11372");
  CHECK(brief_number(-1234.6) == "-1235");
  CHECK(brief_number(0.51491) == "0.5149");
  CHECK(brief_number(0.0000123) == "1.23e-05");
  CHECK(brief_number(1e20) == "1e+20");
}

TEST_CASE("numbers are grouped by threes and counted things know their plural") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(18446744073709551615u) == "18,446,744,073,709,551,615");
  CHECK(counted(1, "file") == "1 file");
  CHECK(counted(0, "file") == "0 files");
  CHECK(counted(12345, "file") == "12,345 files");
}

TEST_CASE("bug: a command that a hint shows could not be pasted: words are quoted as a shell needs them") {
  for (const char* plain : {"clf@v2", "data/fashion", "clf@~1", "ssh://host/a-b_c", "--force", "\xc3\xbc"}) {
    CHECK(shell_quoted(plain) == plain);
  }
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("my data") == "'my data'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("$(rm -rf x)") == "'$(rm -rf x)'");
  CHECK(shell_quoted("~ada") == "'~ada'");
  CHECK(shell_quoted("a;b") == "'a;b'");
}

TEST_CASE("text: bug: a correlation just below 0 was written -0.00") {
  CHECK(hundredths(-0.004) == "0.00");
  CHECK(hundredths(-0.0) == "0.00");
  CHECK(hundredths(0.254) == "0.25");
  CHECK(hundredths(-1.5) == "-1.50");
}
