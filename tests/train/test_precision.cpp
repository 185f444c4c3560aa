// Training in bf16: every family comes to f32's loss, with the same bits on any number of threads and when stopped and
// resumed; what was used is part of the run; bad words and machines without bf16 are refused.
#include <doctest/doctest.h>

#include <cmath>

#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/versions/artifacts.h"
#include "store/worktree/scan.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// A repository with images and a text.
struct Both : World {
  Both(int threads, const std::string& config) : World(threads, config) {
    const std::string data = join_path(folder.path(), "data/rhyme");
    make_folders(data);
    std::string text;
    for (int i = 0; i < 20; ++i) text += "the cat sat on the mat.\nthe dog sat on the log.\n";
    write_file_atomically(join_path(data, "train.txt"), text);
    NoProgress silent;
    registry::NewVersion version;
    version.artifact = "data/rhyme";
    version.manifest = store::add_folder(repository->store(), data, nullptr, &repository->stat_cache(), pool, silent);
    version.message = "rhyme";
    registry::create_version(*repository, version);
    registry::write_pointer(*repository, {"data/rhyme", registry::ArtifactKind::kDataset, version.manifest.id,
                                          version.manifest.files, version.manifest.bytes});
  }
  // Mean of the last four steps.
  double last_loss(const TrainOutcome& outcome) {
    const std::vector<registry::MetricPoint> losses = registry::metrics(*repository, outcome.run.id, "train/loss");
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) sum += losses[losses.size() - 1 - i].value / 4;
    return sum;
  }
};

const char* const kImages = "[data]\ndataset = \"data/bars\"\nhold_out = 44\n[model]\nname = \"clf\"\n";
const char* const kText = "[data]\ndataset = \"data/rhyme\"\ntokenizer = \"chars\"\n[model]\nname = \"clf\"\n";
const char* const kSgd = "[train]\nepochs = 3\nbatch = 32\nseed = 5\nlearning_rate = 0.03\n";
const char* const kAdamW = "[train]\nepochs = 6\nbatch = 4\nseed = 5\noptimizer = \"adamw\"\nlearning_rate = 0.002\n";

// `tolerance`: between the losses that both precisions come to.
void check_family(const std::string& config, double tolerance) {
  CAPTURE(config);
  const std::string narrow = config + "checkpoint_every = 0.5\nprecision = \"bf16\"\n";
  Both one(1, config), three(3, narrow);
  const double wide_loss = one.last_loss(one.train());
  const std::string wide_id = one.id();
  one.write_config(narrow);
  const TrainOutcome outcome = one.train();
  const double loss = one.last_loss(outcome);
  MESSAGE(fmt::format("f32 {:.4f}, bf16 {:.4f}", wide_loss, loss));
  CHECK(std::abs(loss - wide_loss) < tolerance);
  CHECK(one.id() != wide_id);

  StopAt tripwire(11);
  CHECK_THROWS_WITH_AS(three.train(tripwire), doctest::Contains("after step 11"), Error);
  three.train(three.run());
  CHECK(three.id() == one.id());
}

std::string refusal(const std::function<void()>& what, ErrorKind kind) {
  try {
    what();
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message + "\n" + error.hint;
  }
  return "nothing was thrown";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool trains_bf16() {
  const std::string problem = kernels::bf16_problem(kernels::best_backend());
  if (!problem.empty()) MESSAGE("skipped: " << problem);
  return problem.empty();
}

}  // namespace

TEST_CASE("precision: image families in bf16 reach f32's loss") {
  if (!trains_bf16()) return;
  check_family(kImages + std::string("family = \"mlp\"\nhidden = [32, 32]\n") + kSgd, 0.02);
  check_family(kImages +
                   std::string("family = \"cnn\"\nlayers = [{ conv = 8, norm = \"batch\", activation = "
                               "\"relu\" }, { pool = \"max\", size = 2 }, { conv = 16, activation = "
                               "\"relu\" }, { flatten = true }, { dense = 32, activation = \"gelu\" }]\n") +
                   kSgd,
               0.02);
}

TEST_CASE("precision: residual families in bf16 reach f32's loss" * doctest::test_suite("long")) {
  if (!trains_bf16()) return;
  check_family(kImages + std::string("family = \"resnet\"\ndepth = 20\nwidth = 0.5\n") + kSgd, 0.05);
  check_family(kImages + std::string("family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 2\ndropout = 0.0\n") + kSgd,
               0.05);
}

