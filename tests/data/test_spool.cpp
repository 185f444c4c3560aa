// Data beyond a memory budget: the same bits from a file as from memory, and nothing left behind.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/path.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/rows_dataset.h"
#include "data/kinds/text_dataset.h"
#include "data/spool_reader.h"
#include "kernels/philox.h"
#include "made_up.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kTiny = 4096;

SpoolPtr spool_of(std::int64_t record, std::int64_t count, const MemoryBudget& budget) {
  SpoolWriter writer(record, budget);
  Bytes bytes(static_cast<std::size_t>(record));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < bytes.size(); ++k)
      bytes[k] = static_cast<std::uint8_t>(i * 31 + static_cast<std::int64_t>(k));
    writer.append(bytes.data(), 1);
  }
  return writer.finish();
}

Rows many_rows(std::int64_t count) {
  Rows rows;
  rows.schema.features = {{"rooms", {}, 0, 1, false}, {"city", {"Bonn", "Ulm"}, 0, 1, false}};
  rows.schema.targets = {{"price", {}, 0, 1, false}};
  rows.count = count;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto draw = [&](std::uint32_t what) {
      return kernels::random_u32(1, 2, static_cast<std::uint64_t>(i), what);
    };
    rows.numbers.push_back(draw(0) % 100);
    rows.codes.push_back(static_cast<std::int32_t>(draw(1) % 3) - 1);
    rows.targets.push_back(draw(2) % 1000);
  }
  return rows;
}

// Inputs and targets, all of 4 bytes, of an epoch from a batch on.
Bytes batches_of(const Dataset& dataset, const BatchOptions& options, std::uint64_t epoch, std::int64_t first,
                 int threads = 1) {
  Pool pool(threads);
  const std::unique_ptr<BatchSource> source = dataset.batches(dataset.measure(nullptr), options, pool);
  source->start(epoch, first);
  Bytes out;
  const auto add = [&](const void* data, const std::vector<std::int64_t>& dims) {
    const auto count = std::accumulate(dims.begin(), dims.end(), std::int64_t{4}, std::multiplies<>());
    out.insert(out.end(), static_cast<const std::uint8_t*>(data), static_cast<const std::uint8_t*>(data) + count);
  };
  while (const BatchView* batch = source->next()) {
    add(batch->inputs[0].data, batch->inputs[0].dims);
    add(batch->target, batch->target_dims);
  }
  return out;
}

void check_same_from_file(const Dataset& memory, const Dataset& file) {
  CHECK(memory.describe().in_memory > 0);
  CHECK(file.describe().in_memory == 0);
  CHECK(memory.hold_out_size() == file.hold_out_size());
  const Parts parts = memory.hold_out(1500, 3), parts_of_file = file.hold_out(1500, 3);
  const std::pair<const Dataset*, const Dataset*> pairs[] = {{&memory, &file},
                                                             {parts.rest.get(), parts_of_file.rest.get()},
                                                             {parts.held_out.get(), parts_of_file.held_out.get()}};
  for (const auto& [a, b] : pairs) {
    for (const bool shuffle : {false, true}) {
      const BatchOptions options{.batch = 7, .seed = 5, .shuffle = shuffle, .drop_last = shuffle, .context = 9};
      for (const std::int64_t first : {0, 3}) {
        const Bytes expected = batches_of(*a, options, 2, first);
        CHECK(!expected.empty());
        for (const int threads : {1, 3}) CHECK(expected == batches_of(*b, options, 2, first, threads));
      }
    }
  }
}

