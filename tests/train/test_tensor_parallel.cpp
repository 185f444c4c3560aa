// Ranks that hold the parts of one model train it like a rank that holds all of it, and leave whole checkpoints and
// models. Ranks are threads here.
#include "rhyme.h"

namespace mlx::train::test {

TEST_CASE("tensor parallel: two parts of a model follow the whole, with the same bits again") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string config = text_config(family);
    const RankRun whole = train_on(data, config, 1), parts = train_on(data, config + "tp = 2\n", 2);
    CHECK(whole.result.steps == 13);
    check_follows(parts, whole, 1e-5);
    CHECK(nn::encode_tensors(train_on(data, config + "tp = 2\n", 2).result.tensors) ==
          nn::encode_tensors(parts.result.tensors));
    CHECK(parts.sink.saved == whole.sink.saved);
    REQUIRE(parts.sink.last->tensors.size() == whole.sink.last->tensors.size());
    for (const auto& each : whole.sink.last->tensors) {
      CAPTURE(each.first);
      CHECK(each.second.shape == parts.sink.last->tensors.at(each.first).shape);
    }
  }
}

TEST_CASE("tensor parallel: with data parallel the bits do not depend on how many share a batch") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string config = text_config(family, "sgd", "accumulate = 2\nema = 0.9\n");
    const RankRun whole = train_on(data, config, 1), two = train_on(data, config + "tp = 2\n", 2),
                  four = train_on(data, config + "tp = 2\n", 4);
    check_follows(two, whole, 1e-5);
    CHECK(nn::encode_tensors(four.result.tensors) == nn::encode_tensors(two.result.tensors));
    CHECK(four.sink.metrics.at("train/gradient_norm") == two.sink.metrics.at("train/gradient_norm"));
    CHECK(nn::encode_tensors(four.sink.last->tensors) == nn::encode_tensors(two.sink.last->tensors));
  }
}

TEST_CASE("tensor parallel: any number of parts resumes a checkpoint") {
  RhymeData data;
  const std::string config = text_config("gpt2", "adamw");
  const auto of = [&](int parts) { return config + fmt::format("tp = {}\n", parts); };
  const RankRun whole = train_on(data, config, 1);
  for (const int parts : {1, 2, 4}) {
    CAPTURE(parts);
    StopAt tripwire(6);
    const std::int64_t last = parts == 1 ? 6 : 7;  // the others are told with a step's result
    RankRun stopped;
    CHECK_THROWS_WITH_AS(train_on(data, of(parts), parts, stopped, &tripwire),
                         fmt::format("interrupted after step {} of 13; a checkpoint is kept", last).c_str(), Error);
    REQUIRE(stopped.sink.last->step == last);
    for (const int again : {1, 2, 4}) {
      CAPTURE(again);
      RankRun resumed = stopped;
      train_on(data, of(again), again, resumed);
      CHECK(resumed.result.from == last);
      check_follows(resumed, whole, 1e-4);
      if (again == parts)
        CHECK(nn::encode_tensors(resumed.result.tensors) ==
              nn::encode_tensors(train_on(data, of(parts), parts).result.tensors));
    }
  }
}

TEST_CASE("tensor parallel: a checkpoint that cannot be stored, in the middle of its tensors, changes nothing") {
  RhymeData data;
  const std::string config = text_config("gpt2") + "tp = 2\n";
  const RankRun whole = train_on(data, config, 2);
  FullSink full;
  graph::Tensors tensors;
  train_on(data, config, 2, full, [&](TrainingResult& result) { tensors = std::move(result.tensors); });
  CHECK(full.saved == whole.sink.saved);
  CHECK(nn::encode_tensors(tensors) == nn::encode_tensors(whole.result.tensors));
}

TEST_CASE("tensor parallel: what cannot be divided is refused") {
  RhymeData data;
  const std::string gpt2 = text_config("gpt2");
  CHECK(refusal(data, gpt2 + "tp = 3\n", 3) ==
        "[train] tp = 3: 'block0.attention' has 4 heads, which 3 ranks do not divide");
  CHECK(refusal(data, text_config("llama") + "tp = 4\n", 4) ==
        "[train] tp = 4: 'block0.attention.rope' has 2 heads of keys and values, which 4 ranks do not divide");
  CHECK(refusal(data, gpt2 + "tp = 2\n", 3) == "[train] tp = 2: the number of ranks, 3, is no multiple of it");
  CHECK(refusal(data, text_config("gpt2", "muon") + "tp = 2\n", 2) == "[train] tp = 2: muon works on whole matrices");
}

}  // namespace mlx::train::test
