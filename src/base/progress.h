// How long work reports its progress, and learns that it shall end. Libraries call this interface and never the
// terminal; cmd/ draws it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/interruption.h"

namespace mlx {

class Progress {
 public:
  // `interruption` outlives it.
  explicit Progress(const Interruption& interruption = Interruption::never()) : interruption_(interruption) {}
  virtual ~Progress() = default;
  // A stage of `total` units begins (total 0: unknown). `unit` is "B", "files", "steps", "images" …
  virtual void begin(std::string_view stage, std::uint64_t total, std::string_view unit) = 0;
  virtual void advance(std::uint64_t count) = 0;  // thread-safe
  virtual void note(std::string_view text) = 0;   // text behind the bar: "loss 0.312 acc 89.1 %"
  virtual void end() = 0;                         // the stage is done; its line is cleared or finished
  virtual void warn(std::string_view text) = 0;   // a line of its own on stderr

  const Interruption& interruption() const { return interruption_; }
  void check_interrupted() const { interruption_.check(); }  // thread-safe

 private:
  const Interruption& interruption_;
};

// Reports nothing.
class NoProgress final : public Progress {
 public:
  using Progress::Progress;
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
};

}  // namespace mlx
