#include "train/evaluate/choices.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "infer/generate.h"
#include "train_sources.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::train {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::size_t kMostChoices = 1024;

[[noreturn]] void wrong(const std::string& place, const std::string& problem) {
  throw Error(
      ErrorKind::kUsage, fmt::format("{}: {}", place, problem),
      R"(a line is {"question": TEXT, "choices": [TEXT, …], "answer": the index from 0, the text or the letter})");
}

std::string context_of_question(const Json& json, const std::string& place) {
  for (const char* const key : {"context", "question"}) {
    if (!json.contains(key)) continue;
    if (!json[key].is_string()) wrong(place, fmt::format("'{}' is no text", key));
    return json[key].get<std::string>();
  }
  wrong(place, "there is no 'question' and no 'context'");
}

std::size_t answer_of(const Json& json, const std::vector<std::string>& choices, const std::string& place) {
  if (!json.contains("answer")) wrong(place, "there is no 'answer'");
  const Json& answer = json["answer"];
  std::size_t index = choices.size();
  if (answer.is_number_unsigned()) {
    index = answer.get<std::size_t>();
  } else if (answer.is_string()) {
    const auto text = answer.get<std::string>();
    index = static_cast<std::size_t>(std::ranges::find(choices, text) - choices.begin());
    if (index == choices.size() && text.size() == 1 && text[0] >= 'A') index = static_cast<std::size_t>(text[0] - 'A');
  }
  if (index >= choices.size()) wrong(place, "'answer' is none of the choices");
  return index;
}

Question question_of(std::string_view line, const std::string& place) {
  Json json;
  try {
    json = parse_json(line, place);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.message, error.hint);
  }
  if (!json.is_object()) wrong(place, "it is no object");
  Question out{context_of_question(json, place), {}, 0, place};
  if (!json.contains("choices") || !json["choices"].is_array()) wrong(place, "there is no list of 'choices'");
  for (const Json& choice : json["choices"]) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) wrong(place, "a choice is no text");
    out.choices.push_back(choice.get<std::string>());
  }
  if (out.choices.size() < 2 || out.choices.size() > kMostChoices)
    wrong(place, fmt::format("{} choices, expected 2 to {}", out.choices.size(), kMostChoices));
  out.answer = answer_of(json, out.choices, place);
  return out;
}

// With the tokens that the tokenizer puts before a text, and without those behind it.
Tokens tokens_before(const data::Tokenizer& tokenizer, const std::string& text, const std::string& place) {
  data::PlacedTokens placed = tokenizer.encode_placed(text, place, true);
  while (!placed.ids.empty() && placed.places.back().second == placed.places.back().first &&
         placed.places.back().first > 0 && tokenizer.is_special(placed.ids.back()))
    placed.ids.pop_back(), placed.places.pop_back();
  return std::move(placed.ids);
}

double log_probability(std::span<const float> logits, std::int32_t token) {
  const double most = double{*std::ranges::max_element(logits)};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return double{logits[static_cast<std::size_t>(token)]} - most - std::log(sum);
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::size_t likeliest(const std::vector<double>& sums) {
  return static_cast<std::size_t>(std::ranges::max_element(sums) - sums.begin());  // the first of equal ones
}

// The standard error of a mean of zeros and ones, as the harness has it.
double standard_error(double share, std::int64_t count) {
  return count > 1 ? std::sqrt(share * (1 - share) / static_cast<double>(count - 1)) : 0;
}

ChoicesScore score_from(const Json& summary) {
  const std::string what = "evaluation";
  return {json_int(summary, "count", what), json_int(summary, "correct", what), json_int(summary, "correct_norm", what),
          json_number(summary, "questions_per_second", what)};
}

}  // namespace

std::vector<Question> read_questions(std::string_view text, const std::string& what) {
  std::vector<Question> out;
  std::size_t line = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string_view one = text.substr(from, end - from);
    if (one.ends_with('\r')) one.remove_suffix(1);
    from = end + 1, ++line;
    if (!one.empty()) out.push_back(question_of(one, fmt::format("{}: line {}", what, line)));
  }
  if (out.empty()) wrong(what, "there is no question");
  return out;
}

Json to_json(const ChoicesScore& score) {
  return {{"count", score.count},
          {"correct", score.correct},
          {"correct_norm", score.correct_normalized},
          {"unit", "questions"},
          {"target", "choices"},
          {"questions_per_second", score.per_second},
          {"metrics",
           {{"accuracy", score.accuracy()},
            {"accuracy_norm", score.accuracy_normalized()},
            {"accuracy_stderr", standard_error(score.accuracy(), score.count)},
            {"accuracy_norm_stderr", standard_error(score.accuracy_normalized(), score.count)}}}};
}