TEST_CASE("spool: records are in memory within the budget, beyond it in a file without a name") {
  const TempFolder folder;
  for (const std::int64_t record : {1, 24, 3000, 3 << 20}) {
    const std::int64_t count = record > 1000000 ? 3 : 3000000 / record;
    const SpoolPtr memory = spool_of(record, count, {}), file = spool_of(record, count, {kTiny, folder.path()});
    CHECK(memory->in_memory());
    CHECK(!file->in_memory());
    CHECK(std::filesystem::is_empty(folder.path()));  // so that a killed process leaves nothing
    CHECK(file->count() == count);
    Bytes a(static_cast<std::size_t>(record * count)), b = a;
    memory->read(0, count, a.data()), file->read(0, count, b.data());
    CHECK(a == b);
    CHECK(a[static_cast<std::size_t>(2 * record)] == 62);
  }
  const MemoryBudget budget(kTiny, folder.path());
  SpoolPtr first = spool_of(1, kTiny - 1, budget);
  CHECK(!spool_of(1, 2, budget)->in_memory());  // splits share the budget
  first.reset();
  CHECK(spool_of(1, kTiny, budget)->in_memory());
}

TEST_CASE("spool: rows have the same bits from a file as from memory, shuffled, resumed and held out") {
  const TempFolder folder;
  const Rows rows = many_rows(5000);
  check_same_from_file(*make_dataset(spool_rows(rows)), *make_dataset(spool_rows(rows, {kTiny, folder.path()})));
}

TEST_CASE("spool: images have the same bits from a file as from memory, shuffled, resumed and held out") {
  const TempFolder folder;
  const auto images = [](const MemoryBudget& budget) { return make_dataset(made_up(3000, 5, 4, 3, budget)); };
  const DatasetPtr memory = images({}), file = images({kTiny, folder.path()});
  check_same_from_file(*memory, *file);
  CHECK(memory->measure(nullptr).normalization.mean == file->measure(nullptr).normalization.mean);
  std::vector<std::uint64_t> seen[2];
  const auto see = [](std::vector<std::uint64_t>& to) {
    return [&to](const Content& content) { to.push_back(content.hash), to.push_back(content.look->gradient); };
  };
  memory->each_content(true, see(seen[0]));
  file->each_content(true, see(seen[1]));
  CHECK(seen[0].size() == 6000);
  CHECK(seen[0] == seen[1]);
}

