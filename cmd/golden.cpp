// mlx golden: what a version answers to some inputs, kept and checked.
#include "cmd/golden.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/asked_model.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/describe.h"
#include "infer/examples.h"
#include "registry/record/judge.h"
#include "registry/repository.h"
#include "work/inputs.h"

namespace mlx::cmd {
namespace {

constexpr const char* kGolden = "golden";
constexpr std::int64_t kMostExamples = 1024, kMostTokens = infer::kMostGolden;

struct GoldenOptions {
  std::string model, data, split = "test";
  std::int64_t examples = 8, tokens = 64;
};

// The inputs out of a dataset, and the name that they are kept by.
struct ReadInputs {
  graph::Tensor inputs;
  std::string name;
};

ReadInputs read_inputs(const GoldenOptions& options, const infer::Model& model, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version data = work::resolve_dataset(repository, options.data, context.progress());
  const data::Reading reading = infer::reading_of(model.about());
  infer::check_kind(model.about(), data::kind_of(repository.store(), data.digest, options.split, reading));
  const data::DatasetPtr dataset =
      data::load(repository.store(), data.digest, options.split, reading, context.progress());
  infer::check_fits(model.about(), dataset->describe());
  data::BatchOptions batches;
  batches.batch = options.examples;
  batches.context = std::min(options.tokens, infer::context_of(model.about()));
  const auto source = dataset->batches(model.about().preprocessing, batches, context.pool());
  source->start(0);
  const data::BatchView* const batch = source->next();
  if (!batch) fail(ErrorKind::kUsage, "{} {} has no examples", options.data, options.split);
  ReadInputs out{{}, data.digest.text() + "#" + options.split};
  if (batches.context == 0) {
    out.inputs = infer::golden_examples(model, *batch, options.examples);
  } else {
    const auto* const ids = static_cast<const std::int32_t*>(batch->inputs.at(0).data);
    out.inputs = infer::golden_tokens({ids, ids + batches.context});
  }
  return out;
}

// "data/words@v1 test" of "<digest>#test".
std::string shown_name(const std::string& name, registry::Repository& repository) {
  const std::size_t hash = name.rfind('#');
  if (hash == std::string::npos) return printable(name);
  return split_text(repository, Digest::parse(name.substr(0, hash)), name.substr(hash + 1));
}

Json entry(const std::string& name, const infer::Golden& golden, const infer::Model& model, double apart,
           const char* status) {
  const bool text = golden.inputs.shape.rank == 1;
  return {{"name", name},
          {text ? "tokens" : "examples", golden.inputs.shape.dims[0]},
          {"difference", std::isfinite(apart) ? Json(apart) : Json()},
          {"allowed", infer::allowed_difference(model)},
          {"status", status}};
}

std::string size_text(const infer::Golden& golden) {
  return fmt::format("{} {}", golden.inputs.shape.dims[0], golden.inputs.shape.rank == 1 ? "tokens" : "examples");
}

void answer(const registry::Version& version, Json list, Context& context) {
  if (!context.wants_json()) return;
  context.json({{"schema", "mlx.golden/1"},
                {"model", version.name()},
                {"digest", version.digest.text()},
                {"dry_run", context.dry_run()},
                {"golden", std::move(list)}});
}

int keep(const GoldenOptions& options, const registry::Version& version, const infer::Model& model, Context& context) {
  registry::Repository& repository = context.repository();
  registry::require_may_record(repository, "attach");
  ReadInputs read = read_inputs(options, model, context);
  const infer::Golden golden = infer::golden_of(model, std::move(read.inputs));
  if (!std::isfinite(infer::difference_now(model, golden)))
    fail(ErrorKind::kNo, "{}: its outputs are not finite", version.name());
  if (!context.dry_run())
    registry::attach(repository, version.digest, kGolden, read.name, infer::encode_golden(golden));
  const std::string name = shown_name(read.name, repository);
  context.line(fmt::format("{}  {} of {}  {}", context.bold(version.name()), size_text(golden), name,
                           context.dry_run() ? "would be kept" : "kept"));
  answer(version, Json::array({entry(name, golden, model, 0, "kept")}), context);
  return 0;
}

int check(const registry::Version& version, const infer::Model& model, Context& context) {
  const std::vector<KeptGolden> all = golden_outputs(context.repository(), version);
  if (all.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("{} has no golden outputs", version.name()),
                "`mlx golden MODEL --data DATASET` keeps some");
  Json list = Json::array();
  bool equal = true;
  for (const KeptGolden& each : all) {
    const double apart = infer::difference_now(model, each.golden);
    const bool holds = apart <= infer::allowed_difference(model);
    equal = equal && holds;
    context.line(fmt::format("{}  {} of {}  {} ({:.3g} of the largest, {:.3g} allowed)", context.bold(version.name()),
                             size_text(each.golden), each.name, holds ? context.green("equal") : context.red("differs"),
                             apart, infer::allowed_difference(model)));
    list.push_back(entry(each.name, each.golden, model, apart, holds ? "equal" : "differs"));
  }
  answer(version, std::move(list), context);
  return equal ? 0 : 1;
}

int run_golden(const GoldenOptions& options, Context& context) {
  if (options.examples < 1 || options.examples > kMostExamples)
    fail(ErrorKind::kUsage, "--examples: expected 1 to {}, got {}", kMostExamples, options.examples);
  if (options.tokens < 1 || options.tokens > kMostTokens)
    fail(ErrorKind::kUsage, "--tokens: expected 1 to {}, got {}", kMostTokens, options.tokens);
  AskedModel asked = open_model(options.model, context);
  if (asked.version.number == 0)
    throw Error(ErrorKind::kUsage, fmt::format("{} is a folder: golden outputs are kept with versions", options.model),
                "`mlx import model` makes it one");
  const infer::Model model(std::move(asked.model), chosen_backend(context), context.pool());
  infer::check_takes_golden(model);
  return options.data.empty() ? check(asked.version, model, context) : keep(options, asked.version, model, context);
}

}  // namespace

std::vector<KeptGolden> golden_outputs(registry::Repository& repository, const registry::Version& version) {
  std::vector<KeptGolden> out;
  store::Store& store = repository.store();
  for (const registry::Attachment& each : registry::attachments(repository, version.digest, kGolden)) {
    const std::string name = shown_name(each.name, repository);
    if (!store.has_blob(each.blob)) store.reload();  // another process may just have added them
    if (!store.has_blob(each.blob))
      throw Error(ErrorKind::kNotFound, fmt::format("the golden outputs {} of {} are not here", name, version.name()),
                  "`mlx fetch --all` gets them");
    out.push_back({name, infer::decode_golden(store.read_blob(each.blob), "the golden outputs " + name)});
  }
  return out;
}

Command add_golden() {
  auto options = std::make_shared<GoldenOptions>();
  Command command;
  command.name = "golden";
  command.summary = "Keep what a version answers to some inputs, and check it elsewhere";
  command.group = "release";
  command.dry_run = true;
  command.options = {
      argument("MODEL", options->model, "The version", Complete::kReference),
      option("-d,--data", "DATASET", options->data,
             "Keep outputs for examples of it; without, check those that were kept", Complete::kReference),
      option("-s,--split", "SPLIT", options->split, "Which split of it (default: test)"),
      integer("--examples", "N", options->examples, "How many images or rows (default: 8)"),
      integer("--tokens", "N", options->tokens, "Of text: how many tokens at most (default: 64)"),
  };
  command.examples = {"mlx golden clf@v2 --data data/fashion", "mlx golden clf@production",
                      "mlx golden lm --data data/text --tokens 200"};
  command.run = [options](Context& context) { return run_golden(*options, context); };
  return command;
}

}  // namespace mlx::cmd
