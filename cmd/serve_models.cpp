// See serve_models.h.
#include "cmd/serve_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/path.h"
#include "cmd/asked_model.h"
#include "cmd/backend.h"
#include "cmd/cli/foreign_text.h"
#include "cmd/golden.h"
#include "cmd/model_reference.h"
#include "infer/model.h"
#include "registry/record/judge.h"
#include "registry/repository.h"
#include "registry/versions/references.h"
#include "registry/versions/rollback.h"
#include "serve/metrics.h"

namespace mlx::cmd {
namespace {

constexpr double kShortestWait = 1, kLongestWait = 60;  // seconds, until a version is tried again

// NAME=MODEL; the name is empty where none is given.
struct Word {
  std::string name, model;
};

// Where the whole word is a model, its '=' belongs to the model's name.
Word split_word(const std::string& word, Context& context) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || word.find('/') < equals) return {"", word};
  if (names_model_folder(word, context)) return {"", word};
  if (context.has_repository() && registry::try_resolve(context.repository(), word)) return {"", word};
  Word out{word.substr(0, equals), word.substr(equals + 1)};
  if (out.name.empty() || out.model.empty())
    fail(ErrorKind::kUsage, "'{}': expected MODEL or NAME=MODEL, such as old=clf@v2", word);
  return out;
}

// "production" of clf@production, where that is an alias of this version; else "".
std::string alias_in(const std::string& word, const registry::Version& version) {
  const std::size_t at = word.rfind('@');
  if (at == std::string::npos) return {};
  const std::string selector = word.substr(at + 1);
  return std::ranges::find(version.aliases, selector) == version.aliases.end() ? "" : selector;
}

}  // namespace

ServeModels::ServeModels(Options options, Context& context)
    : context_(context), options_(std::move(options)), backend_(chosen_backend(context)) {}

std::vector<serve::ModelSpec> ServeModels::load() {
  std::vector<serve::ModelSpec> specs;
  for (const std::string& word : options_.words) {
    const Word asked = split_word(word, context_);
    served_.push_back({.word = asked.model, .name = asked.name, .renamed = !asked.name.empty()});
    served_.back().metrics = std::make_shared<serve::ModelMetrics>();
    served_.back().guard = ReleaseGuard(options_.bounds);
    specs.push_back(load(served_.back()));
    if (!served_.back().unwatched.empty())
      throw Error(ErrorKind::kUsage, fmt::format("--monitor: {}", served_.back().unwatched),
                  "serve such models without --monitor, by a server of their own");
    titles_.push_back(served_.back().title);
    for (std::size_t earlier = 0; earlier + 1 < specs.size(); ++earlier) {
      if (specs.back().name != specs[earlier].name) continue;
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{} and {} would both be served as '{}'", options_.words[earlier], word, specs[earlier].name),
          "write NAME=MODEL to serve one of them under another name");
    }
  }
  return specs;
}

std::shared_ptr<const infer::Model> ServeModels::known(const std::string& digest) const {
  const auto found = models_.find(digest);
  return found == models_.end() ? nullptr : found->second.lock();
}

serve::ModelSpec ServeModels::load(Served& served) {
  std::optional<registry::Version> version = asked_version(served.word, context_);
  serve::ModelSpec spec;
  if (version) spec.model = known(version->digest.text());
  if (!spec.model) {
    AskedModel opened = open_model(served.word, context_);
    version = opened.version;
    spec.model = known(version->digest.text());
    if (!spec.model) {
      spec.model =
          std::make_shared<const infer::Model>(std::move(opened.model), backend_, context_.pool(), options_.cache);
      models_[version->digest.text()] = spec.model;
    }
  }
  const bool folder = version->number == 0;
  if (!folder)
    for (KeptGolden& each : golden_outputs(context_.repository(), *version))
      spec.golden.emplace_back(std::move(each.name), std::move(each.golden));
  if (!served.renamed) served.name = folder ? base_name(absolute_path(version->artifact)) : version->artifact;
  served.title = version->name();
  served.digest = version->digest.text();
  served.alias = folder ? "" : alias_in(served.word, *version);
  served.version = *version;
  spec.name = served.name;
  spec.version = folder ? version->digest.brief() : std::to_string(version->number);
  spec.digest = served.digest;
  spec.metrics = served.metrics;
  const bool selected = !served.renamed && !folder && served.word.find('@') != std::string::npos;
  if (selected) spec.reference = served.word;
  spec.created = version->time / 1'000'000;
  served.live.reset(), served.unwatched.clear(), served.drifted.clear();
  try {
    if (options_.window > 0) served.live = spec.live = watcher(spec.model, *version);
  } catch (const Error& error) {
    served.unwatched = error.message;
  }
  return spec;
}

