// "\x1emlx-says RANK TEXT", "\x1emlx-stage on|off DONE TOTAL UNIT\x1fNAME\x1fNOTE", "\x1emlx-run ID".
#include "dist/rank_lines.h"

#include <fmt/format.h>

#include <sstream>

#include "base/text.h"

namespace mlx::dist {
namespace {

constexpr std::string_view kAnyMark = "\x1emlx-", kSays = "\x1emlx-says ", kStage = "\x1emlx-stage ",
                           kRun = "\x1emlx-run ";
constexpr char kBetween = '\x1f';
constexpr int kMostNumbered = 1 << 16;

// Up to the next kBetween, of which none is left in it.
std::string next_field(std::istream& in) {
  std::string out;
  std::getline(in, out, kBetween);
  return printable(out);
}

}  // namespace

bool is_rank_line(std::string_view line) {
  return line.starts_with(kAnyMark);
}

std::string said_line(int rank, std::string_view text) {
  return fmt::format("{}{} {}\n", kSays, rank, text);
}

std::optional<Said> parse_said(std::string_view line) {
  if (!line.starts_with(kSays)) return {};
  std::istringstream in{std::string(line.substr(kSays.size()))};
  Said out;
  if (!(in >> out.rank) || out.rank < 0 || out.rank >= kMostNumbered || in.get() != ' ') return {};
  std::getline(in, out.text);
  return out;
}

std::string stage_line(const Stage& stage) {
  return fmt::format("{}{} {} {} {}{}{}{}{}\n", kStage, stage.ended ? "off" : "on", stage.done, stage.total,
                     printable(stage.unit), kBetween, printable(stage.name), kBetween, printable(stage.note));
}

std::optional<Stage> parse_stage(std::string_view line) {
  if (!line.starts_with(kStage)) return {};
  std::istringstream in{std::string(line.substr(kStage.size()))};
  Stage out;
  std::string state;
  if (!(in >> state >> out.done >> out.total) || in.get() != ' ') return {};
  if (state != "on" && state != "off") return {};
  out.ended = state == "off";
  out.unit = next_field(in);
  out.name = next_field(in);
  out.note = next_field(in);
  return out;
}

std::string run_line(std::string_view run) {
  return fmt::format("{}{}\n", kRun, run);
}

std::optional<std::string> parse_run(std::string_view line) {
  if (!line.starts_with(kRun)) return {};
  const std::string_view id = line.substr(kRun.size());
  constexpr std::size_t kLength = 16;  // registry::Run::id
  if (id.size() != kLength || id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  return std::string(id);
}

}  // namespace mlx::dist
