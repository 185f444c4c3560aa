// Declarative configuration: TOML 1.0 read through toml++ into a tree that knows where each value stands, and a strict
// reader over it: a wrong key, type or value is Error{kUsage} "train.toml:7: [train] batch: expected an integer from 1
// to 65536, got "many"", with a did-you-mean for unknown keys.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace mlx {

struct TomlNode {
  enum class Kind { kTable, kArray, kString, kInteger, kFloat, kBoolean, kOther };
  Kind kind = Kind::kTable;
  int line = 0;              // 0: not in a file, or nowhere in it
  std::string origin;        // its origin, if not a file: "--set train.epochs=20"
  std::string text;          // kString
  std::int64_t integer = 0;  // kInteger
  double number = 0;         // kFloat, and kInteger as a double
  bool boolean = false;
  struct Member;
  std::vector<Member> members;  // kTable, in file order
  std::vector<TomlNode> items;  // kArray
};

// A struct of its own, because std::pair needs the whole TomlNode where the vector is declared.
struct TomlNode::Member {
  std::string first;  // the key
  TomlNode second;
};

// Throws kUsage "FILE:LINE:COLUMN: why" on a syntax error.
TomlNode parse_toml(std::string_view text, const std::string& file);
// Sets "train.epochs=20" in `root`, and makes the tables on the way. The key is a dotted key of TOML. The value is a
// TOML literal, or else a string as it stands. kUsage for another form, and if a key on the way is not a table.
void set_toml(TomlNode& root, std::string_view assignment, std::string_view option);
// Plain data, keys in file order (for "resolved config").
Json toml_to_json(const TomlNode& node);

// Reads one table strictly. Each getter marks its key as known; finish() throws for the first key that nobody asked
// for. Getters without a default throw if the key is missing ("train.toml: [data] needs the key 'dataset'").
class TomlReader {
 public:
  TomlReader(const TomlNode& table, std::string file, std::string where);  // where: "[train]"

  bool has(std::string_view key) const;
  bool is_array(std::string_view key) const;  // for keys that take one value or several
  bool is_text(std::string_view key) const;   // for keys that take text or a number
  int line(std::string_view key) const;
  std::string place(std::string_view key) const;  // "train.toml:7", or "--set train.batch=8"
  std::string string(std::string_view key);
  std::string string(std::string_view key, std::string_view fallback);
  // One of a closed set; the error lists it.
  std::string one_of(std::string_view key, const std::vector<std::string>& allowed,
                     std::optional<std::string> fallback = {});
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, double min, double max, std::optional<double> fallback = {});
  bool boolean(std::string_view key, std::optional<bool> fallback = {});
  std::vector<std::string> strings(std::string_view key, std::optional<std::vector<std::string>> fallback = {});
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max,
                                     std::optional<std::vector<std::int64_t>> fallback = {});
  std::vector<double> numbers(std::string_view key, double min, double max,
                              std::optional<std::vector<double>> fallback = {});
  // Sub-table; an absent one reads as empty if `required` is false.
  TomlReader table(std::string_view key, bool required = false);
  // Array of tables ([[model.layers]] or inline); each reader's `where` names its index.
  std::vector<TomlReader> tables(std::string_view key, bool required = false);
  std::vector<std::string> keys() const;
  void finish() const;
  // Error at a key of this table: "FILE:LINE: WHERE KEY: why".
  [[noreturn]] void fail_at(std::string_view key, std::string_view why) const;

 private:
  const TomlNode* find(std::string_view key);
  const TomlNode& require(std::string_view key, std::string_view expected);
  [[noreturn]] void wrong(const TomlNode& node, std::string_view key, std::string_view expected) const;
  const TomlNode* value_of(std::string_view key) const;
  std::shared_ptr<const TomlNode> table_;
  std::map<std::string_view, const TomlNode*> by_key_;  // of *table_, which may have many
  std::string file_, where_;
  std::set<std::string, std::less<>> known_;
  mutable std::set<std::string, std::less<>> asked_;  // by has(): they may be there, for the hint of finish()
};

// The closest of `words` to `word` within a third of its length (Damerau-Levenshtein), or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words);

}  // namespace mlx
