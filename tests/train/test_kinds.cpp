// Training and evaluation of what is not images, through a real repository: rows with each kind of target, and text.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "infer/answers.h"
#include "kernels/philox.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/pointers.h"
#include "store/worktree/scan.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/evaluate_version.h"
#include "train/trainer.h"

namespace mlx {
namespace {

std::string houses(std::uint32_t count, std::uint64_t stream) {
  std::string csv = "rooms,city,garden,price,kind,warm,dear\n";
  const char* const cities[] = {"Bonn", "Ulm", "\"Köln, Süd\""};
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto draw = [&](std::uint32_t what) { return kernels::random_u32(1, stream, i, what); };
    const std::uint32_t rooms = 1 + draw(0) % 7, city = draw(1) % 3, garden = draw(2) % 2;
    const std::uint32_t price = 50 * rooms + 80 * city + 100 * garden + draw(3) % 8;
    csv += fmt::format("{},{},{},{},{},{},{}\n", rooms, cities[city], garden ? "true" : "false", price,
                       rooms > 4 ? "big" : "small", garden, price > 350 ? 1 : 0);
  }
  return csv;
}

std::string words(std::uint32_t count) {
  const char* const all[] = {"mill ", "käse ", "stone ", "river "};
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) text += all[kernels::random_u32(2, 1, 1, i) % 4];
  return text;
}

// A repository with data/set@v1 of these files, and trainings of configs on it.
struct FilesWorld {
  explicit FilesWorld(const std::vector<std::pair<std::string, std::string>>& files, int threads = 2)
      : pool(threads), disk(store::real_disk()) {
    registry::Repository::init(folder.path(), *disk);
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
    const std::string data = join_path(folder.path(), "data/set");
    make_folders(data);
    for (const auto& [name, text] : files) write_file_atomically(join_path(data, name), text);
    NoProgress silent;
    const store::ManifestSummary summary =
        store::add_folder(repository->store(), data, nullptr, &repository->stat_cache(), pool, silent);
    registry::write_pointer(*repository,
                            {"data/set", registry::ArtifactKind::kDataset, summary.id, summary.files, summary.bytes});
    registry::NewVersion version;
    version.artifact = "data/set";
    version.manifest = summary;
    version.message = "data";
    registry::create_version(*repository, version);
  }

  train::TrainOutcome train(const std::string& data, const std::string& model, const std::string& train) {
    const std::string file = join_path(folder.path(), "train.toml");
    write_file_atomically(
        file, fmt::format("[data]\ndataset = \"data/set\"\n{}\n[model]\nname = \"m\"\n{}\n[train]\n{}\n", data, model,
                          train));
    NoProgress silent;
    train::TrainOptions options;
    options.backend = kernels::best_backend();
    return train::train(*repository, train::read_train_config(file), options, silent);
  }
  train::Evaluation evaluate(const std::string& split) {
    NoProgress silent;
    const train::EvaluateOutcome first =
        train::evaluate_version(*repository, "m", "data/set", split, false, "test", kernels::best_backend(), silent);
    // What is answered from the run's record says the same.
    const train::EvaluateOutcome again =
        train::evaluate_version(*repository, "m", "data/set", split, false, "test", kernels::best_backend(), silent);
    CHECK(again.unchanged);
    CHECK(canonical(train::to_json(again.evaluation)) == canonical(train::to_json(first.evaluation)));
    return first.evaluation;
  }

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
};

double metric(const train::Evaluation& e, const std::string& name) {
  for (const auto& [known, value] : e.metrics)
    if (known == name) return value;
  FAIL("no metric " << name);
  return 0;
}

const char* const kMlp = "family = \"mlp\"\nhidden = [16]";
const char* const kStepsOfRows = "epochs = 30\nbatch = 32\nlearning_rate = 0.05";

}  // namespace

