// The checks of remote_suite.h. Objects are made by hand or by the codec, so that a remote sees what any store may
// hold: all kinds and encodings, empty and large, encrypted ones that it cannot read.
#include "remote_suite.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "lying_lists.h"
#include "store/maintenance/repair.h"

namespace mlx::store {

namespace {

StoredObject plain_object(ObjectKind kind, ByteView bytes) {
  const Digest id = Digest::of(bytes);
  return Codec().encode({id, kind}, id, bytes);
}

// An encrypted object: its storage id does not follow from its bytes.
StoredObject encrypted_object(ObjectKind kind, ByteView bytes, const std::string& secret) {
  StoredObject object;
  object.key = {Digest::of("key " + secret), kind};
  object.key_id = 7;
  object.plain_size = static_cast<std::uint32_t>(bytes.size());
  object.stored.assign(bytes.begin(), bytes.end());
  object.checksum = stored_checksum(object.stored);
  return object;
}

// Objects to send from and to receive into; thread-safe.
struct Shelf {
  std::mutex mutex;
  std::map<ObjectKey, StoredObject> objects;
  std::vector<ObjectKey> keys;  // in the order added
  std::atomic<int> reads{0}, takes{0};
  NoProgress progress;

  const ObjectKey& add(StoredObject object) {
    const ObjectKey key = object.key;
    if (objects.emplace(key, std::move(object)).second) keys.push_back(key);
    return keys.back();
  }
  ReadStored reader() {
    return [this](const ObjectKey& key) {
      ++reads;
      const std::lock_guard lock(mutex);
      const auto found = objects.find(key);
      if (found == objects.end()) fail(ErrorKind::kNotFound, "not on the shelf");
      return found->second;
    };
  }
  TakeStored taker() {
    return [this](StoredObject&& object) {
      ++takes;
      const std::lock_guard lock(mutex);
      add(std::move(object));
    };
  }
  void send_to(Remote& remote) { remote.send(keys, reader(), progress); }
  void receive_from(Remote& remote, const std::vector<ObjectKey>& wanted) { remote.receive(wanted, taker(), progress); }
  void fill(int count, std::size_t size, std::uint64_t seed) {
    for (int i = 0; i < count; ++i)
      add(plain_object(ObjectKind::kChunk, random_bytes(size, seed + static_cast<std::uint64_t>(i))));
  }
};

bool same(const StoredObject& a, const StoredObject& b) {
  return a.key == b.key && a.encoding == b.encoding && a.key_id == b.key_id && a.plain_size == b.plain_size &&
         a.checksum == b.checksum && a.stored == b.stored && a.extra == b.extra;
}

// Every object comes back unchanged.
void check_whole(Remote& remote, Shelf& sent) {
  Shelf received;
  received.receive_from(remote, sent.keys);
  CHECK_EQ(received.objects.size(), sent.objects.size());
  for (const auto& [key, object] : sent.objects) {
    const auto found = received.objects.find(key);
    const bool came_back = found != received.objects.end() && same(found->second, object);
    CHECK(came_back);
  }
}

// Sends an operation that a server can read: only such operations can be heads.
Digest send_operation(Remote& remote, const std::string& name) {
  Shelf shelf;
  const std::string text = fmt::format(
      R"({{"actor":"0123456789abcdef","body":{{"actor":"{}"}},"format":1,"kind":"actor.forget","parents":[],"time":1}})",
      name);
  const Digest id = shelf.add(plain_object(ObjectKind::kOperation, as_bytes(text))).id;
  shelf.send_to(remote);
  return id;
}

void heads_change_by_compare_and_set(RemoteUnderTest& under) {
  const auto remote = under.open();
  const Digest a = send_operation(*remote, "a"), b = send_operation(*remote, "b"), c = send_operation(*remote, "c");
  CHECK(remote->heads().empty());
  CHECK_FALSE(remote->publish_heads({a}, {b}));
  CHECK(remote->heads().empty());
  CHECK(remote->publish_heads({}, {b, a}));
  std::vector<Digest> both{a, b};
  std::sort(both.begin(), both.end());
  CHECK(remote->heads() == both);
  CHECK_FALSE(remote->publish_heads({}, {c}));
  CHECK_FALSE(remote->publish_heads({a}, {c}));
  CHECK(under.open()->heads() == both);
  CHECK(remote->publish_heads({b, a}, {c}));
  CHECK(remote->heads() == std::vector<Digest>{c});
}

void of_several_that_publish_each_step_is_won_by_one(RemoteUnderTest& under) {
  (void)under.open();
  constexpr int kThreads = 3, kSteps = 5;
  std::atomic<int> won{0};
  std::vector<std::string> errors(kThreads);
  std::vector<std::unique_ptr<Remote>> remotes;
  for (int n = 0; n < kThreads; ++n) remotes.push_back(under.open());
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      try {
        for (int step = 0; step < kSteps;) {
          const auto seen = remotes[n]->heads();
          // Each step changes the heads: of two writers that saw the same heads, only one succeeds.
          const std::string text = (seen.empty() ? "start" : seen[0].hex()) + std::to_string(n);
          if (!remotes[n]->publish_heads(seen, {send_operation(*remotes[n], text)})) continue;
          ++won;
          ++step;
        }
      } catch (const Error& error) {
        errors[n] = error.message;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(errors == std::vector<std::string>(kThreads));
  CHECK_EQ(won, kThreads * kSteps);
  CHECK_EQ(remotes[0]->heads().size(), 1u);
}

// A root and its shards.
void add_tree(Shelf& shelf, std::size_t files) {
  std::vector<Entry> entries(files);
  for (std::size_t i = 0; i < files; ++i) entries[i] = {fmt::format("file-{:04}", i), kModeFile, 1, Digest::of("x")};
  std::vector<ShardRef> shards;
  for (const std::span<const Entry> part : cut_shards(entries)) {
    const Bytes shard = encode_shard(part);
    shelf.add(plain_object(ObjectKind::kShard, shard));
    shards.push_back({part.front().path, Digest::of(shard), part.size(), part.size()});
  }
  shelf.add(plain_object(ObjectKind::kManifest, encode_root(shards)));
}

void every_kind_of_object_comes_back_as_it_went(RemoteUnderTest& under) {
  Shelf shelf;
  const Lie file(1);  // a chunk list is accepted only with its file
  for (const StoredObject& object : file.telling()) shelf.add(object);
  for (const ObjectKind kind : {ObjectKind::kChunk, ObjectKind::kOperation}) {
    shelf.add(plain_object(kind, as_bytes("of kind " + std::to_string(static_cast<int>(kind)))));
    shelf.add(plain_object(kind, text_bytes(30'000, static_cast<std::uint64_t>(kind))));  // compressed
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{600}}) add_tree(shelf, count);
  shelf.add(plain_object(ObjectKind::kChunk, {}));  // the empty file
  Bytes floats = random_bytes(40'000, 9);
  for (std::size_t i = 2; i < floats.size(); i += 4) floats[i] = floats[i + 1] = 0x3f;
  const Digest id = Digest::of(floats);
  const StoredObject planes = Codec().encode({id, ObjectKind::kChunk}, id, floats, 4);
  CHECK(planes.encoding == Encoding::kPlanes);
  shelf.add(planes);
  const auto remote = under.open();
  CHECK(remote->missing(shelf.keys) == shelf.keys);
  shelf.send_to(*remote);
  CHECK(remote->missing(shelf.keys).empty());
  check_whole(*remote, shelf);
  check_whole(*under.open(), shelf);
}

void a_delta_goes_with_its_base(RemoteUnderTest& under) {
  Shelf shelf;
  const Bytes base = random_bytes(50'000, 1);
  Bytes tuned = base;
  for (std::size_t i = 0; i < tuned.size(); i += 100) tuned[i] ^= 1;
  const StoredObject whole = plain_object(ObjectKind::kChunk, base);
  shelf.add(whole);
  const auto delta = Codec().encode_delta({Digest::of(tuned), ObjectKind::kChunk}, tuned, 4,
                                          {Digest::of(base), whole.key, base}, tuned.size());
  REQUIRE(delta);
  CHECK_EQ(delta->extra.size(), 32u);
  shelf.add(*delta);
  const auto remote = under.open();
  shelf.send_to(*remote);
  check_whole(*remote, shelf);
}

void encrypted_objects_are_kept_without_their_keys(RemoteUnderTest& under) {
  Shelf shelf;
  for (int i = 0; i < 20; ++i) {
    const auto kind = static_cast<ObjectKind>(1 + i % 5);
    shelf.add(encrypted_object(kind, random_bytes(static_cast<std::size_t>(i) * 1000, 5), std::to_string(i)));
  }
  StoredObject delta = encrypted_object(ObjectKind::kChunk, random_bytes(900, 6), "delta");
  delta.encoding = Encoding::kDelta;
  delta.extra.assign(shelf.keys[0].id.bytes.begin(), shelf.keys[0].id.bytes.end());
  shelf.add(delta);
  const auto remote = under.open();
  shelf.send_to(*remote);
  CHECK(remote->missing(shelf.keys).empty());
  check_whole(*remote, shelf);
}

void large_objects_and_many_small_ones_pass(RemoteUnderTest& under) {
  Shelf shelf;
  shelf.add(plain_object(ObjectKind::kChunk, random_bytes(std::size_t{5} << 20, 1)));
  shelf.fill(3000, 100, 100);
  const auto remote = under.open();
  shelf.send_to(*remote);
  check_whole(*remote, shelf);
}

void missing_keeps_the_order_and_names_doubles_once(RemoteUnderTest& under) {
  Shelf shelf;
  shelf.fill(10, 50, 1);
  const auto remote = under.open();
  remote->send({shelf.keys[3], shelf.keys[3], shelf.keys[5]}, shelf.reader(), shelf.progress);
  std::vector<ObjectKey> asked, expected;
  for (std::size_t i = 10; i-- > 0;) {
    asked.insert(asked.end(), 2, shelf.keys[i]);
    if (i != 3 && i != 5) expected.push_back(shelf.keys[i]);
  }
  // The same id as another kind is another object.
  asked.push_back({shelf.keys[3].id, ObjectKind::kManifest});
  expected.push_back(asked.back());
  CHECK(remote->missing(asked) == expected);
  CHECK(remote->missing({}).empty());
  remote->send({}, shelf.reader(), shelf.progress);
  remote->receive({}, shelf.taker(), shelf.progress);
  // More than fits into one message of any protocol.
  std::vector<ObjectKey> many;
  for (int i = 0; i < 70'000; ++i) many.push_back({Digest::of(std::to_string(i)), ObjectKind::kChunk});
  many.push_back(shelf.keys[3]);
  CHECK_EQ(remote->missing(many).size(), 70'000u);
}

void sending_twice_is_fine(RemoteUnderTest& under) {
  Shelf shelf;
  shelf.fill(50, 2000, 1);
  const auto remote = under.open();
  const auto files = [&] {
    return under.folder().empty() ? std::vector<std::string>() : list_folder(under.folder() + "/packs");
  };
  shelf.send_to(*remote);
  const std::vector<std::string> once = files();
  shelf.send_to(*remote);
  shelf.send_to(*under.open());
  check_whole(*remote, shelf);
  CHECK(files() == once);
}

void two_senders_at_once_lose_nothing(RemoteUnderTest& under) {
  Shelf one, two;
  one.fill(200, 3000, 1);
  two.fill(200, 3000, 101);  // the second half of one's too
  const auto first = under.open(), second = under.open();
  std::string error;
  std::thread other([&] {
    try {
      two.send_to(*second);
    } catch (const Error& wrong) {
      error = wrong.message;
    }
  });
  one.send_to(*first);
  other.join();
  CHECK_EQ(error, "");
  const auto third = under.open();
  check_whole(*third, one);
  check_whole(*third, two);
}

void operations_are_listed(RemoteUnderTest& under) {
  Shelf shelf;
  std::vector<Digest> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back(shelf.add(plain_object(ObjectKind::kOperation, as_bytes("op" + std::to_string(i)))).id);
    shelf.add(plain_object(ObjectKind::kChunk, as_bytes("no op" + std::to_string(i))));
  }
  expected.push_back(shelf.add(encrypted_object(ObjectKind::kOperation, as_bytes("secret"), "op")).id);
  const auto remote = under.open();
  CHECK(remote->operations().empty());
  shelf.send_to(*remote);
  std::vector<Digest> found = remote->operations();
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
}

void what_the_remote_lacks_is_not_found(RemoteUnderTest& under) {
  Shelf shelf, received;
  shelf.fill(5, 1000, 1);
  const auto remote = under.open();
  shelf.send_to(*remote);
  std::vector<ObjectKey> wanted = shelf.keys;
  wanted.insert(wanted.begin() + 2, {Digest::of("nowhere"), ObjectKind::kChunk});
  CHECK(error_of([&] { received.receive_from(*remote, wanted); }) == ErrorKind::kNotFound);
  check_whole(*remote, shelf);  // it still answers
}

void errors_of_the_sender_and_the_taker_come_through(RemoteUnderTest& under) {
  Shelf shelf;
  shelf.fill(100, 1000, 1);
  const auto remote = under.open();
  std::vector<ObjectKey> keys = shelf.keys;
  keys.push_back({Digest::of("not on the shelf"), ObjectKind::kChunk});
  CHECK(error_of([&] { remote->send(keys, shelf.reader(), shelf.progress); }) == ErrorKind::kNotFound);
  shelf.send_to(*remote);
  const TakeStored full = [](StoredObject&&) { fail(ErrorKind::kRefused, "no room"); };
  CHECK(error_of([&] { remote->receive(shelf.keys, full, shelf.progress); }) == ErrorKind::kRefused);
  check_whole(*remote, shelf);
}

void what_does_not_match_its_id_or_checksum_is_refused(RemoteUnderTest& under) {
  const auto remote = under.open();
  const auto refused = [&](const StoredObject& bad) {
    Shelf shelf;
    shelf.fill(5, 1000, 1);
    shelf.add(bad);
    CHECK(error_of([&] { shelf.send_to(*remote); }) == ErrorKind::kCorrupt);
    CHECK(remote->missing({bad.key}) == std::vector<ObjectKey>{bad.key});
    CHECK(under.open()->missing({bad.key}) == std::vector<ObjectKey>{bad.key});
  };
  StoredObject damaged = plain_object(ObjectKind::kChunk, random_bytes(1000, 77));
  damaged.stored[500] ^= 1;
  refused(damaged);
  damaged = encrypted_object(ObjectKind::kChunk, random_bytes(1000, 78), "damaged");
  damaged.stored[500] ^= 1;
  refused(damaged);
  // Undamaged stored bytes under a wrong id.
  StoredObject lie = plain_object(ObjectKind::kChunk, random_bytes(1000, 79));
  lie.key.id = Digest::of("something else");
  refused(lie);
  lie = plain_object(ObjectKind::kChunk, text_bytes(1000, 80));
  lie.plain_size += 1;
  refused(lie);
}

void an_interrupted_send_is_resumed(RemoteUnderTest& under) {
  Shelf shelf;
  shelf.fill(90, 100'000, 1);
  std::atomic<int> left{80};
  const ReadStored until_cut = [&](const ObjectKey& key) {
    if (left-- <= 0) fail(ErrorKind::kIo, "cut");
    return shelf.objects.at(key);
  };
  std::vector<ObjectKey> missing;
  {
    const auto remote = under.open();
    CHECK(error_of([&] { remote->send(shelf.keys, until_cut, shelf.progress); }) == ErrorKind::kIo);
    missing = remote->missing(shelf.keys);
  }
  CHECK(missing.size() >= 10);
  // Nothing is there in part: what is no longer missing can be received.
  Shelf there;
  std::vector<ObjectKey> arrived;
  for (const ObjectKey& key : shelf.keys) {
    if (std::find(missing.begin(), missing.end(), key) == missing.end()) arrived.push_back(key);
  }
  const auto remote = under.open();
  there.receive_from(*remote, arrived);
  CHECK_EQ(there.objects.size(), arrived.size());
  shelf.reads = 0;
  remote->send(missing, shelf.reader(), shelf.progress);
  CHECK_EQ(shelf.reads, static_cast<int>(missing.size()));
  check_whole(*remote, shelf);
}

void damage_at_the_remote_is_not_received(RemoteUnderTest& under) {
  if (under.folder().empty()) return;
  Shelf shelf;
  shelf.fill(4, 50'000, 1);
  shelf.add(encrypted_object(ObjectKind::kChunk, random_bytes(50'000, 9), "damaged"));
  shelf.send_to(*under.open());
  const std::string packs = under.folder() + "/packs";
  std::string path;
  for (const std::string& name : list_folder(packs)) {
    if (name.ends_with(".pack")) path = packs + "/" + name;
  }
  const Bytes whole = read_file(path);
  const auto damaged = [&](const Bytes& bytes) {
    write_test_file(path, bytes);
    Shelf received;
    const auto kind = error_of([&] { received.receive_from(*under.open(), shelf.keys); });
    write_test_file(path, whole);
    for (const auto& [key, object] : received.objects) CHECK(same(object, shelf.objects.at(key)));
    return kind;
  };
  for (const std::size_t at : {std::size_t{200}, whole.size() / 2}) {  // in the first object and in a later one
    Bytes flipped = whole;
    flipped[at] ^= 0x40;
    CHECK(damaged(flipped) == ErrorKind::kCorrupt);
  }
  Bytes cut = whole;
  cut.resize(cut.size() / 2);
  const auto kind = damaged(cut);  // a pack without its index holds nothing
  const bool refused = kind == ErrorKind::kCorrupt || kind == ErrorKind::kNotFound;
  CHECK(refused);
  check_whole(*under.open(), shelf);
}

// For objects under a wrong id, which an encrypted remote cannot detect.
void what_is_dropped_is_missing_and_the_rest_stays(RemoteUnderTest& under) {
  Shelf first, second, rest;
  first.fill(6, 4000, 40);
  first.add(encrypted_object(ObjectKind::kChunkList, as_bytes(std::string_view("a lie")), "list"));
  second.fill(3, 4000, 60);
  const auto remote = under.open();
  first.send_to(*remote);
  second.send_to(*remote);
  const std::vector<ObjectKey> dropped = {first.keys[1], first.keys[6]};
  RepairReport report;
  if (!remote->drop(dropped, report, first.progress)) return;  // its server verifies the objects itself
  CHECK(report.saved_objects == 5);
  for (const auto& [key, object] : first.objects) {
    if (std::ranges::find(dropped, key) == dropped.end()) rest.add(StoredObject(object));
  }
  const auto again = under.open();
  for (Remote* connection : {remote.get(), again.get()}) {
    CHECK(connection->missing(first.keys) == dropped);
    CHECK(connection->missing(second.keys).empty());
    check_whole(*connection, rest);
  }
  first.send_to(*remote);
  check_whole(*under.open(), first);
  CHECK(remote->drop({{Digest::of("nothing there"), ObjectKind::kChunkList}}, report, first.progress));
  CHECK(report.saved_objects == 5);
}

void small_files_change_by_compare_and_set(RemoteUnderTest& under) {
  const auto remote = under.open();
  CHECK_FALSE(remote->read_file("keys"));
  CHECK_FALSE(remote->write_file("keys", to_bytes("something"), as_bytes("new")));
  CHECK_FALSE(remote->read_file("keys"));
  CHECK(remote->write_file("keys", std::nullopt, as_bytes("one")));
  CHECK(remote->read_file("keys") == to_bytes("one"));
  CHECK_FALSE(remote->write_file("keys", std::nullopt, as_bytes("two")));
  CHECK_FALSE(remote->write_file("keys", to_bytes("two"), as_bytes("three")));
  const Bytes large = random_bytes(300'000, 1);
  CHECK(remote->write_file("keys", to_bytes("one"), large));
  CHECK(under.open()->read_file("keys") == large);
  CHECK(remote->write_file("keys", large, {}));
  CHECK(remote->read_file("keys") == Bytes());
  CHECK(remote->write_file("keys-2", std::nullopt, as_bytes("other")));
  CHECK(remote->read_file("keys") == Bytes());
}

struct RemoteCheck {
  const char* name;
  void (*run)(RemoteUnderTest& remote);
};
const RemoteCheck kRemoteChecks[] = {
    {"heads change by compare-and-set", heads_change_by_compare_and_set},
    {"of several that publish each step is won by one", of_several_that_publish_each_step_is_won_by_one},
    {"every kind of object comes back as it went", every_kind_of_object_comes_back_as_it_went},
    {"a delta goes with its base", a_delta_goes_with_its_base},
    {"encrypted objects are kept without their keys", encrypted_objects_are_kept_without_their_keys},
    {"large objects and many small ones pass", large_objects_and_many_small_ones_pass},
    {"missing keeps the order and names doubles once", missing_keeps_the_order_and_names_doubles_once},
    {"sending twice is fine", sending_twice_is_fine},
    {"two senders at once lose nothing", two_senders_at_once_lose_nothing},
    {"operations are listed", operations_are_listed},
    {"what the remote lacks is not found", what_the_remote_lacks_is_not_found},
    {"errors of the sender and the taker come through", errors_of_the_sender_and_the_taker_come_through},
    {"what does not match its id or checksum is refused", what_does_not_match_its_id_or_checksum_is_refused},
    {"an interrupted send is resumed", an_interrupted_send_is_resumed},
    {"damage at the remote is not received", damage_at_the_remote_is_not_received},
    {"what is dropped is missing, and the rest stays", what_is_dropped_is_missing_and_the_rest_stays},
    {"small files change by compare-and-set", small_files_change_by_compare_and_set},
};

}  // namespace

void run_remote_suite(const std::function<std::unique_ptr<RemoteUnderTest>()>& make) {
  for (const RemoteCheck& check : kRemoteChecks) {
    INFO("check: ", std::string(check.name));
    const std::unique_ptr<RemoteUnderTest> remote = make();
    try {
      check.run(*remote);
    } catch (const Error& error) {
      FAIL_CHECK(error.message);
    }
  }
}

}  // namespace mlx::store
