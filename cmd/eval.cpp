// mlx eval: how good a model is on a split, by class, and how fast.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/asked_model.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/data_memory.h"
#include "cmd/requirements.h"
#include "registry/repository.h"
#include "registry/versions/references.h"
#include "train/evaluate/choices.h"
#include "train/evaluate/evaluate_version.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kMostQuestions = std::size_t{1} << 30;  // bytes

struct EvalOptions {
  std::string model, data, device, memory, split;
  bool force = false;
  std::vector<std::string> require;
};

void print_classes(const train::Evaluation& e, Context& context) {
  std::size_t width = 5;
  for (const std::string& label : e.labels) width = std::max(width, label.size());
  context.line(context.dim(fmt::format("  {:<{}}  precision  recall      f1  support", "class", width)));
  const std::size_t classes = e.confusion.empty() ? e.classes.size() : e.confusion.size();
  for (std::size_t i = 0; i < classes; ++i) {
    const train::ClassMetrics f = train::class_metrics(e, i);
    context.line(fmt::format("  {:<{}}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>7}", e.labels[i], width, f.precision, f.recall,
                             f.f1, f.support));
  }
}

void print_confusion(const train::Evaluation& e, Context& context) {
  std::size_t label = 5, cell = 5;
  for (const std::string& text : e.labels) label = std::max(label, text.size());
  for (const auto& row : e.confusion)
    for (const std::int64_t n : row) cell = std::max(cell, fmt::formatted_size("{}", n) + 2);
  context.line(context.dim("  rows: truth, columns: predicted"));
  std::string head = fmt::format("  {:<{}}", "", label);
  for (const std::string& text : e.labels) head += fmt::format("{:>{}}", text.substr(0, cell - 1), cell);
  context.line(context.dim(head));
  for (std::size_t i = 0; i < e.confusion.size(); ++i) {
    std::string line = fmt::format("  {:<{}}", e.labels[i], label);
    for (std::size_t j = 0; j < e.confusion.size(); ++j) {
      const std::string text = fmt::format("{:>{}}", e.confusion[i][j], cell);
      line += i == j ? context.bold(text) : e.confusion[i][j] == 0 ? context.dim(text) : text;
    }
    context.line(line);
  }
}

std::optional<registry::Version> known_version(const Digest& digest, Context& context) {
  for (const registry::Version& version : registry::versions(context.repository()))
    if (version.digest == digest && version.kind == registry::ArtifactKind::kModel) return version;
  return std::nullopt;
}

std::string data_folder(const std::string& word, Context& context) {
  const std::string folder = join_path(context.folder(), word);
  if (is_folder(folder)) return folder;
  throw Error(ErrorKind::kNotFound, fmt::format("--data {}: no such folder", word),
              context.has_repository() ? "name a dataset of the repository, or a folder of data"
                                       : "outside of a repository it is a folder of data");
}

// "accuracy 91.20 %", "r2 0.8312", "bits_per_byte 2.1043".
std::string main_metric_text(const train::Evaluation& e) {
  const std::string name = train::main_metric(e);
  if (name == "accuracy") return fmt::format("accuracy {:.2f} %", 100 * e.accuracy());
  for (const auto& [known, value] : e.metrics)
    if (known == name) return fmt::format("{} {:.4f}", name, value);
  return name + " not defined";
}

// Shares of right answers in per cent, as a training prints them.
std::string metric_text(const std::string& name, double value) {
  if (name == "accuracy" || name == "top5_accuracy") return fmt::format("{} {:.2f} %", name, 100 * value);
  return fmt::format("{} {:.6g}", name, value);
}

void print_metrics(const train::Evaluation& e, Context& context) {
  auto metrics = e.metrics;
  std::ranges::sort(metrics);  // by name, as a stored evaluation has them
  std::string line;
  for (const auto& [name, value] : metrics)
    if (name != train::main_metric(e)) line += (line.empty() ? "  " : ", ") + metric_text(name, value);
  if (!line.empty()) context.line(line);
}

