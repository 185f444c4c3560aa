// Diagnostics for -v: one sink for the process, set once by cmd/main.cpp; silent by default.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <utility>

namespace mlx {

using LogSink = std::function<void(const std::string&)>;
void set_log_sink(LogSink sink);
bool log_enabled();
void log_line(const std::string& line);

template <typename... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled()) log_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mlx