std::vector<double> log_likelihoods(infer::Generator& generator, const data::Tokenizer& tokenizer,
                                    const Question& question) {
  const std::size_t end = question.context.find_last_not_of(" \t\n\r\f\v") + 1;  // blanks behind it go to the choice
  const std::string context = question.context.substr(0, end), blanks = question.context.substr(end);
  const Tokens before = tokens_before(tokenizer, context, question.place);
  if (before.empty()) fail(ErrorKind::kUsage, "{}: the question is empty", question.place);
  std::vector<double> sums;
  for (const std::string& choice : question.choices) {
    Tokens all = tokens_before(tokenizer, context + blanks + " " + choice, question.place);
    if (all.size() < 2) fail(ErrorKind::kUsage, "{}: it is one token with its choice", question.place);
    const std::size_t first = std::min(before.size(), all.size() - 1);  // of the choice
    const std::size_t own = all.size() - first, most = static_cast<std::size_t>(generator.context());
    if (own > most)
      fail(ErrorKind::kUsage, "{}: a choice has {} tokens, the model takes {}", question.place, own, most);
    const std::size_t begin =
        all.size() - 1 > most ? all.size() - 1 - most : 0;  // what is too long loses its beginning
    const std::span<const std::int32_t> fed = std::span(all).subspan(begin, all.size() - 1 - begin);
    double sum = 0;
    std::size_t at = first;
    generator.follow_each(fed, first - 1 - begin, sums.empty(),
                          [&](std::span<const float> row) { sum += log_probability(row, all[at++]); });
    sums.push_back(sum);
  }
  return sums;
}

ChoicesScore score_choices(const infer::Model& model, const std::vector<Question>& questions, Progress& progress) {
  const auto& tokenizer = model.about().preprocessing.tokenizer;
  if (!tokenizer) fail(ErrorKind::kUsage, "the model has no tokenizer: it takes no text");
  infer::Generator generator(model, [&progress] { progress.check_interrupted(); });
  ChoicesScore out;
  generator.prepare();
  progress.begin("evaluating", questions.size(), "questions");
  const double started = seconds_now();
  for (const Question& question : questions) {
    std::vector<double> sums = log_likelihoods(generator, *tokenizer, question);
    if (!std::ranges::all_of(sums, [](double sum) { return std::isfinite(sum); }))
      fail(ErrorKind::kCorrupt, "{}: the model's logits hold NaN or infinity", question.place);
    ++out.count;
    out.correct += likeliest(sums) == question.answer ? 1 : 0;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= static_cast<double>(characters(question.choices[i]));
    out.correct_normalized += likeliest(sums) == question.answer ? 1 : 0;
    progress.advance(1);
  }
  out.per_second = static_cast<double>(out.count) / (seconds_now() - started);
  progress.end();
  return out;
}

ChoicesOutcome evaluate_choices(registry::Repository& repository, const std::string& model, ByteView file,
                                const std::string& what, bool force, const std::string& title, kernels::Backend backend,
                                Progress& progress) {
  const std::vector<Question> questions = read_questions(as_text(file), what);
  ChoicesOutcome out;
  out.model = work::resolve_model(repository, model);
  out.questions = Digest::of(file);
  work::Work work;
  work.command = "eval";
  work.title = title;
  work.inputs = {{"model", out.model.digest}};
  work.params = canonical({{"questions", out.questions.text()}});
  work.numerics = {Digest::parse(MLX_TRAIN_SOURCES), backend};
  work.force = force;
  work.runs_unrecorded = true;
  const auto body = [&](work::ActiveRun& run) {
    const infer::Model loaded(nn::load_model(repository.store(), out.model.digest), backend, repository.pool());
    out.score = score_choices(loaded, questions, progress);
    Json summary = to_json(out.score);
    summary["data"] = out.questions.text(), summary["file"] = what;
    run.attachments.push_back({out.model.digest, "choices", out.questions.text(), canonical(summary)});
    return summary;
  };
  const work::Outcome outcome = work::run_once(repository, work, body, progress);
  if (outcome.unchanged) out.score = score_from(parse_json(outcome.run.summary, "run:" + outcome.run.id));
  out.unchanged = outcome.unchanged;
  out.recorded = outcome.recorded;
  return out;
}

}  // namespace mlx::train
