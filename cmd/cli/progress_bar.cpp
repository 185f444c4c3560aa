// Draws at most ten times a second, so that work may call advance() as often as it likes.
#include "cmd/cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/clock.h"
#include "cmd/cli/foreign_text.h"
#include "cmd/cli/standard_error.h"
#include "dist/rank_lines.h"

namespace mlx::cmd {
namespace {

constexpr double kTerminalInterval = 0.1, kToldInterval = 0.2, kLogInterval = 10;  // seconds
constexpr std::size_t kBarWidth = 20;

std::string amount(double value, const std::string& unit) {
  if (unit == "B") return format_bytes(static_cast<std::uint64_t>(value));
  std::string text = value >= 1e6   ? fmt::format("{:.1f}M", value / 1e6)
                     : value >= 1e4 ? fmt::format("{:.1f}k", value / 1e3)
                     : value >= 100 ? fmt::format("{:.0f}", value)
                                    : fmt::format("{:.3g}", value);
  return unit.empty() ? text : text + " " + unit;
}

std::string clock_text(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar(std::uint64_t done, std::uint64_t total) {
  const std::size_t full = static_cast<std::size_t>(static_cast<double>(std::min(done, total)) /
                                                    static_cast<double>(total) * static_cast<double>(kBarWidth));
  std::string text;
  for (std::size_t i = 0; i < kBarWidth; ++i) text += i < full ? "━" : "╌";
  return text;
}

}  // namespace

std::string progress_text(const std::string& stage, std::uint64_t done, std::uint64_t total, const std::string& unit,
                          double seconds, const std::string& note) {
  std::string text = stage;
  if (total > 0)
    text += fmt::format("  {:3.0f} %", 100.0 * static_cast<double>(std::min(done, total)) / static_cast<double>(total));
  if (total == 0) text += "  " + amount(static_cast<double>(done), unit);
  if (seconds > 0.2 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    text += "  " + amount(rate, unit) + "/s";
    if (total > done) text += "  ETA " + clock_text(static_cast<double>(total - done) / rate);
  }
  if (!note.empty()) text += "  " + note;
  return text;
}

ProgressBar::ProgressBar(bool quiet, bool colour, const Interruption& interruption)
    : Progress(interruption),
      quiet_(quiet),
      colour_(colour),
      told_(has_launcher()),
      terminal_(!told_ && isatty(STDERR_FILENO)) {}

void ProgressBar::begin(std::string_view stage, std::uint64_t total, std::string_view unit) {
  end();
  const std::lock_guard lock(mutex_);
  stage_ = printable(stage);
  unit_ = unit;
  note_.clear();
  total_ = total;
  done_ = 0;
  started_ = seconds_now();
  // Short stages show nothing.
  next_draw_ = started_ + (terminal_ || told_ ? 0.2 : kLogInterval);
  active_ = !quiet_;
}

void ProgressBar::advance(std::uint64_t count) {
  done_.fetch_add(count, std::memory_order_relaxed);
  if (!active_.load(std::memory_order_relaxed)) return;
  const double now = seconds_now();
  if (now < next_draw_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && active_) draw(now);
}

void ProgressBar::note(std::string_view text) {
  const std::lock_guard lock(mutex_);
  note_ = printable(text);
}

void ProgressBar::end() {
  const std::lock_guard lock(mutex_);
  if (told_ && active_) tell_launcher(true);
  active_ = false;
  clear();
}

void ProgressBar::warn(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear();
  write_stderr(
      fmt::format("mlx: {}warning:{} {}\n", colour_ ? "\x1b[33m" : "", colour_ ? "\x1b[0m" : "", printable(text)));
}

void ProgressBar::print_line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear();
  write_stderr(fmt::format("{}\n", shown(text)));
}

void ProgressBar::pass_on(std::string_view line) {
  const std::lock_guard lock(mutex_);
  clear();
  write_stderr(fmt::format("{}\n", line));
}

void ProgressBar::set_below(std::string_view text) {
  const std::lock_guard lock(mutex_);
  below_ = printable(text);
}

void ProgressBar::draw(double now) {
  next_draw_ = now + (terminal_ ? kTerminalInterval : told_ ? kToldInterval : kLogInterval);
  if (told_) return tell_launcher(false);
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  std::string text = progress_text(stage_, done, total_, unit_, now - started_, note_);
  if (!terminal_) {
    write_stderr(text + (below_.empty() ? "" : "  " + below_) + "\n");
    return;
  }
  const std::size_t width = terminal_width();
  if (text.size() >= width) text.resize(width - 1);
  if (total_ > 0 && text.size() + kBarWidth + 2 < width) text.insert(stage_.size(), "  " + bar(done, total_));
  text = "\r" + text + "\x1b[K";
  if (!below_.empty()) text += "\r\n" + below_.substr(0, width - 1) + "\x1b[K\x1b[A\r";
  write_stderr(text);
  drawn_ = true;
}

void ProgressBar::tell_launcher(bool ended) {
  const std::string line =
      dist::stage_line({ended, done_.load(std::memory_order_relaxed), total_, unit_, stage_, note_});
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// To the end of the screen: there may be a line below.
void ProgressBar::clear() {
  if (drawn_) write_stderr("\r\x1b[J");
  drawn_ = false;
}

}  // namespace mlx::cmd
