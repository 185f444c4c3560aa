// Runs another program without a shell: to its end, or with its streams open for a conversation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/interruption.h"

namespace mlx {

struct ProcessResult {
  int exit_code = 0;  // 128 + signal if it was killed; 127 if it could not be started
  std::string out, err;
};

// argv[0] is looked up in PATH. `input` is written to its stdin, which is then closed. It inherits our environment
// without the variables that `without` names.
ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input = {},
                          const std::string& folder = {}, const std::vector<std::string>& without = {});

// A program to talk with. Every call serves all three streams, so that neither side waits for the other however much is
// written. For one thread at a time. An interruption ends every wait with kInterrupted.
class Conversation {
 public:
  // kMissing if it cannot be started.
  explicit Conversation(const std::vector<std::string>& argv, const Interruption& interruption = Interruption::never());
  ~Conversation();  // ends the program: by the end of its input, then by signals
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  // False if the program no longer reads. What it says meanwhile is kept for read().
  bool write(ByteView bytes);
  void close_input();
  // At least one byte of what it says; 0 at its end.
  std::size_t read(void* data, std::size_t count);
  // Waits for its end; as ProcessResult::exit_code.
  int wait();
  // The last 16 KiB of what it has written to stderr.
  const std::string& errors() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx
