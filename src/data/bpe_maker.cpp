// The made tokenizer is read back from its file, so that a training and what loads its model see the same one.

#include "data/bpe_maker.h"

#include "data/subword/bpe_train.h"

namespace mlx::data {

static_assert(BpeMaker::kLeast == subword::kLeastVocabulary && BpeMaker::kMost == subword::kMostVocabulary);

struct BpeMaker::State {
  subword::BpeTraining training;
};

BpeMaker::BpeMaker() : state_(std::make_unique<State>()) {}
BpeMaker::~BpeMaker() = default;

Tokenizer BpeMaker::cutting() {
  NoProgress silent;
  return Tokenizer::from_file(subword::BpeTraining().finish(0, {}, "bytes", silent), "bytes");
}

void BpeMaker::add(std::string_view text) {
  state_->training.add(text);
}

Tokenizer BpeMaker::tokenizer(std::int64_t vocabulary, const std::vector<std::string>& special, const std::string& what,
                              Progress& progress) const {
  return Tokenizer::from_file(state_->training.finish(vocabulary, special, what, progress), what);
}

}  // namespace mlx::data
