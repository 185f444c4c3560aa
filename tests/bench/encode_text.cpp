// Encodes a text with a tokenizer's file, and prints how long it took of one core, in processor time. Run by
// tests/bench/tokenizers.py, which gives the package `tokenizers` the same pieces of text.
//
//   bench_tokenizers TOKENIZER TEXT PIECE_BYTES ROUNDS
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "data/tokenizer.h"

using namespace mlx;

namespace {

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Pieces end with lines.
std::size_t encode_all(const data::Tokenizer& tokenizer, std::string_view text, std::size_t piece) {
  std::size_t tokens = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n', std::min(piece, text.size()));
    const std::string_view part = text.substr(0, end == std::string_view::npos ? end : end + 1);
    tokens += tokenizer.encode(part, "text").size();
    text.remove_prefix(part.size());
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    const Bytes file = read_file(argv[1]), bytes = read_file(argv[2]);
    const double begin = processor_seconds();
    const data::Tokenizer tokenizer = data::Tokenizer::from_file(as_text(file), argv[1]);
    const double loaded = processor_seconds() - begin;
    double best = 1e9;
    std::size_t tokens = 0;
    for (int round = 0; round < std::stoi(argv[4]); ++round) {
      const double started = processor_seconds();
      tokens = encode_all(tokenizer, as_text(bytes), std::stoul(argv[3]));
      best = std::min(best, processor_seconds() - started);
    }
    fmt::print("{} {:.6f} {:.6f}\n", tokens, best, loaded);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.message);
    return 1;
  }
  return 0;
}
