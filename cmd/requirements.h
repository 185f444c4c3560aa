// `mlx eval --require 'accuracy >= 0.93'`: the conditions on metrics under which the command succeeds.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "cmd/condition.h"

namespace mlx::cmd {

std::vector<Condition> parse_requirements(
    const std::vector<std::string>& texts);  // kUsage, before anything is measured

struct Verdict {
  Condition condition;
  double value = 0;
  bool met = false;
};
// `evaluation`: an object; its numbers and those of its member "metrics" have names. kUsage with a did-you-mean for
// others.
std::vector<Verdict> judge(const std::vector<Condition>& requirements, const Json& evaluation);
bool all_met(const std::vector<Verdict>& verdicts);
void print_verdicts(const std::vector<Verdict>& verdicts, Context& context);
Json verdicts_json(const std::vector<Verdict>& verdicts);

}  // namespace mlx::cmd
