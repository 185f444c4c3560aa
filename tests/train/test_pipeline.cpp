// Ranks that hold the stages of one model train it to the bits of one rank that holds all of it, and leave whole
// checkpoints and models. Ranks are threads here.
#include "rhyme.h"
#include "train/loop/pipeline_schedule.h"

namespace mlx::train::test {
namespace {

void check_same(const RankRun& one, const RankRun& other) {
  CHECK(nn::encode_tensors(one.result.tensors) == nn::encode_tensors(other.result.tensors));
  CHECK(nn::encode_tensors(one.sink.last->tensors) == nn::encode_tensors(other.sink.last->tensors));
  for (const char* metric : {"train/loss", "train/gradient_norm", "train/accuracy", "valid/loss"}) {
    CAPTURE(metric);
    CHECK(one.sink.metrics.at(metric) == other.sink.metrics.at(metric));
  }
}

std::string pipelined(const std::string& family, const std::string& optimizer, const std::string& more) {
  return replaced(text_config(family, optimizer, more), "batch = 4", "batch = 8");
}

// Simulates all stages: an action runs when what it waits for is done. Returns the most micro-batches that each stage
// has begun and not ended.
std::vector<int> simulate(int stages, int micro_batches, bool tied) {
  using Kind = PipelineAction::Kind;
  std::vector<std::vector<PipelineAction>> left;
  for (int stage = 0; stage < stages; ++stage) {
    left.push_back(pipeline_schedule(stages, stage, micro_batches, tied && stage + 1 == stages));
    std::ranges::reverse(left.back());
  }
  const auto count = static_cast<std::size_t>(micro_batches);
  std::vector forward(static_cast<std::size_t>(stages), std::vector<bool>(count)), backward = forward;
  std::vector<int> held(static_cast<std::size_t>(stages)), most = held;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < left.size(); ++stage) {
      if (left[stage].empty()) continue;
      const PipelineAction next = left[stage].back();
      const auto at = static_cast<std::size_t>(next.micro_batch);
      const bool last = stage + 1 == left.size(), ends = next.kind == (tied && last ? Kind::kLate : Kind::kBackward);
      const bool ready = next.kind == Kind::kForward    ? stage == 0 || forward[stage - 1][at]
                         : next.kind == Kind::kBackward ? forward[stage][at] && (last || backward[stage + 1][at])
                                                        : backward[0][at] && backward[stage][at];
      if (!ready) continue;
      if (next.kind == Kind::kForward) forward[stage][at] = true, ++held[stage];
      if (next.kind == Kind::kBackward) backward[stage][at] = true;
      if (ends) --held[stage];
      most[stage] = std::max(most[stage], held[stage]);
      left[stage].pop_back();
      moved = true;
    }
  }
  for (std::size_t stage = 0; stage < left.size(); ++stage)
    CHECK_MESSAGE(left[stage].empty(), "stage ", stage, " waits");
  return most;
}

}  // namespace

TEST_CASE("pipeline: the stages of a model have the bits of the whole") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    for (const char* optimizer : {"sgd", "adamw"}) {
      CAPTURE(family);
      CAPTURE(optimizer);
      const std::string config = pipelined(family, optimizer, "accumulate = 4\nema = 0.9\n");
      const RankRun whole = train_on(data, config, 1);
      CHECK(whole.result.steps == 6);
      for (const int stages : {2, 3, 4}) {
        CAPTURE(stages);
        check_same(train_on(data, config + fmt::format("pp = {}\n", stages), stages), whole);
      }
    }
  }
}

TEST_CASE("pipeline: any form of training has the bits of the whole") {
  RhymeData data;
  const std::string tied =
      replaced(pipelined("llama", "adamw", "accumulate = 4\n"), "hidden = 36", "hidden = 36\ntie = true");
  const std::string muon = pipelined("gpt2", "muon", "accumulate = 8\n");
  const std::string half = pipelined("gpt2", "adamw", "accumulate = 4\nprecision = \"bf16\"\nkeep = \"best\"\n");
  const std::string half_llama = pipelined("llama", "lion", "accumulate = 4\nprecision = \"bf16\"\n");
  const std::string wire = pipelined("gpt2", "sgd", "accumulate = 4\nwire = \"bf16\"\n");
  const std::string unclipped = replaced(pipelined("gpt2", "sgd", "accumulate = 2\n"), "clip = 0.5", "");
  for (const std::string& config : {tied, muon, half, half_llama, wire, unclipped}) {
    CAPTURE(config);
    RankRun whole = train_on(data, config, 1), stages = train_on(data, config + "pp = 2\n", 2);
    CHECK(nn::encode_tensors(stages.result.tensors) == nn::encode_tensors(whole.result.tensors));
    CHECK(stages.sink.metrics.at("train/loss") == whole.sink.metrics.at("train/loss"));
  }
}

TEST_CASE("pipeline: with data parallel and with tensor parallel the bits are those without stages") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string config = pipelined(family, "sgd", "accumulate = 4\nema = 0.9\n");
    check_same(train_on(data, config + "pp = 2\n", 4), train_on(data, config, 1));
    const RankRun parts = train_on(data, config + "tp = 2\n", 2);
    check_same(train_on(data, config + "tp = 2\npp = 2\n", 4), parts);
    check_same(train_on(data, config + "tp = 2\npp = 2\n", 8), parts);
  }
}

