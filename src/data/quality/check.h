// Checks a dataset against its rules: those over single items while the data is read, the others on its statistics.
// Used by cmd/check.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/quality/measure.h"
#include "data/quality/rules.h"

namespace mlx::data {

struct FoundAt {
  std::uint64_t number = 0;  // line or image
  std::string value;
};

// One rule of one split that does not hold.
struct Failure {
  std::string rule;            // "columns.age.range", "leaks"
  std::string split, file;     // "" where several are meant
  std::string place_word;      // "line" or "image", with `found`
  std::string text;            // "3 of 12 values are not from 0 to 120"
  std::uint64_t count = 0;     // items that break it; 0 where it is about all of them
  std::vector<FoundAt> found;  // the first ones
};

// Personal data that nobody has declared: a finding, and a failure only if the rules refuse it.
struct PersonalFinding {
  std::string split, column, kind;
  std::uint64_t values = 0;  // that look like it; 0 if only the column's name does
};

struct CheckResult {
  Statistics statistics;
  std::vector<std::string> rules;  // all that were checked, as in Failure::rule
  std::vector<Failure> failures;
  std::vector<PersonalFinding> personal;
};

// `before`: statistics of the last version, null if there is none. `today`: days since 1970, for freshness.
CheckResult check_dataset(const store::Store& store, const Digest& manifest, const std::string& only,
                          const Rules& rules, const Statistics* before, std::int64_t today, Progress& progress);

Json to_json(const CheckResult& result);
// JUnit XML: one test case for each rule, failures in them.
std::string junit(const CheckResult& result, const std::string& dataset);

}  // namespace mlx::data
