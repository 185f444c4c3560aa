// One session whose cache is in blocks. All sizes of a pass are planned once: chunks of one text, the last token of one
// with proposed ones, and one token of up to kMostTexts.

#include "infer/batch_generator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "infer/cache_blocks.h"
#include "infer/chunks.h"
#include "infer/session.h"

namespace mlx::infer {
namespace {

constexpr std::int64_t kBlock = graph::kCacheBlock;
constexpr std::int64_t kChunkBesideOthers = 32;  // tokens of a prompt in one step, so that other texts do not wait long

std::int64_t blocks_for(std::int64_t positions) {
  return (positions + kBlock - 1) / kBlock;
}

// The last chunk of a prompt may be padded.
std::int64_t blocks_of(const TextRequest& request, std::int64_t context) {
  const std::int64_t all = static_cast<std::int64_t>(request.prompt.size()) + request.count + kChunks.back();
  return blocks_for(std::min(context, all));
}

// Of a pass that decodes `count` texts: with others that compute nothing.
std::int64_t padded_texts(std::int64_t count) {
  std::int64_t size = 1;
  while (size < count) size *= 2;
  return size;
}

graph::DecodingGraph batching(const Model& model, std::int64_t positions) {
  if (!can_batch(model)) fail(ErrorKind::kUsage, "texts of this model cannot be generated together");
  return graph::to_decoding(model.graph(), blocks_for(positions), model.cache());
}

}  // namespace

bool can_batch(const Model& model) {
  const kernels::Capabilities& can = model.backend().can();
  const auto in_half = [&](const graph::Node& node) {  // our own kernels, whatever the backend
    const auto weight = model.about().weights->find(model.graph().value(node.inputs[1]).name);
    return weight && kernels::is_half(weight->stored());
  };
  const auto depends_on_rows = [&](const graph::Node& node) {
    return !can.independent_rows && node.op == kernels::Op::kLinear && !in_half(node);
  };
  return !can.own_memory && graph::decodes_with_cache(model.graph()) &&
         std::ranges::none_of(model.graph().nodes, depends_on_rows);
}

std::int64_t cache_positions(const Model& model, const TextRequest& request) {
  return blocks_of(request, model.signature().context) * kBlock;
}

std::int64_t cache_position_bytes(const Model& model) {
  const graph::DecodingGraph decoding = batching(model, 1);
  std::int64_t bytes = 0;
  for (const graph::Value& value : decoding.graph.values)
    if (value.role == graph::Role::kState)
      bytes += value.dims.back().size * static_cast<std::int64_t>(kernels::size_of(value.dtype));
  return bytes;
}

struct BatchGenerator::State {
  // The tokens that a cache holds, from the beginning on, and where.
  struct Sequence {
    std::size_t base = 0;  // of the text's tokens, the one at position 0
    std::int64_t held = 0;
    std::vector<std::int32_t> blocks{};
    std::vector<Digest> contents{};  // of the full blocks
  };

  struct Text {
    TextWriter writer;
    std::optional<Speculator> speculator{};
    std::int64_t reserved = 0;        // blocks
    std::int64_t shared = 0;          // positions
    std::vector<std::int32_t> all{};  // prompt and text
    Sequence cached{};

    std::span<const std::int32_t> tokens() const { return std::span(all).subspan(cached.base); }  // by position
    std::int64_t pending() const { return static_cast<std::int64_t>(tokens().size()) - cached.held; }
  };
  using Entry = std::map<std::int64_t, Text>::value_type;

  State(const Model& model, std::int64_t positions)
      : decoding(batching(model, positions)),
        session(decoding.graph, model.about().weights, session_options(model), model.pool()),
        pool(model.pool()),
        blocks(blocks_for(positions)),
        table(blocks_for(decoding.context)) {
    for (const graph::Value& value : decoding.graph.values)
      if (value.role == graph::Role::kState) caches.push_back(value.name);
  }

  graph::DecodingGraph decoding;
  graph::Session session;
  Pool& pool;
  CacheBlocks blocks;
  std::int64_t table;               // blocks of a sequence at most
  std::vector<std::string> caches;  // the session's states
  std::map<std::int64_t, Text> texts;
  std::int64_t next_id = 0, reserved = 0, last_decoded = -1, shared = 0;
  std::vector<FinishedText> finished;

  // The logits that a text goes on with, and its tokens that were computed before they are drawn.
  struct Rows {
    Entry* text = nullptr;
    std::vector<std::span<const float>> logits{};
    std::vector<std::int32_t> proposed{};
    std::int64_t drawn = 0;
    std::exception_ptr error{};
  };

