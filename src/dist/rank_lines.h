// What a rank tells the launcher that listens to it, besides its pulse (pulse.h): a line of stderr each, which begins
// with a mark, so that the launcher can tell it from what libraries write there. Written by cmd/, read by watch.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlx::dist {

// Whether a line begins with the mark. One that none of the functions below reads is of a newer mlx.
bool is_rank_line(std::string_view line);

// A line for people, without its end.
struct Said {
  int rank = 0;
  std::string text;
};
std::string said_line(int rank, std::string_view text);  // with its end, as all of these
std::optional<Said> parse_said(std::string_view line);   // without it

// How far rank 0 is, as Progress has it.
struct Stage {
  bool ended = false;
  std::uint64_t done = 0, total = 0;
  std::string unit, name, note;
};
std::string stage_line(const Stage& stage);
std::optional<Stage> parse_stage(std::string_view line);

// Rank 0 has begun a run.
std::string run_line(std::string_view run);
std::optional<std::string> parse_run(std::string_view line);

}  // namespace mlx::dist
