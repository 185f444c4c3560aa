// What the ranks of a training get of each batch is, put together, the batch of one rank alone.

#include <doctest/doctest.h>

#include <numeric>

#include "base/path.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/rows_dataset.h"
#include "data/kinds/text_dataset.h"
#include "made_up.h"

namespace mlx::data {
namespace {

// The bytes of each batch: example by example its input and its target, which take 4 an element.
std::vector<Bytes> shares_of(const Dataset& dataset, const BatchOptions& options, std::uint64_t epoch,
                             std::int64_t first) {
  Pool pool(2);
  const auto source = dataset.batches(dataset.measure(nullptr), options, pool);
  source->start(epoch, first);
  std::vector<Bytes> out;
  while (const BatchView* batch = source->next()) {
    Bytes& bytes = out.emplace_back();
    const auto add = [&](std::int64_t example, const void* data, const std::vector<std::int64_t>& dims) {
      const auto size = std::accumulate(dims.begin() + 1, dims.end(), std::int64_t{4}, std::multiplies<>());
      const std::uint8_t* const from = static_cast<const std::uint8_t*>(data) + example * size;
      bytes.insert(bytes.end(), from, from + size);
    };
    for (std::int64_t i = 0; i < batch->count; ++i) {
      add(i, batch->inputs[0].data, batch->inputs[0].dims);
      add(i, batch->target, batch->target_dims);
    }
  }
  CHECK(static_cast<std::int64_t>(out.size()) == source->batches() - first);
  return out;
}

void check_ranks(const Dataset& dataset) {
  for (const bool training : {false, true}) {
    BatchOptions options{.batch = 7, .seed = 5, .shuffle = training, .drop_last = training, .context = 9};
    options.augment.flip = training;
    for (const std::int64_t first : {0, 2}) {
      const std::vector<Bytes> whole = shares_of(dataset, options, 1, first);
      REQUIRE(whole.size() > 3);
      for (const int ranks : {2, 3, 7}) {
        std::vector<Bytes> together(whole.size());
        for (int rank = 0; rank < ranks; ++rank) {
          BatchOptions of_rank = options;
          of_rank.rank = rank, of_rank.ranks = ranks;
          const std::vector<Bytes> share = shares_of(dataset, of_rank, 1, first);
          CHECK((share.size() == whole.size() || (!training && share.size() + 1 == whole.size())));
          for (std::size_t i = 0; i < share.size(); ++i)
            together[i].insert(together[i].end(), share[i].begin(), share[i].end());
        }
        CHECK(together == whole);
      }
      std::vector<Bytes> uneven(whole.size());
      for (const auto& [rank, count] : {std::pair{0, 3}, {3, 1}, {4, 3}}) {
        BatchOptions of_rank = options;
        of_rank.rank = rank, of_rank.shares = count, of_rank.ranks = 7;
        const std::vector<Bytes> share = shares_of(dataset, of_rank, 1, first);
        for (std::size_t i = 0; i < share.size(); ++i)
          uneven[i].insert(uneven[i].end(), share[i].begin(), share[i].end());
      }
      CHECK(uneven == whole);
    }
  }
}

TEST_CASE("ranks: images") {
  check_ranks(*make_dataset(made_up(60, 4, 5, 1)));
}

TEST_CASE("ranks: rows, from memory and from a file") {
  Rows rows;
  rows.schema.features = {{"rooms", {}, 0, 1, false}, {"city", {"Bonn", "Ulm"}, 0, 1, false}};
  rows.schema.targets = {{"price", {}, 0, 1, false}};
  rows.count = 1000;
  for (int i = 0; i < 1000; ++i) {
    rows.numbers.push_back(i);
    rows.codes.push_back(i % 3 - 1);
    rows.targets.push_back(i * 7 % 1000);
  }
  const TempFolder folder;
  check_ranks(*make_dataset(spool_rows(rows)));
  check_ranks(*make_dataset(spool_rows(rows, {4096, folder.path()})));
}

TEST_CASE("ranks: text") {
  std::vector<std::int32_t> tokens(700);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i % 251);
  check_ranks(*make_dataset(text_of(tokens, std::make_shared<const Tokenizer>(Tokenizer::bytes()))));
}

}  // namespace
}  // namespace mlx::data