  void release(Sequence& cached) {
    for (const std::int32_t block : cached.blocks) blocks.release(block);
    cached = {.base = cached.base};
  }

  void end(std::int64_t id, std::exception_ptr error = nullptr) {
    const auto found = texts.find(id);
    Text& text = found->second;
    release(text.cached);
    reserved -= text.reserved;
    finished.push_back({id, text.writer.finish(), std::move(error)});
    finished.back().text.shared = text.shared;
    texts.erase(found);
  }

  // Takes blocks until `positions` have room.
  void make_room(Sequence& cached, std::int64_t positions) {
    while (static_cast<std::int64_t>(cached.blocks.size()) < blocks_for(positions))
      cached.blocks.push_back(blocks.take());
  }

  Digest content_of(const Text& text, std::int64_t block) const {
    const Sequence& cached = text.cached;
    const std::optional<Digest> before =
        block == 0 ? std::nullopt : std::optional(cached.contents[static_cast<std::size_t>(block - 1)]);
    return CacheBlocks::content(
        before, text.tokens().subspan(static_cast<std::size_t>(block * kBlock), static_cast<std::size_t>(kBlock)));
  }

  // Uses the full blocks that hold the text's first tokens, then copies the rest of what another text holds. At least
  // one token is left, whose logits are needed.
  void share(Text& text) {
    Sequence& cached = text.cached;
    const std::int64_t most = text.pending() - 1;
    while (cached.held + kBlock <= most) {
      const Digest content = content_of(text, cached.held / kBlock);
      const std::optional<std::int32_t> block = blocks.use(content);
      if (!block) break;
      cached.blocks.push_back(*block);
      cached.contents.push_back(content);
      cached.held += kBlock;
    }
    copy_rows(text, most);
    shared += cached.held;
    text.shared += cached.held;
  }

  // Copies rows of a block that is not full, or that this text fills otherwise.
  void copy_rows(Text& text, std::int64_t most) {
    Sequence& cached = text.cached;
    const Sequence* from = nullptr;
    std::int64_t end = cached.held;
    for (const auto& [id, other] : texts) {
      if (&other == &text || other.cached.held <= end) continue;
      const auto theirs = other.tokens().first(static_cast<std::size_t>(other.cached.held));
      const auto [mine, differs] = std::ranges::mismatch(text.tokens(), theirs);
      const std::int64_t same = std::min({mine - text.tokens().begin(), most, cached.held + kBlock});
      if (same > end) end = same, from = &other.cached;
    }
    if (from == nullptr) return;
    make_room(cached, end);
    const std::size_t index = static_cast<std::size_t>(cached.held / kBlock);
    for (const std::string& name : caches) {
      const std::span<std::uint8_t> cache = session.writable_state(name);
      const std::size_t block = cache.size() / static_cast<std::size_t>(blocks.count());
      const std::size_t bytes = block / kBlock * static_cast<std::size_t>(end - cached.held);
      const auto at = [&](const Sequence& of) {
        return cache.data() + static_cast<std::size_t>(of.blocks[index]) * block;
      };
      std::copy_n(at(*from), bytes, at(cached));
    }
    cached.held = end;
    hold_full_blocks(text);
  }

  void hold_full_blocks(Text& text) {
    Sequence& cached = text.cached;
    for (auto i = static_cast<std::int64_t>(cached.contents.size()); (i + 1) * kBlock <= cached.held; ++i) {
      cached.contents.push_back(content_of(text, i));
      blocks.hold(cached.blocks[static_cast<std::size_t>(i)], cached.contents.back());
    }
  }

  void fill_table(const Sequence& cached, std::int32_t* row) const {
    std::fill_n(row, table, -1);
    std::ranges::copy(cached.blocks, row);
  }

  std::span<const float> logits_of(std::int64_t row, std::int64_t rows) const {
    const ByteView logits = session.output(decoding.logits);
    const std::size_t vocabulary = logits.size() / sizeof(float) / static_cast<std::size_t>(rows);
    return {reinterpret_cast<const float*>(logits.data()) + static_cast<std::size_t>(row) * vocabulary, vocabulary};
  }

  // The oldest text that has more than one token to compute, after sharing what others have computed already.
  Entry* next_to_prefill() {
    for (Entry& each : texts) {
      Text& text = each.second;
      if (text.pending() > 1 && text.cached.held == 0) share(text);
      if (text.pending() > 1) return &each;
    }
    return nullptr;
  }

