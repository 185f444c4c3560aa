// The precision and numerics of a training (config.h).

#include "base/error.h"
#include "train/config/config.h"

namespace mlx::train {
namespace {

using graph::Precision;

constexpr const char* kAuto = "auto";
struct Word {
  Precision precision;
  const char* word;
};
constexpr Word kWords[] = {
    {Precision::kF32, "f32"}, {Precision::kTF32, "tf32"}, {Precision::kBF16, "bf16"}, {Precision::kF16, "fp16"}};

// Checks that the precision which the config asks for is possible.
void check_possible(const TrainConfig& config, Precision precision, kernels::Backend backend) {
  const auto place = [&] { return fmt::format("{}: {}", config.precision_place, config.precision); };
  if (config.portable && precision != Precision::kF32)
    throw Error(ErrorKind::kUsage, place() + ": portable numerics are f32", "train with native numerics, or in f32");
  const kernels::Capabilities& can = backend.can();
  if ((precision == Precision::kTF32 && !can.multiplies_tf32) ||
      (precision == Precision::kF16 && !can.multiplies_f16)) {
    throw Error(ErrorKind::kUsage, place() + ": tf32 and fp16 are for GPUs",
                "train with --device cuda; on a CPU use --precision f32, or bf16 if it has AVX512_BF16");
  }
  const std::string problem = precision == Precision::kBF16 ? kernels::bf16_problem(backend) : "";
  if (!problem.empty()) {
    throw Error(ErrorKind::kMissing, fmt::format("{}: {}", place(), problem),
                "precision = \"f32\" works anywhere; \"auto\" uses bf16 only if it is available");
  }
}

}  // namespace

std::vector<std::string> precision_words() {
  std::vector<std::string> words;
  for (const Word& each : kWords) words.emplace_back(each.word);
  words.emplace_back(kAuto);
  return words;
}

const char* name_of(Precision precision) {
  for (const Word& each : kWords)
    if (each.precision == precision) return each.word;
  return "unknown";
}

void set_precision(TrainConfig& config, const std::string& word) {
  config.precision = word;
  config.precision_place = "--precision";
  config.options += " --precision " + word;
}

void set_numerics(TrainConfig& config, const std::string& word) {
  config.portable = word == "portable";
  config.options += " --numerics " + word;
}

Precision precision_of(const TrainConfig& config, const data::Description& data, kernels::Backend backend) {
  for (const Word& each : kWords) {
    if (config.precision != each.word) continue;
    check_possible(config, each.precision, backend);
    return each.precision;
  }
  if (config.precision.empty() && !backend.can().prefers_bf16) return Precision::kF32;
  const bool fine = kernels::bf16_problem(backend).empty() && data.targets != data::TargetKind::kNumbers;
  return fine && !config.portable ? Precision::kBF16 : Precision::kF32;
}

}  // namespace mlx::train