void print_numbers(const train::Evaluation& e, Context& context) {
  std::size_t width = 6;
  for (const std::string& label : e.labels) width = std::max(width, label.size());
  context.line(context.dim(fmt::format("  {:<{}}  {:>12}  {:>12}  {:>7}", "target", width, "rmse", "mae", "r2")));
  for (std::size_t i = 0; i < e.numbers.size(); ++i) {
    const train::NumberMetrics& n = e.numbers[i];
    context.line(fmt::format("  {:<{}}  {:>12.6g}  {:>12.6g}  {:>7.4f}", e.labels[i], width, n.rmse, n.mae, n.r2));
  }
}

// Of a folder with a model's files: recorded where it is a version of the repository, else measured alone, on a dataset
// of the repository or on a folder of data.
train::EvaluateOutcome evaluate_asked(const EvalOptions& options, Context& context) {
  const kernels::Backend backend = chosen_backend(context, options.device);
  const data::MemoryBudget budget = data_memory(allowed_memory(options.memory), context);
  std::string reference = options.model;
  train::EvaluateOutcome outcome;
  std::optional<registry::Version> data;
  if (context.has_repository()) data = registry::try_resolve(context.repository(), options.data);
  if (names_model_folder(options.model, context)) {
    AskedModel asked = open_model(options.model, context);
    const std::optional<registry::Version> known = data ? known_version(asked.version.digest, context) : std::nullopt;
    if (!known) {
      outcome.recorded = false;
      outcome.model = asked.version;
      outcome.evaluation =
          data ? train::evaluate_on(context.repository().store(), data->digest, options.split, asked.model, backend,
                                    context.pool(), context.progress(), budget)
               : train::evaluate_on_folder(data_folder(options.data, context), options.split, asked.model, backend,
                                           context.disk(), context.pool(), context.progress(), budget);
      return outcome;
    }
    reference = known->name();
  }
  return train::evaluate_version(context.repository(), reference, options.data, options.split, options.force,
                                 context.command_line(), backend, context.progress(), budget);
}

// Whether --data is a file of questions, and no dataset.
bool asks_questions(const EvalOptions& options, Context& context) {
  const std::string path = join_path(context.folder(), options.data);
  if (!options.data.ends_with(".jsonl") || !path_exists(path) || is_folder(path)) return false;
  return !context.has_repository() || !registry::try_resolve(context.repository(), options.data);
}

// As evaluate_asked(), of a file of questions.
train::ChoicesOutcome answer_asked(const EvalOptions& options, Context& context) {
  const kernels::Backend backend = chosen_backend(context, options.device);
  const std::string what = printable(options.data);
  const Bytes file = read_regular_file(join_path(context.folder(), options.data), kMostQuestions);
  std::string reference = options.model;
  if (names_model_folder(options.model, context)) {
    AskedModel asked = open_model(options.model, context);
    const std::optional<registry::Version> known =
        context.has_repository() ? known_version(asked.version.digest, context) : std::nullopt;
    if (!known) {
      const std::vector<train::Question> questions = train::read_questions(as_text(file), what);
      const infer::Model model(std::move(asked.model), backend, context.pool());
      return {false, false, train::score_choices(model, questions, context.progress()), Digest::of(file),
              asked.version};
    }
    reference = known->name();
  }
  return train::evaluate_choices(context.repository(), reference, file, what, options.force, context.command_line(),
                                 backend, context.progress());
}