TEST_CASE("pipeline: any number of stages and parts resumes a checkpoint") {
  RhymeData data;
  struct Division {
    int tp, pp;
    int ranks() const { return tp * pp; }
  };
  const std::string config = pipelined("gpt2", "adamw", "accumulate = 4\n");
  const auto of = [&](Division d) { return config + fmt::format("tp = {}\npp = {}\n", d.tp, d.pp); };
  const RankRun whole = train_on(data, config, 1);
  for (const Division from : {Division{1, 1}, Division{1, 2}, Division{2, 2}}) {
    CAPTURE(from.ranks());
    StopAt tripwire(3);
    const std::int64_t last = from.ranks() == 1 ? 3 : 4;  // the others are told with a step's result
    RankRun stopped;
    CHECK_THROWS_WITH_AS(train_on(data, of(from), from.ranks(), stopped, &tripwire),
                         fmt::format("interrupted after step {} of 6; a checkpoint is kept", last).c_str(), Error);
    REQUIRE(stopped.sink.last->step == last);
    for (const Division to : {Division{1, 1}, Division{1, 4}, Division{2, 2}}) {
      CAPTURE(to.ranks());
      RankRun resumed = stopped;
      train_on(data, of(to), to.ranks(), resumed);
      CHECK(resumed.result.from == last);
      check_follows(resumed, whole, 1e-4);
      if (from.tp == 1 && to.tp == 1)
        CHECK(nn::encode_tensors(resumed.result.tensors) == nn::encode_tensors(whole.result.tensors));
    }
  }
}

TEST_CASE("pipeline: a checkpoint that cannot be stored, in the middle of its tensors, changes nothing") {
  RhymeData data;
  const std::string config = pipelined("gpt2", "sgd", "accumulate = 4\npp = 2\ntp = 2\n");
  const RankRun whole = train_on(data, config, 4);
  FullSink full;
  graph::Tensors tensors;
  train_on(data, config, 4, full, [&](TrainingResult& result) { tensors = std::move(result.tensors); });
  CHECK(full.saved == whole.sink.saved);
  CHECK(nn::encode_tensors(tensors) == nn::encode_tensors(whole.result.tensors));
}

TEST_CASE("pipeline: what cannot be cut is refused") {
  RhymeData data;
  const std::string gpt2 = pipelined("gpt2", "sgd", "accumulate = 4\n");
  CHECK(refusal(data, gpt2 + "pp = 6\n", 6) ==
        "[train] pp = 6: the model can be cut into 5 stages at most, behind the sums of its residual stream");
  CHECK(refusal(data, gpt2 + "pp = 2\n", 3) == "[train] pp = 2: the number of ranks, 3, is no multiple of it");
  CHECK(refusal(data, gpt2 + "pp = 2\ntp = 2\n", 6) ==
        "[train] tp = 2, pp = 2: the number of ranks, 6, is no multiple of their product, 4");
  CHECK(refusal(data, text_config("gpt2") + "pp = 2\n", 2) ==
        "[train] pp = 2: stages work on different micro-batches of a batch, and it has one");
  CHECK(refusal(data, gpt2 + "pp = 2\nsync_every = 2\nworkers = 2\n", 2) ==
        "[train] pp = 2: the workers of local SGD hold whole models");
}

TEST_CASE("pipeline: a number that is not finite ends all stages in the step in which it ends one rank") {
  RhymeData data;
  const std::string config =
      replaced(replaced(pipelined("llama", "sgd", "accumulate = 4\nweight_decay = 1\n"), "epochs = 1", "epochs = 4"),
               "0.01", "1000");
  const auto end_of = [&](const std::string& of, int ranks) {
    try {
      train_on(data, of, ranks);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kDiverged);
      return error.message.substr(0, error.message.find(':'));
    }
    return std::string("none");
  };
  const std::string alone = end_of(config, 1);
  CHECK_MESSAGE(alone.find(" at step ") != std::string::npos, alone);
  CHECK(end_of(config + "pp = 2\n", 2) == alone);
}

TEST_CASE("pipeline: one forward pass, one backward pass, in this order") {
  using Action = PipelineAction;
  constexpr auto F = Action::kForward, B = Action::kBackward, L = Action::kLate;
  CHECK(pipeline_schedule(2, 0, 3, false) == std::vector<Action>{{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}});
  CHECK(pipeline_schedule(2, 1, 3, false) == std::vector<Action>{{F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}});
  CHECK(pipeline_schedule(2, 1, 3, true) ==
        std::vector<Action>{{F, 0}, {B, 0}, {F, 1}, {B, 1}, {L, 0}, {F, 2}, {B, 2}, {L, 1}, {L, 2}});
  CHECK(pipeline_schedule(3, 0, 1, false) == std::vector<Action>{{F, 0}, {B, 0}});
}

TEST_CASE("pipeline: no stage waits for ever, and none keeps more micro-batches than stages are left") {
  for (int stages = 2; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      for (const bool tied : {false, true}) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        CAPTURE(tied);
        const std::vector<int> most = simulate(stages, micro_batches, tied);
        for (int stage = 0; stage < stages; ++stage) {
          const bool late = tied && stage + 1 == stages;
          CHECK(most[static_cast<std::size_t>(stage)] == kept_micro_batches(stages, stage, micro_batches, late));
          if (!late) CHECK(most[static_cast<std::size_t>(stage)] == std::min(micro_batches, stages - stage));
        }
      }
    }
  }
}

}  // namespace mlx::train::test
