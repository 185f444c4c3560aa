// What mlx-format-graph(5) says of the operations agrees with their rows.
#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "graph/op_def.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct Counted {
  int required = 0, all = 0;
};

// Counts "x real[N,C], (b[C])": commas in brackets separate nothing, a tensor in parentheses is optional.
Counted count_tensors(std::string_view list) {
  Counted out;
  int brackets = 0;
  bool optional = false, begun = false;
  for (const char c : list) {
    if (c == '[') ++brackets;
    if (c == ']') --brackets;
    if (c == '(' && brackets == 0) optional = true;
    if (c == ',' && brackets == 0) {
      begun = false;
      continue;
    }
    if (begun || c == ' ' || (c == '(' && brackets == 0)) continue;
    begun = true;
    ++out.all;
    if (!optional) ++out.required;
  }
  return out;
}

}  // namespace

TEST_CASE("graph: every operation says its tensors, its attributes and what it computes") {
  std::set<std::string> keys;
  for (const AttributeText& attribute : attribute_texts()) keys.insert(attribute.key);
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const OpDef& def = op_def(static_cast<Op>(i));
    CAPTURE(kernels::name_of(def.op));
    const std::string_view tensors = def.text.tensors, purpose = def.text.purpose;
    const std::size_t arrow = tensors.find(" -> ");
    REQUIRE(arrow != std::string_view::npos);
    const Counted inputs = count_tensors(tensors.substr(0, arrow));
    CHECK(inputs.required == def.required_inputs);
    CHECK(inputs.all == def.max_inputs);
    CHECK(count_tensors(tensors.substr(arrow + 4)).all >= 1);
    CHECK(purpose.size() > 10);
    CHECK(purpose.ends_with('.'));
    std::istringstream attributes(def.text.attributes);
    for (std::string key; attributes >> key;) CHECK_MESSAGE(keys.count(key) == 1, key);
  }
}