TEST_CASE("precision: language models in bf16 reach f32's loss" * doctest::test_suite("long")) {
  if (!trains_bf16()) return;
  const std::string size = "layers = 2\nwidth = 32\nheads = 4\ncontext = 16\n";
  check_family(kText + ("family = \"gpt2\"\n" + size) + kAdamW, 0.05);
  check_family(kText + ("family = \"llama\"\nkv_heads = 2\ntie = true\n" + size) + kAdamW, 0.05);
}

TEST_CASE("precision: with every optimizer, micro-batches, clipping and averages, stopped and resumed" *
          doctest::test_suite("long")) {
  if (!trains_bf16()) return;
  for (const char* lines :
       {"optimizer = \"muon\"\naccumulate = 2\nema = 0.95\n", "optimizer = \"lion\"\nclip = 0.5\n"}) {
    const std::string config =
        with(std::string(lines) + "precision = \"bf16\"", replaced(synthetic::kConfig, "learning_rate = 0.05\n", ""));
    World whole(2, config), stopped(1, config);
    whole.train();
    StopAt tripwire(13);
    CHECK_THROWS_WITH_AS(stopped.train(tripwire), doctest::Contains("after step 13"), Error);
    stopped.train(stopped.run());
    CHECK(stopped.id() == whole.id());
  }
}

TEST_CASE("precision: what was used is part of the key and of the record; f32's keys are as they were") {
  if (!trains_bf16()) return;
  World world;
  const TrainOutcome f32 = world.train();
  CHECK(parse_json(f32.run.summary, "summary").at("precision") == "f32");
  CHECK_FALSE(has(f32.run.params, "precision"));
  world.write_config(with("precision = \"f32\""));
  CHECK(world.train().unchanged);
  world.write_config(with("precision = \"bf16\""));
  const TrainOutcome bf16 = world.train();
  CHECK(bf16.run.key != f32.run.key);
  CHECK(parse_json(bf16.run.summary, "summary").at("precision") == "bf16");
  CHECK(parse_json(bf16.run.params, "params").at("train").at("precision") == "bf16");
  // "auto" is what it comes to: here bf16, for numbers and other kernels f32.
  world.write_config(with("precision = \"auto\""));
  CHECK(world.train().unchanged);
  const TrainConfig config = world.config();
  data::Description data;
  CHECK(precision_of(config, data, kernels::best_backend()) == graph::Precision::kBF16);
  CHECK(precision_of(config, data, kernels::backend_named("avx512")) == graph::Precision::kF32);
  data.targets = data::TargetKind::kNumbers;
  CHECK(precision_of(config, data, kernels::best_backend()) == graph::Precision::kF32);
}

TEST_CASE("precision: on a GPU the default is bf16 unless targets are numbers; tf32 and fp16 only there") {
  World world;
  TrainConfig config = world.config();
  const kernels::Backend kGpu = kernels::backend_named("cuda"), kCpu = kernels::backend_named("onednn");
  data::Description data;
  CHECK(precision_of(config, data, kCpu) == graph::Precision::kF32);
  CHECK(precision_of(config, data, kGpu) == graph::Precision::kBF16);
  data.targets = data::TargetKind::kNumbers;
  CHECK(precision_of(config, data, kGpu) == graph::Precision::kF32);
  for (const std::string& word : precision_words()) {
    if (word == "auto") continue;
    set_precision(config, word);
    CHECK(name_of(precision_of(config, data, kGpu)) == word);
    if (word != "tf32" && word != "fp16") continue;
    const std::string refused = refusal([&] { precision_of(config, data, kCpu); }, ErrorKind::kUsage);
    CHECK_MESSAGE(has(refused, "--precision: " + word), refused);
    CHECK_MESSAGE(has(refused, "--precision f32"), refused);
    TrainConfig portable = config;
    portable.portable = true;
    CHECK(has(refusal([&] { precision_of(portable, data, kCpu); }, ErrorKind::kUsage), "portable numerics are f32"));
  }
}

TEST_CASE("precision: unknown words and kernels without bf16 are refused with what to do") {
  World world(1, with("precision = \"f16\""));
  const std::string unknown = refusal([&] { world.config(); }, ErrorKind::kUsage);
  CHECK_MESSAGE(has(unknown, "train.toml:"), unknown);
  CHECK_MESSAGE(has(unknown, "bf16"), unknown);
  world.write_config(with("precision = \"bf16\""));
  TrainConfig config = world.config();
  const auto missing = [&] {
    return refusal([&] { precision_of(config, {}, kernels::backend_named("avx512")); }, ErrorKind::kMissing);
  };
  CHECK_MESSAGE(has(missing(), "train.toml:"), missing());
  CHECK_MESSAGE(has(missing(), "precision = \"f32\""), missing());
  set_precision(config, "bf16");
  CHECK_MESSAGE(has(missing(), "--precision"), missing());
}

}  // namespace mlx::train::test