TEST_CASE("spool: text has the same bits from a file as from memory, for every size of token") {
  const TempFolder folder;
  std::vector<std::int32_t> tokens(9000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i % 251 % 200);
  for (const int size : {0, 200, 300}) {  // bytes; characters in one byte and in two
    std::string vocabulary;
    for (int code = 0; code < size; ++code)
      vocabulary += {static_cast<char>(0xC0 | (0x80 + code) >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    const auto tokenizer =
        std::make_shared<const Tokenizer>(size == 0 ? Tokenizer::bytes() : Tokenizer::chars(vocabulary, "x"));
    if (size > 0) tokens[77] = Tokenizer::kUnknown;
    const Text file = text_of(tokens, tokenizer, {kTiny, folder.path()});
    CHECK(file.tokens(0, file.count()) == tokens);
    check_same_from_file(*make_dataset(text_of(tokens, tokenizer)), *make_dataset(file));
  }
}

TEST_CASE("spool: two threads read one file at once") {
  const TempFolder folder;
  const Rows rows = many_rows(4000);
  const DatasetPtr memory = make_dataset(spool_rows(rows)),
                   file = make_dataset(spool_rows(rows, {kTiny, folder.path()}));
  const BatchOptions options{.batch = 32, .seed = 1, .shuffle = true};
  Bytes seen[2];
  {
    std::jthread other([&] { seen[0] = batches_of(*file, options, 0, 0); });
    seen[1] = batches_of(*file, options, 1, 0);
  }
  CHECK(seen[0] == batches_of(*memory, options, 0, 0));
  CHECK(seen[1] == batches_of(*memory, options, 1, 0));
}

TEST_CASE("spool: a source that is left in the middle of an epoch, or started again, is whole") {
  const TempFolder folder;
  const DatasetPtr file = make_dataset(spool_rows(many_rows(4000), {kTiny, folder.path()}));
  Pool pool(1);
  const auto source = file->batches(file->measure(nullptr), {.batch = 16, .shuffle = true}, pool);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    source->start(epoch, 0);
    for (std::uint64_t i = 0; i < epoch; ++i) CHECK(source->next()->count == 16);
  }
}

// RLIMIT_FSIZE stands for a full disk. In a process of its own, because the limit is the process's.
TEST_CASE("spool: a disk that takes no more is an error that names the folder") {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      (void)spool_of(1000, 10000, {kTiny, folder.path()});
    } catch (const Error& error) {
      const bool good = error.kind == ErrorKind::kIo && error.message.starts_with(folder.path()) && !error.hint.empty();
      ::_exit(good ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_THROWS_AS((void)spool_of(1000, 100, {kTiny, folder.path() + "/none"}), Error);
}

// Items of one record, in a shuffled order of every third record, from a place in the epoch on.
Bytes shuffled_records(const SpoolPtr& spool, CopyEpochs copies, std::int64_t from, int threads = 1) {
  const std::int64_t count = spool->count() / 3;
  const IndexList order = shuffled(count, 4, 2);
  Pool pool(threads);
  SpoolReader reader(spool, pool, copies);
  Bytes out;
  for (int again = 0; again < 2; ++again) {
    reader.start({[&](std::int64_t place) { return 3 * order[place]; }, from, count, 64});
    for (auto items = reader.next(); !items.empty(); items = reader.next())
      for (const std::uint8_t* item : items) out.insert(out.end(), item, item + spool->record());
  }
  return out;
}

constexpr std::int64_t kRecord = 1000, kRecords = 60000, kSome = 32 << 20;

TEST_CASE("spool: an epoch that is copied in its order has the same records") {
  const TempFolder folder;
  const SpoolPtr memory = spool_of(kRecord, kRecords, {}), file = spool_of(kRecord, kRecords, {kSome, folder.path()});
  CHECK(!file->in_memory());
  const EpochFile::Items items{[](std::int64_t place) { return place; }, 0, kRecords, 4000};
  CHECK(EpochFile::copy(*file, items, 2 * file->window()) != nullptr);
  CHECK(EpochFile::copy(*file, items, Spool::kBlock) == nullptr);  // too little memory
  for (const std::int64_t from : {0, 1024}) {
    const Bytes expected = shuffled_records(memory, CopyEpochs::kNever, from);
    CHECK(expected.size() == static_cast<std::size_t>(2 * (kRecords / 3 - from) * kRecord));
    CHECK(expected == shuffled_records(file, CopyEpochs::kAlways, from));
    for (const int threads : {1, 3}) CHECK(expected == shuffled_records(file, CopyEpochs::kNever, from, threads));
    CHECK(expected == shuffled_records(file, CopyEpochs::kIfNotCached, from));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

// The limit is on a file's size: the spool fits, the copy with its places does not.
TEST_CASE("spool: without room for a copy of an epoch, it is read from the spool") {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{kRecords * kRecord, kRecords * kRecord};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const SpoolPtr memory = spool_of(kRecord, kRecords, {}), file = spool_of(kRecord, kRecords, {kSome, folder.path()});
    const EpochFile::Items items{[](std::int64_t place) { return place; }, 0, kRecords, 4000};
    if (EpochFile::copy(*file, items, 2 * file->window())) ::_exit(1);
    const bool same = shuffled_records(memory, CopyEpochs::kNever, 0) == shuffled_records(file, CopyEpochs::kAlways, 0);
    ::_exit(same ? 0 : 2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("spool: without room on the disk for rows as the network gets them, batches have the same bits") {
  const TempFolder folder;
  const Rows rows = many_rows(5000);
  const BatchOptions options{.batch = 32, .seed = 1, .shuffle = true};
  const Bytes expected = batches_of(*make_dataset(spool_rows(rows)), options, 0, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const DatasetPtr file = make_dataset(spool_rows(rows, {kTiny, folder.path()}));
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 10, 1 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(batches_of(*file, options, 0, 0) == expected ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace mlx::data