int run_choices(const EvalOptions& options, Context& context) {
  if (!options.split.empty() || !options.memory.empty())
    fail(ErrorKind::kUsage, "--split and --memory are for datasets; {} is a file of questions", options.data);
  const std::vector<Condition> requirements = parse_requirements(options.require);
  const train::ChoicesOutcome outcome = answer_asked(options, context);
  const Json measured = train::to_json(outcome.score);
  const std::vector<Verdict> verdicts = judge(requirements, measured);
  if (context.wants_json()) {
    Json json = {
        {"schema", "mlx.eval/1"},        {"unchanged", outcome.unchanged},        {"recorded", outcome.recorded},
        {"model", outcome.model.name()}, {"digest", outcome.model.digest.text()}, {"data", outcome.questions.text()},
        {"file", options.data}};
    json.update(measured);
    json["requirements"] = verdicts_json(verdicts);
    context.json(json);
  }
  const train::ChoicesScore& score = outcome.score;
  context.line(fmt::format("{} on {}: {}, {:.2f} % by length, {} questions, {:.1f}/s{}",
                           context.bold(outcome.model.name()), printable(options.data),
                           context.bold(fmt::format("accuracy {:.2f} %", 100 * score.accuracy())),
                           100 * score.accuracy_normalized(), score.count, score.per_second,
                           outcome.unchanged ? "  " + context.green("unchanged") : ""));
  print_verdicts(verdicts, context);
  return all_met(verdicts) ? 0 : static_cast<int>(ErrorKind::kNo);
}

int run_eval(EvalOptions options, Context& context) {
  if (asks_questions(options, context)) return run_choices(options, context);
  if (options.split.empty()) options.split = "test";
  const std::vector<Condition> requirements = parse_requirements(options.require);
  const train::EvaluateOutcome outcome = evaluate_asked(options, context);
  const train::Evaluation& e = outcome.evaluation;
  if (std::isnan(e.loss)) {
    context.progress().warn(fmt::format(
        "the loss over {} {} is NaN: the weights hold NaN, or the numbers grew too large", e.count, e.unit));
  }
  const std::vector<Verdict> verdicts = judge(requirements, train::to_json(e));
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.eval/1"},
                 {"unchanged", outcome.unchanged},
                 {"recorded", outcome.recorded},
                 {"model", outcome.model.name()},
                 {"digest", outcome.model.digest.text()}};
    json.update(train::to_json(e));
    json["requirements"] = verdicts_json(verdicts);
    context.json(json);
  }
  context.line(fmt::format("{} on {} {}: {}, loss {:.4f}, {:.0f} {}/s{}", context.bold(outcome.model.name()),
                           options.data, e.split, context.bold(main_metric_text(e)), e.loss, e.per_second, e.unit,
                           outcome.unchanged ? "  " + context.green("unchanged") : ""));
  print_metrics(e, context);
  if (!e.numbers.empty()) {
    context.line("");
    print_numbers(e, context);
  }
  if (!e.classes.empty() || !e.confusion.empty()) {
    context.line("");
    print_classes(e, context);
  }
  if (!e.confusion.empty()) {
    context.line("");
    print_confusion(e, context);
  }
  print_verdicts(verdicts, context);
  return all_met(verdicts) ? 0 : static_cast<int>(ErrorKind::kNo);
}

}  // namespace

Command add_eval() {
  auto options = std::make_shared<EvalOptions>();
  Command command;
  command.name = "eval";
  command.summary = "Measure a model on a split: accuracy, errors or perplexity, metrics by class, speed";
  command.group = "work";
  Option data = option(
      "-d,--data", "DATASET", options->data,
      "The dataset to measure on; for a model in a folder also a folder of data; for language models also a file "
      "of questions (.jsonl)",
      Complete::kReference);
  data.required = true;
  command.options = {
      argument("MODEL", options->model,
               "The model's reference (clf, clf@v2, clf@production) or a folder with its files", Complete::kReference),
      data,
      option("-s,--split", "SPLIT", options->split, "The split of the dataset (default: test)"),
      device_option(options->device),
      data_memory_option(options->memory),
      flag("--force", options->force, "Measure even if the answer is known"),
      {.names = "--require",
       .value = "CONDITION",
       .help = "Exit with 1 if it does not hold, such as 'accuracy >= 0.93'; may be repeated",
       .many = true,
       .texts = &options->require},
  };
  command.examples = {"mlx eval clf --data data/fashion --split test", "mlx eval clf@latest --data data/fashion --json",
                      "mlx eval clf --data data/fashion --require 'accuracy >= 0.93' --require 'loss < 0.3'",
                      "mlx eval lm --data arc.jsonl --require 'accuracy_norm >= 0.4'"};
  command.run = [options](Context& context) { return run_eval(*options, context); };
  return command;
}

}  // namespace mlx::cmd
