// How long work reports its progress. Libraries call this interface and never the terminal; cmd/ draws it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace mlx {

class Progress {
 public:
  virtual ~Progress() = default;
  // A stage of `total` units begins (total 0: unknown). `unit` is "B", "files", "steps", "images" …
  virtual void begin(std::string_view stage, std::uint64_t total, std::string_view unit) = 0;
  virtual void advance(std::uint64_t count) = 0;  // thread-safe
  virtual void note(std::string_view text) = 0;   // text behind the bar: "loss 0.312 acc 89.1 %"
  virtual void end() = 0;                         // the stage is done; its line is cleared or finished
  virtual void warn(std::string_view text) = 0;   // a line of its own on stderr
};

// Reports nothing.
class NoProgress final : public Progress {
 public:
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
};

// Set by cmd/main.cpp's handlers for SIGINT and SIGTERM (to the signal's number); long work looks at it between steps.
extern std::atomic<int> g_interrupted;
// Throws Error{kInterrupted} after such a signal.
void check_interrupted();

}  // namespace mlx