  // One chunk of a text.
  void prefill() {
    Entry* const found = next_to_prefill();
    if (!found) return;
    Text& text = found->second;
    Sequence& cached = text.cached;
    const bool alone = std::ranges::all_of(texts, [](const Entry& each) { return each.second.pending() > 1; });
    const std::int64_t most = std::min(text.pending(), alone ? kChunks.back() : kChunkBesideOthers);
    const std::int64_t chunk = chunk_for(most, decoding.context - cached.held), count = std::min(chunk, most);
    make_room(cached, cached.held + chunk);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(chunk), 0), row(static_cast<std::size_t>(table));
    std::ranges::copy(text.tokens().subspan(static_cast<std::size_t>(cached.held), static_cast<std::size_t>(count)),
                      ids.begin());
    fill_table(cached, row.data());
    const auto held = static_cast<std::int32_t>(cached.held);
    session.run({{decoding.ids, ids.data(), {1, chunk}},
                 {decoding.positions, &held, {1}},
                 {decoding.blocks, row.data(), {1, table}}});
    cached.held += count;
    hold_full_blocks(text);
    if (text.pending() == 0) write_one({found, {logits_of(count - 1, chunk)}});
  }

  // The texts whose turn it is.
  std::vector<Entry*> ready() {
    std::vector<Entry*> all;
    for (Entry& each : texts)
      if (each.second.pending() == 1) all.push_back(&each);
    const auto next = std::ranges::find_if(all, [&](const Entry* each) { return each->first > last_decoded; });
    if (all.size() > static_cast<std::size_t>(kMostTexts)) std::rotate(all.begin(), next, all.end());
    all.resize(std::min(all.size(), static_cast<std::size_t>(kMostTexts)));
    if (!all.empty()) last_decoded = all.back()->first;
    return all;
  }

