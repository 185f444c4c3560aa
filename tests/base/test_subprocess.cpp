// Programs run without a shell, with any amount of data on all three streams.
#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/path.h"
#include "base/progress.h"
#include "base/subprocess.h"
#include "throws.h"

using namespace mlx;

TEST_CASE("output, errors and exit code come back") {
  const ProcessResult result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
  CHECK_EQ(result.exit_code, 3);
  CHECK_EQ(result.out, "out\n");
  CHECK_EQ(result.err, "err\n");
}

TEST_CASE("arguments reach the program as they are") {
  const ProcessResult result = run_process({"printf", "%s|", "a b", "$HOME", "*", ""});
  CHECK_EQ(result.out, "a b|$HOME|*||");
}

TEST_CASE("more than a pipe holds goes both ways at once") {
  std::string input(3'000'000, 'x');
  input += "end\n";
  const ProcessResult result = run_process({"sh", "-c", "tee /dev/stderr"}, input);
  CHECK_EQ(result.exit_code, 0);
  CHECK(result.out == input);
  CHECK(result.err == input);
}

TEST_CASE("a program that does not read its input ends in peace") {
  const ProcessResult result = run_process({"true"}, std::string(1'000'000, 'x'));
  CHECK_EQ(result.exit_code, 0);
  sigset_t pending;
  sigpending(&pending);
  CHECK_EQ(sigismember(&pending, SIGPIPE), 0);
  // The child itself has the default SIGPIPE.
  CHECK_EQ(run_process({"sh", "-c", "kill -PIPE $$"}).exit_code, 128 + SIGPIPE);
}

TEST_CASE("without input stdin is at its end") {
  CHECK_EQ(run_process({"cat"}).out, "");
}

TEST_CASE("what cannot be started is 127 with the reason") {
  const ProcessResult result = run_process({"mlx-no-such-program"});
  CHECK_EQ(result.exit_code, 127);
  CHECK_EQ(result.err, "mlx-no-such-program: cannot start: No such file or directory");
  CHECK_EQ(run_process({"true"}, {}, "/no/such/folder").exit_code, 127);
}

TEST_CASE("a signal is 128 and its number") {
  CHECK_EQ(run_process({"sh", "-c", "kill -TERM $$"}).exit_code, 128 + SIGTERM);
}

TEST_CASE("the program runs in the folder") {
  const TempFolder temp;
  CHECK_EQ(run_process({"pwd", "-P"}, {}, temp.path()).out, temp.path() + "\n");
}

TEST_CASE("several threads run programs at once") {
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 5; ++i) wrong[t] += run_process({"cat"}, std::to_string(t)).out != std::to_string(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a conversation goes back and forth, and both may say much at once") {
  Conversation talk({"sh", "-c", "echo ready >&2; exec cat"});
  std::array<char, 4> answer{};
  for (const char* word : {"one", "two"}) {
    REQUIRE(talk.write(as_bytes(word)));
    REQUIRE_EQ(talk.read(answer.data(), 3), 3u);
    CHECK_EQ(std::string(answer.data(), 3), word);
  }
  // `cat` says as much as it hears: whoever wrote without listening would wait for ever.
  const Bytes much(5'000'000, 7);
  CHECK(talk.write(much));
  talk.close_input();
  Bytes back(much.size() + 1);
  std::size_t got = 0;
  while (const std::size_t count = talk.read(back.data() + got, back.size() - got)) got += count;
  back.resize(got);
  CHECK(back == much);
  CHECK_EQ(talk.wait(), 0);
  CHECK_EQ(talk.errors(), "ready\n");
}

TEST_CASE("a program that has gone takes no more words, and says why it went") {
  Conversation talk({"sh", "-c", "echo the end >&2; exit 9"});
  while (talk.write(Bytes(100'000))) {
  }
  char byte = 0;
  CHECK_EQ(talk.read(&byte, 1), 0u);
  CHECK_EQ(talk.wait(), 9);
  CHECK_EQ(talk.errors(), "the end\n");
  sigset_t pending;
  sigpending(&pending);
  CHECK_EQ(sigismember(&pending, SIGPIPE), 0);
  CHECK_THROWS_AS(Conversation({"mlx-no-such-program"}), Error);
}

TEST_CASE("the program of a conversation that is dropped is ended, even one that will not hear") {
  const TempFolder temp;
  const std::string pid_file = temp.path() + "/pid";
  {
    Conversation talk(
        {"sh", "-c", "trap '' TERM; echo $$ >\"$1\"; echo; while :; do sleep 0.05; done", "sh", pid_file});
    char byte = 0;
    REQUIRE_EQ(talk.read(&byte, 1), 1u);
  }
  CHECK_EQ(run_process({"sh", "-c", "kill -0 $(cat \"$1\")", "sh", pid_file}).exit_code, 1);
}

TEST_CASE("a signal ends the wait for what a program says") {
  Interruption interruption;
  Conversation talk({"sleep", "20"}, interruption);
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    interruption.raise(SIGINT);
  });
  char byte = 0;
  CHECK_THROWS_AS(talk.read(&byte, 1), Error);
  signal.join();
}
