// A model beside its teacher: the loss of distillation by its formula, its gradient by central differences, and what
// does not fit.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

constexpr std::size_t kTokens = 12, kVocabulary = 11;
const std::vector<std::int32_t> kIds{1, 4, 2, 9, 0, 3, 3, 10, 5, 5, 7, 8}, kLabels{4, 2, 9, 0, 3, 3, 10, 5, 5, 7, 8, 1};

// A student and a larger teacher of the same vocabulary.
struct Pair {
  Graph student = sample::transformer(kVocabulary, 8, 6, 0),
        teacher = to_inference(sample::transformer(kVocabulary, 16, 6, 0.1f));
  Graph both = with_teacher(student, teacher);
  Tensors tensors = sample::random_tensors(student), of_teacher = sample::random_tensors(teacher, 5);
  Pair() {
    for (const auto& [name, tensor] : of_teacher) tensors[kTeacher + name] = tensor;
  }
};

std::vector<float> logits_of(const Graph& graph, const Tensors& tensors) {
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(graph, tensors, options, pool);
  session.run({{graph.find("ids"), kIds.data(), {2, 6}}});
  return sample::floats(session.output(graph.outputs[0]));
}

// One step of plain SGD; the state behind it.
Tensors step(const Pair& pair, const Tensors& tensors, const LossSpec& spec, float rate, double& loss) {
  OptimizerSpec sgd;
  sgd.momentum = 0, sgd.nesterov = false;
  const TrainingGraph training = to_training(pair.both, sgd, spec);
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  options.training = true;
  Session session(training.graph, tensors, options, pool);
  session.run({{training.graph.find("ids"), kIds.data(), {2, 6}},
               {training.labels, kLabels.data(), {2, 6}},
               {training.learning_rate, &rate, {1}}});
  loss = double{sample::floats(session.output(training.loss))[0]};
  return session.tensors();
}

std::array<double, kVocabulary> softmax(const float* logits, double temperature) {
  std::array<double, kVocabulary> out{};
  double sum = 0;
  for (std::size_t i = 0; i < kVocabulary; ++i) sum += out[i] = std::exp(double{logits[i]} / temperature);
  for (double& p : out) p /= sum;
  return out;
}

double expected_loss(const Pair& pair, const LossSpec& spec) {
  const std::vector<float> of_student = logits_of(pair.student, pair.tensors),
                           of_teacher = logits_of(pair.teacher, pair.of_teacher);
  double data = 0, divergence = 0;
  for (std::size_t row = 0; row < kTokens; ++row) {
    const float *own = of_student.data() + row * kVocabulary, *its = of_teacher.data() + row * kVocabulary;
    data -= std::log(softmax(own, 1)[static_cast<std::size_t>(kLabels[row])]);
    const auto q = softmax(own, double{spec.temperature}), p = softmax(its, double{spec.temperature});
    for (std::size_t i = 0; i < kVocabulary; ++i) divergence += p[i] * std::log(p[i] / q[i]);
  }
  const double square = double{spec.temperature} * double{spec.temperature};
  return ((1 - double{spec.share}) * data + double{spec.share} * square * divergence) / kTokens;
}

}  // namespace

TEST_CASE("distillation: the loss is that of the data and the divergence from the teacher, which does not change") {
  const Pair pair;
  CHECK_NOTHROW(validate(pair.both));
  for (const float share : {0.3f, 1.0f}) {
    LossSpec spec;
    spec.share = share, spec.temperature = 3;
    double loss = 0;
    const Tensors after = step(pair, pair.tensors, spec, 0.1f, loss);
    CHECK(loss == doctest::Approx(expected_loss(pair, spec)).epsilon(1e-4));
    for (const auto& [name, tensor] : pair.of_teacher) CHECK(after.at(kTeacher + name).data == tensor.data);
    CHECK(after.at("up.weight").data != pair.tensors.at("up.weight").data);
  }
}

TEST_CASE("distillation: gradients are those of the loss") {
  const Pair pair;
  LossSpec spec;
  spec.share = 0.6f, spec.temperature = 2;
  double loss = 0;
  const Tensors after = step(pair, pair.tensors, spec, 1.0f, loss);
  for (const char* const name : {"up.weight", "qkv.weight"})
    for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{40}}) {
      const auto value = [&](const Tensors& of) { return reinterpret_cast<const float*>(of.at(name).data.data())[at]; };
      const auto moved = [&](float by) {
        Tensors changed = pair.tensors;
        reinterpret_cast<float*>(changed.at(name).data.data())[at] += by;
        double here = 0;
        (void)step(pair, changed, spec, 0.0f, here);
        return here;
      };
      constexpr float kStep = 1e-2f;
      const double gradient = double{value(pair.tensors)} - double{value(after)};
      CHECK(gradient ==
            doctest::Approx((moved(kStep) - moved(-kStep)) / (2 * double{kStep})).epsilon(2e-2).scale(1e-3));
    }
}

TEST_CASE("distillation: a teacher that takes or gives something else is refused") {
  const Graph student = sample::transformer(kVocabulary, 8, 6, 0);
  CHECK_THROWS_WITH(with_teacher(student, to_inference(sample::transformer(12, 8, 6, 0))),
                    doctest::Contains("the teacher gives [batch,sequence,12], the model [batch,sequence,11]"));
  CHECK_THROWS_AS(with_teacher(student, to_inference(sample::cnn(0))), Error);
}