  // One token of each text that has one to compute, or several of the only one.
  void decode() {
    const std::vector<Entry*> turn = ready();
    if (turn.empty()) return;
    if (turn.size() == 1 && turn[0]->second.speculator) return speculate(*turn[0]);
    const std::int64_t rows = padded_texts(static_cast<std::int64_t>(turn.size()));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows), 0), positions(ids),
        places(static_cast<std::size_t>(rows * table), -1);
    for (std::size_t i = 0; i < turn.size(); ++i) {
      Text& text = turn[i]->second;
      make_room(text.cached, text.cached.held + 1);
      ids[i] = text.all.back();
      positions[i] = static_cast<std::int32_t>(text.cached.held);
      fill_table(text.cached, places.data() + static_cast<std::int64_t>(i) * table);
    }
    session.run({{decoding.ids, ids.data(), {rows, 1}},
                 {decoding.positions, positions.data(), {rows}},
                 {decoding.blocks, places.data(), {rows, table}}});
    std::vector<Rows> all;
    for (std::size_t i = 0; i < turn.size(); ++i) {
      ++turn[i]->second.cached.held;
      hold_full_blocks(turn[i]->second);
      all.push_back({turn[i], {logits_of(static_cast<std::int64_t>(i), rows)}});
    }
    write(all);
  }

  // The last token and what probably follows, in one pass. What is not drawn then stays in the cache until other tokens
  // take its place.
  void speculate(Entry& entry) {
    Text& text = entry.second;
    Sequence& cached = text.cached;
    const std::int64_t left = text.writer.request().count - static_cast<std::int64_t>(text.writer.tokens().size());
    const std::int64_t most = std::min(left, decoding.context - cached.held) - 1;
    Rows rows{&entry, {}, text.speculator->propose(text.all, text.writer.drawer(), most)};
    const auto count = static_cast<std::int64_t>(rows.proposed.size()) + 1;
    make_room(cached, cached.held + count);
    std::vector<std::int32_t> ids{text.all.back()}, row(static_cast<std::size_t>(table));
    ids.insert(ids.end(), rows.proposed.begin(), rows.proposed.end());
    fill_table(cached, row.data());
    const auto held = static_cast<std::int32_t>(cached.held);
    session.run({{decoding.ids, ids.data(), {1, count}},
                 {decoding.positions, &held, {1}},
                 {decoding.blocks, row.data(), {1, table}}});
    ++cached.held;
    hold_full_blocks(text);
    for (std::int64_t i = 0; i < count; ++i) rows.logits.push_back(logits_of(i, count));
    write_one(std::move(rows));
  }

  // Writes nothing to the cache.
  void pass_of_nothing(std::int64_t rows, std::int64_t tokens) {
    const std::vector<std::int32_t> zeros(static_cast<std::size_t>(rows * tokens), 0),
        nowhere(static_cast<std::size_t>(rows * table), -1);
    session.run({{decoding.ids, zeros.data(), {rows, tokens}},
                 {decoding.positions, zeros.data(), {rows}},
                 {decoding.blocks, nowhere.data(), {rows, table}}});
  }

  void write_one(Rows rows) {
    std::vector<Rows> all;
    all.push_back(std::move(rows));
    write(all);
  }

  // Draws tokens of each text from its logits; ends those that have all.
  void write(std::vector<Rows>& all) {
    pool.run(static_cast<std::int64_t>(all.size()), [&](std::int64_t at) {
      Rows& rows = all[static_cast<std::size_t>(at)];
      try {
        rows.drawn = rows.text->second.writer.write(rows.logits, rows.proposed);
      } catch (...) {
        rows.error = std::current_exception();
      }
    });
    for (Rows& rows : all) {
      Text& text = rows.text->second;
      if (!rows.error) rows.error = add(text, rows.drawn);
      if (rows.error || text.writer.ended()) end(rows.text->first, rows.error);
    }
  }

  // The last `drawn` tokens of the text. All but the last of them are in the cache: they were proposed.
  std::exception_ptr add(Text& text, std::int64_t drawn) {
    const auto fresh = std::span(text.writer.tokens()).last(static_cast<std::size_t>(drawn));
    text.all.insert(text.all.end(), fresh.begin(), fresh.end());
    if (drawn > 1) {
      text.cached.held += drawn - 1;
      hold_full_blocks(text);
    }
    if (text.speculator) text.speculator->learn(fresh);
    if (text.cached.held + 1 > decoding.context) {  // full: goes on from the last half
      release(text.cached);
      text.cached.base = text.all.size() - static_cast<std::size_t>(std::max<std::int64_t>(1, decoding.context / 2));
    }
    try {
      text.writer.emit();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
};

BatchGenerator::BatchGenerator(const Model& model, std::int64_t positions)
    : state_(std::make_unique<State>(model, positions)) {}

BatchGenerator::~BatchGenerator() = default;

std::int64_t BatchGenerator::context() const {
  return state_->decoding.context;
}

bool BatchGenerator::has_room(const TextRequest& request) const {
  return state_->reserved + blocks_of(request, context()) <= state_->blocks.count();
}

std::int64_t BatchGenerator::start(TextRequest request) {
  if (request.prompt.empty()) fail(ErrorKind::kUsage, "the prompt is empty");
  CHECK(has_room(request));
  State& s = *state_;
  const std::int64_t id = s.next_id++, blocks = blocks_of(request, context());
  State::Text& text = s.texts.emplace(id, State::Text{TextWriter(std::move(request))}).first->second;
  text.all = text.writer.request().prompt;
  const auto most = static_cast<std::size_t>(s.decoding.context);
  if (text.all.size() > most) text.cached.base = text.all.size() - most;
  s.reserved += text.reserved = blocks;
  const Speculation& how = text.writer.request().speculation;
  if (how.ngram > 0 || how.draft) text.speculator.emplace(how);
  if (text.writer.ended()) s.end(id);
  return id;
}

void BatchGenerator::cancel(std::int64_t id) {
  if (!state_->texts.contains(id)) return;
  state_->end(id);
  state_->finished.pop_back();
}

std::vector<FinishedText> BatchGenerator::step() {
  state_->prefill();
  state_->decode();
  return std::exchange(state_->finished, {});
}

std::size_t BatchGenerator::cache_bytes() const {
  return state_->session.own_state_bytes();
}

std::int64_t BatchGenerator::texts() const {
  return static_cast<std::int64_t>(state_->texts.size());
}

std::int64_t BatchGenerator::shared_positions() const {
  return state_->shared;
}

void BatchGenerator::prepare() {
  state_->pass_of_nothing(1, 1);
}

void BatchGenerator::warm_up() {
  for (const std::int64_t size : kChunks)
    if (size <= context()) state_->pass_of_nothing(1, size);
  for (const std::int64_t rows : ProposalCount::kRows)
    if (rows <= context()) state_->pass_of_nothing(1, rows);
  for (std::int64_t texts = 2; texts <= kMostTexts; texts *= 2) state_->pass_of_nothing(texts, 1);
}

}  // namespace mlx::infer