std::shared_ptr<monitor::Live> ServeModels::watcher(const std::shared_ptr<const infer::Model>& model,
                                                    const registry::Version& version) {
  if (model->signature().takes == infer::Takes::kText)
    fail(ErrorKind::kUsage, "{} is a model of text: what it is asked cannot be compared", version.name());
  const monitor::Reference reference = training_reference(*model, version, false, context_);
  return std::make_shared<monitor::Live>(model, reference, options_.window, monitor::DriftOptions{});
}

void ServeModels::tell_drift(Served& served, serve::Control& control) {
  if (!served.live) return;
  const std::vector<std::string> seen = served.live->take_news();  // more than the state has, if it passed quickly
  std::vector<std::string> drifted = served.live->state().drifted;
  const bool news = std::ranges::any_of(
      seen, [&](const std::string& name) { return std::ranges::find(served.drifted, name) == served.drifted.end(); });
  std::string names;
  for (const std::string& name : seen) names += (names.empty() ? "" : ", ") + printable(name);
  if (news) control.warn(fmt::format("{}: drift in {}", served.title, names));
  if (drifted.empty() && (news || !served.drifted.empty()))
    control.say(fmt::format("{}: no drift any more", served.title));
  served.drifted = std::move(drifted);
}

bool ServeModels::follows_aliases() const {
  return std::ranges::any_of(served_, [](const Served& served) { return !served.alias.empty(); });
}

void ServeModels::look(serve::Control& control) {
  for (Served& served : served_) {
    tell_drift(served, control);
    if (served.alias.empty()) continue;
    try {
      follow(served, control);
      take_back_if_broken(served, control);
    } catch (const Error& error) {
      if (std::exchange(served.told, error.message) == error.message) continue;
      control.warn(fmt::format("{}: {}; the version before is still served{}", served.word, error.message,
                               error.hint.empty() ? "" : "\nhint: " + error.hint));
    } catch (const std::bad_alloc&) {
      control.warn(
          fmt::format("{}: there is no memory for the next version; the one before is still served", served.word));
    }
  }
}

void ServeModels::take_back_if_broken(Served& served, serve::Control& control) {
  const std::optional<std::string> why = served.guard.broken(served.metrics->counts());
  if (!why) return;
  served.guard.end();
  registry::Repository& repository = context_.repository();
  const registry::Rollback rollback = registry::plan_rollback(repository, served.version.artifact, served.alias);
  if (rollback.from.digest != served.version.digest) return;  // it was moved meanwhile
  registry::require_may_record(repository, "alias.move");
  registry::roll_back(repository, served.alias, rollback, "mlx serve: " + *why);
  served.taken_back = true;
  served.metrics->rolled_back();
  control.warn(
      fmt::format("{}: rolled back from {} to {}: {}", served.word, rollback.from.name(), rollback.to.name(), *why));
}

serve::ModelSpec ServeModels::load_counted(Served& next) {
  try {
    return load(next);
  } catch (const Error&) {
    next.metrics->refused();  // as the server counts what it refuses itself
    throw;
  }
}

void ServeModels::follow(Served& served, serve::Control& control) {
  const std::string digest = registry::resolve(context_.repository(), served.word).digest.text();
  if (digest == served.refused && seconds_now() < served.again) return;
  if (digest != served.digest) {
    served.wait = digest == served.refused ? std::min(2 * served.wait, kLongestWait) : kShortestWait;
    served.refused = digest;
    served.again = seconds_now() + served.wait;
    Served next = served;
    control.replace(load_counted(next));
    served = std::move(next);
    if (!std::exchange(served.taken_back, false))
      served.guard.begin(served.metrics->counts());
    else
      served.guard.end();  // an older one is not taken back as well
    control.say(fmt::format("{} is {} now", served.word, served.title));
    if (!served.unwatched.empty())
      control.warn(fmt::format("--monitor: {} is not watched: {}", served.title, served.unwatched));
  }
  served.refused.clear();
  served.told.clear();
}

}  // namespace mlx::cmd