TEST_CASE("rows: numbers are learned in units of their deviation and told in their own; the same bits on any threads") {
  const std::vector<std::pair<std::string, std::string>> files = {{"train.csv", houses(400, 1)},
                                                                  {"test.csv", houses(80, 2)}};
  FilesWorld world(files), other(files, 1);
  const std::string data = "target = \"price\"\nfeatures = [\"rooms\", \"city\", \"garden\"]\nhold_out = 0.1";
  const train::TrainOutcome outcome = world.train(data, kMlp, kStepsOfRows);
  CHECK(other.train(data, kMlp, kStepsOfRows).version.digest == outcome.version.digest);
  CHECK(world.train(data, kMlp, kStepsOfRows).unchanged);
  const Json summary = parse_json(outcome.run.summary, "summary");
  CHECK(summary["valid_r2"].get<double>() > 0.95);
  CHECK(summary["rows_per_second"].get<double>() > 0);
  CHECK_FALSE(summary.contains("accuracy"));
  const train::Evaluation e = world.evaluate("test");
  CHECK(e.count == 80);
  CHECK(metric(e, "r2") > 0.97);
  CHECK(metric(e, "rmse") < 30);
  CHECK(metric(e, "mae") <= metric(e, "rmse"));
  REQUIRE(e.numbers.size() == 1);
  CHECK(e.labels == std::vector<std::string>{"price"});

  const nn::Model model = nn::load_model(world.repository->store(), outcome.version.digest);
  NoProgress silent;
  const data::RowFile file{data::memory_source("garden,city,rooms\nfalse,Bonn,2\ntrue,Ulm,4\n"), data::TableKind::kCsv,
                           "x"};
  const data::Rows rows = data::read_rows(file, model.preprocessing.rows.value(), false, silent);
  const infer::Model ready(model, kernels::best_backend(), world.pool);
  infer::Session session(ready);
  const infer::Answers said = infer::answer_rows(session, rows, silent);
  CHECK(said.values[0] == doctest::Approx(104).epsilon(0.3));
  CHECK(said.values[1] == doctest::Approx(384).epsilon(0.15));

  const train::TrainOutcome huber =
      world.train(data, kMlp, fmt::format("{}\nloss = \"huber\"\nhuber_delta = 0.5", kStepsOfRows));
  CHECK(huber.version.digest != outcome.version.digest);
  CHECK(metric(world.evaluate("test"), "r2") > 0.95);
}

TEST_CASE("rows: classes and labels") {
  FilesWorld world({{"train.csv", houses(400, 1)}, {"test.csv", houses(80, 2)}});
  world.train("target = \"kind\"\nfeatures = [\"rooms\", \"city\"]", kMlp, kStepsOfRows);
  const train::Evaluation kind = world.evaluate("test");
  CHECK(kind.accuracy() > 0.95);
  CHECK(metric(kind, "auc") > 0.98);
  CHECK(metric(kind, "macro_f1") > 0.95);
  CHECK(kind.labels == std::vector<std::string>{"big", "small"});
  CHECK(kind.confusion.size() == 2);
  world.train("target = \"rooms\"\nfeatures = [\"price\", \"city\", \"garden\"]", kMlp,
              fmt::format("{}\nloss = \"softmax\"", kStepsOfRows));
  const train::Evaluation rooms = world.evaluate("test");
  CHECK(rooms.labels.size() == 7);
  CHECK(metric(rooms, "top5_accuracy") >= rooms.accuracy());
  world.train("target = [\"warm\", \"dear\"]\nfeatures = [\"rooms\", \"city\", \"garden\"]", kMlp,
              fmt::format("{}\nlabel_smoothing = 0.05", kStepsOfRows));
  const train::Evaluation labels = world.evaluate("test");
  CHECK(labels.count == 160);
  CHECK(labels.accuracy() > 0.9);
  CHECK(metric(labels, "auc") > 0.95);
  CHECK(labels.classes.size() == 2);
}

TEST_CASE("text: a tiny GPT-2 learns to spell, over characters and over bytes") {
  FilesWorld world({{"words.txt", words(1500)}});
  const char* const gpt = "family = \"gpt2\"\nlayers = 1\nwidth = 32\nheads = 2\ncontext = 16";
  const char* const steps = "epochs = 4\nbatch = 16\noptimizer = \"adamw\"\nlearning_rate = 0.01";
  const train::TrainOutcome outcome = world.train("tokenizer = \"chars\"\nhold_out = 800", gpt, steps);
  const Json summary = parse_json(outcome.run.summary, "summary");
  // Four words, two bits each, in 23 bytes: 0.35 bits a byte is what there is to know.
  CHECK(summary["valid_bits_per_byte"].get<double>() < 1.0);
  CHECK(summary["tokens_per_second"].get<double>() > 0);
  const train::Evaluation e = world.evaluate("train");
  CHECK(metric(e, "perplexity") == doctest::Approx(std::exp(e.loss)));
  CHECK(metric(e, "bits_per_byte") < 1.0);
  const std::string text = words(1500);
  const auto bytes = static_cast<std::int64_t>(text.size());
  CHECK(e.count == bytes - std::count(text.begin(), text.end(), '\xC3') - 1);
  world.train("hold_out = 0.1", gpt, steps);
  CHECK(world.evaluate("train").count == bytes - 1);
}

