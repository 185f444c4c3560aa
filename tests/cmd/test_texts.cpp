// Lines that people read: progress, help, man pages, names of odd bytes.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/cli/foreign_text.h"
#include "cmd/cli/help.h"
#include "cmd/cli/model_text.h"
#include "cmd/cli/moment.h"
#include "cmd/cli/progress_bar.h"
#include "cmd/cli/terminal.h"
#include "cmd/describe.h"
#include "cmd/rank_logs.h"
#include "cmd/rank_view.h"

using namespace mlx;
using namespace mlx::cmd;

TEST_CASE("progress says share, rate and time left") {
  CHECK(progress_text("train", 50, 200, "images", 2, "loss 0.3") == "train   25 %  25 images/s  ETA 0:06  loss 0.3");
  CHECK(progress_text("train", 0, 200, "images", 0, "") == "train    0 %");
  CHECK(progress_text("scan", 12345, 0, "files", 1, "") == "scan  12.3k files  12.3k files/s");
  CHECK(progress_text("send", 2 << 20, 4 << 20, "B", 1, "") == "send   50 %  2.0 MiB/s  ETA 0:01");
  CHECK(progress_text("x", 1, 7201, "steps", 1, "") == "x    0 %  1 steps/s  ETA 2:00:00");
  CHECK(progress_text("x", 9, 3, "steps", 1, "") == "x  100 %  9 steps/s");
}

TEST_CASE("ranks: their pace is one line") {
  dist::Pace::Figures figures;
  figures.unit = "images";
  figures.units_per_second = 12345, figures.bytes_per_second = 3 << 20;
  figures.hosts = {{"a", 345}};
  figures.waiting = 0.126, figures.slowest = "rank 1 on b", figures.factor = 1.3;
  CHECK(pace_text(figures) == "12.3k images/s  slowest rank 1 on b 1.30x  waiting 13 %  3.0 MiB/s");
  figures.hosts.emplace_back("b", 12000);
  CHECK(pace_text(figures).starts_with("12.3k images/s of a 345, b 12.0k  slowest"));
  for (const char* host : {"c", "d", "e", "f"}) figures.hosts.emplace_back(host, 1);
  CHECK(pace_text(figures).starts_with("12.3k images/s of a 345, b 12.0k, c 1, d 1 and 2 more  slowest"));
}

TEST_CASE("ranks: what they say is kept without colours, from its last lines on") {
  RankLogs logs;
  logs.add(1, "mlx: \x1b[33mwarning:\x1b[0m one");
  logs.add(-1, "a\x07library");
  logs.add(1, "two");
  CHECK(logs.texts().at(1) == "mlx: warning: one\ntwo\n");
  CHECK(logs.texts().at(-1) == "a\\x07library\n");
  for (int i = 0; i < 50000; ++i) logs.add(0, std::string(60, 'x') + std::to_string(i));
  const std::string kept = logs.texts().at(0);
  CHECK(kept.size() <= RankLogs::kMost);
  CHECK(kept.size() > RankLogs::kMost - 200);
  CHECK(kept.starts_with("(what came before is not kept)\nx"));
  CHECK(kept.ends_with("x49999\n"));
  for (int rank = 2; rank < 10000; ++rank) logs.add(rank, "x");
  CHECK(logs.texts().size() == RankLogs::kMostRanks);
}

TEST_CASE("bug: a wrong clock was believed without a word") {
  CHECK(clock_problem(unix_micros()) == "");
  CHECK(clock_problem(0).find("1970-01-01T00:00:00Z") != std::string::npos);
  CHECK(clock_problem(-1'000'000).find("1969-12-31T23:59:59Z") != std::string::npos);
  CHECK(clock_problem(std::int64_t{1} << 62) != "");
}

TEST_CASE("names of any bytes are one printable line") {
  CHECK(printable("ü/日本") == "ü/日本");
  CHECK(printable("a\nb\x1b[31m") == "a\\x0ab\\x1b[31m");
  CHECK(printable("caf\xe9") == "caf\\xe9");
}

TEST_CASE("bug: what a terminal would act on is shown, whoever wrote it") {
  CHECK(shown("two\nlines\tü 日本") == "two\nlines\tü 日本");
  CHECK(shown("\x1b[31mred\r\x7f\a") == "\\x1b[31mred\\x0d\\x7f\\x07");
  CHECK(shown("\xc2\x9b"
              "31m") == "\\xc2\\x9b31m");  // U+009B, which is ESC [ too
  CHECK(shown("a\xe2\x80\xae"
              "b") ==
        "a\\xe2\\x80\\xae"
        "b");  // what follows is written from right to left
  CHECK(shown("\xe2\x81\xa6") == "\\xe2\\x81\\xa6");
  CHECK(shown("\xff\xc3") == "\\xff\\xc3");
  CHECK(shown("\xc2\xa0") == "\xc2\xa0");
  CHECK(shown("x\x1b") == "x\\x1b");
}

TEST_CASE("bug: colours are our own, and no text of others has them") {
  CHECK(shown(painted("31", "red") + " plain") == "\x1b[31mred\x1b[0m plain");
  CHECK(shown(painted("1", "\x1b[31m")) == "\x1b[1m\\x1b[31m\x1b[0m");
  CHECK(shown("\x1b"
              "0123456789abcdef31m") ==
        "\\x1b"
        "0123456789abcdef31m");
}

TEST_CASE("bug: documents hold the same strings and nothing that a terminal acts on") {
  const Json document = {{"name", "a\x1b\xc2\x9b\xe2\x80\xae\x7f\nü"}};
  const std::string text = json_text(document, -1);
  CHECK(text == R"({"name":"a\u001b\u009b\u202e\u007f\nü"})");
  CHECK(Json::parse(text) == document);
  CHECK(json_text({{"name", "caf\xe9"}}, -1) == "{\"name\":\"caf\xef\xbf\xbd\"}");
}

TEST_CASE("durations and sizes") {
  CHECK(duration_text(1'250'000) == "1.2 s");
  CHECK(duration_text(185'000'000) == "3 min 5 s");
  CHECK(duration_text(7'380'000'000) == "2 h 3 min");
  CHECK(files_text(1, 0).starts_with("1 file,"));
  CHECK(files_text(2, 0).starts_with("2 files,"));
}

TEST_CASE("colour: flag, then NO_COLOR, then CLICOLOR_FORCE, then terminal") {
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
  CHECK(wants_colour(process_environment(), "always", -1));
  CHECK_FALSE(wants_colour(process_environment(), "never", -1));
  CHECK_FALSE(wants_colour(process_environment(), "auto", -1));
  setenv("CLICOLOR_FORCE", "1", 1);
  CHECK(wants_colour(process_environment(), "auto", -1));
  CHECK_FALSE(wants_colour(process_environment(), "never", -1));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(wants_colour(process_environment(), "auto", -1));
  CHECK(wants_colour(process_environment(), "always", -1));
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
}

TEST_CASE("prose becomes roff that prints as written") {
  std::string name;
  Command command;
  command.name = "x";
  command.summary = "Do it";
  command.options = {argument("NAME", name, "The -n of it")};
  command.run = [](Context&) { return 0; };
  const std::string page =
      man_page(command, "# DESCRIPTION\n.starts with a dot, `a-b` and \\.\n\n- item\n\n    code --x\n\nafter\n");
  CHECK(page.find("\n\\&.starts with a dot, \\fBa\\-b\\fR and \\e.\n") != std::string::npos);
  CHECK(page.find(".IP \\(bu 2\nitem\n") != std::string::npos);
  CHECK(page.find(".EX\ncode \\-\\-x\n.EE") != std::string::npos);
  CHECK(page.find("\nafter\n") != std::string::npos);
  CHECK(page.find("The \\-n of it.\n") != std::string::npos);
}

TEST_CASE("bug: characters that are not seen, or break lines, stood in names of others") {
  CHECK(shown("a\u200Bb") == "a\\xe2\\x80\\x8bb");
  CHECK(shown("a\u2028b\u2029") == "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9");
  CHECK(shown("a\u00ADb\uFEFF") == "a\\xc2\\xadb\\xef\\xbb\\xbf");
  CHECK(shown("\U000E0041") == "\\xf3\\xa0\\x81\\x81");
  CHECK(shown("\u2027\u2010\uFF01 \U0001F600") == "\u2027\u2010\uFF01 \U0001F600");
  const Json document = {{"name", "a\u200Bb\U000E0041"}};
  CHECK(json_text(document, -1) == R"({"name":"a\u200bb\udb40\udc41"})");
  CHECK(Json::parse(json_text(document, -1)) == document);
}

// bug: a model could send a terminal sequences that change it.
TEST_CASE("what a model writes changes no terminal") {
  const auto on_terminal = [](std::initializer_list<std::string_view> pieces) {
    ModelText text(true);
    std::string out;
    for (const std::string_view piece : pieces) out += text.shown(piece);
    return out;
  };
  CHECK(on_terminal({"two\n\tlines"}) == "two\n\tlines");
  CHECK(on_terminal({"\x1b[2J\r\x07\x7f", "\x1b"}) == "?[2J????");
  CHECK(on_terminal({"caf\xc3", "\xa9 \xe2\x82", "\xac \xf0\x9f\x98\x80"}) ==
        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(on_terminal({"\xc2", "\x9b", "31m \x9b \xff \xc2\xa0"}) == "\xc2?31m ? ? \xc2\xa0");
  CHECK(on_terminal({"\xe2\x80\x8c"}) == "\xe2\x80\x8c");  // a joiner, which Persian needs
  ModelText file(false);
  CHECK(file.shown("\x1b[2J") == "\x1b[2J");
}