// Ten columns of small numbers, and a noisy target of hundreds, as of the diabetes data.
std::string patients(std::uint32_t count) {
  std::string csv = "a,b,c,d,y\n";
  for (std::uint32_t i = 0; i < count; ++i) {
    double x[5];
    for (std::uint32_t k = 0; k < 5; ++k) x[k] = kernels::to_unit(kernels::random_u32(3, 1, i, k)) - 0.5;
    const double y = 152 + 150 * x[0] + 120 * x[1] - 60 * x[2] + 100 * x[4];
    csv += fmt::format("{:.5f},{:.5f},{:.5f},{:.5f},{:.0f}\n", x[0] / 7, x[1] / 7, x[2] / 7, x[3] / 7, y);
  }
  return csv;
}

TEST_CASE("bug: by default a regression diverged, and 100 rows were too few for a batch") {
  for (const std::uint32_t count : {100u, 353u}) {
    FilesWorld world({{"train.csv", patients(count)}});
    const train::TrainOutcome outcome =
        world.train("target = \"y\"\nhold_out = 0.2", "family = \"mlp\"\nhidden = [64, 64]", "epochs = 60");
    CAPTURE(outcome.run.summary);
    CHECK(parse_json(outcome.run.summary, "summary")["valid_r2"].get<double>() > 0.5);
    CHECK(parse_json(outcome.run.params, "params")["train"]["optimizer"]["name"] == "adamw");
  }
}

TEST_CASE("text is learned by default, in both families") {
  FilesWorld world({{"words.txt", words(1500)}});
  for (const char* family : {"gpt2", "llama"}) {
    const train::TrainOutcome outcome = world.train(
        "hold_out = 0.1", fmt::format("family = \"{}\"\nlayers = 2\nwidth = 32\nheads = 2\ncontext = 16", family),
        "epochs = 30");
    CAPTURE(family);
    CHECK(parse_json(outcome.run.summary, "summary")["valid_bits_per_byte"].get<double>() < 2.0);
    CHECK(parse_json(outcome.run.params, "params")["train"]["optimizer"]["name"] == "adamw");
  }
}

TEST_CASE("data and config that do not fit are refused with their reason") {
  FilesWorld rows({{"train.csv", houses(60, 1)}, {"other.txt", "x"}}), text({{"a.txt", words(50)}});
  const auto refuses = [](FilesWorld& world, const std::string& data, const std::string& train, const std::string& what,
                          const char* model = kMlp) {
    std::string message = "nothing was thrown";
    try {
      world.train(data, model, train);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      message = error.message + " | " + error.hint;
    }
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  const std::string price = "target = \"price\"";
  refuses(rows, "", kStepsOfRows, "which column of train.csv is the target?");
  refuses(rows, "target = \"prise\"", kStepsOfRows,
          "train.toml:3: [data] target: train.csv has no column 'prise' | did you mean");
  refuses(rows, price, "epochs = 1\nbatch = 61", "larger than the 60 training examples");
  refuses(rows, price, "epochs = 1\nloss = \"binary\"", "column 'price' holds");
  refuses(rows, price, "epochs = 1\nlabel_smoothing = 0.1", "label_smoothing is for classes and labels");
  refuses(rows, price, "epochs = 1\nhuber_delta = 2", "huber_delta: it is only for loss = \"huber\"");
  refuses(rows, price + "\ntokenizer = \"chars\"", kStepsOfRows, "tokenizer is for text, the split holds rows");
  refuses(rows, price + "\nhold_out = 1.5", kStepsOfRows, "hold_out: expected a count, or a share below 1");
  refuses(rows, price + "\nhold_out = 60", kStepsOfRows, "leaves nothing");
  refuses(rows, price, kStepsOfRows, "takes images", "family = \"cnn\"\nlayers = [{ flatten = true }]");
  const char* const gpt = "family = \"gpt2\"\nlayers = 1\nwidth = 32\nheads = 2\ncontext = 16";
  refuses(text, price, kStepsOfRows, "target is for rows, the split holds tokens", gpt);
  refuses(text, "", "epochs = 1\nloss = \"mse\"", "loss = \"mse\" does not fit targets that are tokens", gpt);
  refuses(text, "", "epochs = 1\nbatch = 100", "windows of 16 tokens", gpt);
  refuses(text, "hold_out = 100000", "epochs = 1", "leaves nothing", gpt);
  refuses(text, "", "epochs = 1", "the text has",
          "family = \"gpt2\"\nlayers = 1\nwidth = 32\nheads = 2\ncontext = 5000");
}

}  // namespace mlx
