// Templates: what they write, what is refused and where, and that every template ends.
#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "infer/jinja/template.h"

using namespace mlx;
using infer::jinja::Limits;
using infer::jinja::Template;

namespace {

std::tm a_day() {
  std::tm day{};
  day.tm_year = 124, day.tm_mon = 6, day.tm_mday = 26, day.tm_wday = 5;
  return day;
}

const Json& conversation() {
  static const Json variables = parse_json(
      R"({"messages": [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "Hé <x>\n"},
          {"role": "assistant", "content": "ok"}], "bos_token": "<s>", "n": -7, "f": 2.5, "none_there": null,
          "d": {"b": 1, "items": [1, 2.0, null, true]}, "add_generation_prompt": true})",
      "variables");
  return variables;
}

std::string rendered(const std::string& source, const Limits& limits = {}) {
  return Template(source, "t").render(conversation(), a_day(), limits);
}

std::string fault_of(const std::string& source, const Limits& limits = {}) {
  try {
    return "none, but: " + rendered(source, limits);
  } catch (const Error& error) {
    return error.message;
  }
}

}  // namespace

TEST_CASE("jinja: blanks around tags") {
  CHECK(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n") == "a\nb\nc");
  CHECK(rendered("x  {%- if 1 -%}  y  {%- endif %}\nz") == "xyz");
  CHECK(rendered("x {%+ if 1 +%}\ny{% endif %}") == "x \ny");
  CHECK(rendered("  {{ n }}\n{# c #}\n  {#- d -#}  e") == "  -7\ne");
  CHECK(rendered("{% raw %}\n{{ n }}{% endraw %}\n.") == "\n{{ n }}.");
  CHECK(rendered("{{ n }}\r\n.\r") == "-7\n.");
}

TEST_CASE("jinja: values and operators are Python's") {
  const std::pair<const char*, const char*> cases[] = {
      {"n // 2", "-4"},
      {"n % 3", "2"},
      {"f * 2", "5.0"},
      {"n / 2", "-3.5"},
      {"1e16", "1e+16"},
      {"n ~ 'x' ~ none", "-7xNone"},
      {"1 < 2 < 3 and not 3 in [1, 2]", "True"},
      {"messages[1:]|length", "2"},
      {"messages[::-1][0].role", "assistant"},
      {"messages[-1]['role'] == 'assistant'", "True"},
      {"messages[1].content[1]", "é"},
      {"messages[7] is defined", "False"},
      {"d['items']", "[1, 2.0, None, True]"},
      {"d.get('q', 5)", "5"},
      {"d|tojson", R"({"b": 1, "items": [1, 2.0, null, true]})"},
      {"[1]|tojson(indent=2)", "[\n  1\n]"},
      {"messages[1]|tojson", R"({"role": "user", "content": "Hé <x>\n"})"},
      {"messages[0].content|trim|upper", "BE KIND."},
      {"'a,b,,c'.split(',')", "['a', 'b', '', 'c']"},
      {"' a  b '.split()", "['a', 'b']"},
      {"'aXbX'.replace('X', '-', 1)", "a-bX"},
      {"'abc'.startswith(('x', 'a'))", "True"},
      {"\"it's\\n\" ~ ['it\\'s']", "it's\n[\"it's\"]"},
      {"unknown|default('x') ~ none_there|default('y')", "xNone"},
      {"none_there|default('y', true)", "y"},
      {"unknown", ""},
      {"unknown is iterable and not unknown", "True"},
      {"messages|map(attribute='role')|join('|')", "system|user|assistant"},
      {"messages|selectattr('role', 'equalto', 'user')|list|length", "1"},
      {"'12.7'|int + ' 3 '|int", "15"},
      {"'a' if n > 0", ""},
      {"strftime_now('%d %b %Y')", "26 Jul 2024"},
      {"range(3)|list", "[0, 1, 2]"},
      {"{'a': {'b': 1}}.a.b", "1"},
      {"'hello wOrld'.title()", "Hello World"},
      {"[1, 'b'] < [1, 'c'] and 2.5 is not odd", "True"},
      {"d[[1]] is defined", "False"},
  };
  for (const auto& one : cases) {
    INFO(one.first);
    CHECK(rendered("{{ " + std::string(one.first) + " }}") == one.second);
  }
}

TEST_CASE("jinja: statements and where names hold") {
  CHECK(rendered("{% for m in messages %}{{ loop.index }}{{ loop.first }}{{ loop.last }} {% endfor %}") ==
        "1TrueFalse 2FalseFalse 3FalseTrue ");
  CHECK(rendered("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}") == "a1");
  CHECK(rendered("{% for x in [3, 1, 2] if x > 1 %}{{ x }}{{ loop.index }}{% endfor %}") == "3122");
  CHECK(rendered("{% for x in [1, 2, 3] %}{% if x == 3 %}{% break %}{% elif x == 1 %}{% continue %}{% endif %}{{ x }}"
                 "{% endfor %}") == "2");
  CHECK(rendered("{% set x = 1 %}{% for y in [5] %}{% set x = y %}{{ x }}{% endfor %}{{ x }}") == "51");
  CHECK(rendered("{% set ns = namespace(a=1) %}{% for y in [5] %}{% set ns.a = ns.a + y %}{% endfor %}{{ ns.a }}") ==
        "6");
  CHECK(rendered("{% macro m(a, b='z') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) ~ m(b=2, a=3) }}") == "[1z][32]");
  CHECK(
      rendered("{% for x in [1, 1, 2] %}{{ loop.cycle('a', 'b') }}{% if loop.changed(x) %}!{% endif %}{% endfor %}") ==
      "a!ba!");
  CHECK(rendered("{% with n=1, m=n %}{{ m }}{{ n }}{% endwith %}{{ n }}") == "-71-7");
  CHECK(rendered("{% filter upper|trim %} a{{ n }} {% endfilter %}") == "A-7");
  CHECK(
      rendered(
          "{{ ['b', 'A', 'a']|sort }}{{ messages|sort(attribute='role', reverse=true)|map(attribute='role')|join }}") ==
      "['A', 'a', 'b']usersystemassistant");
  CHECK(rendered("{{ {'b': 1, 'a': 2}|dictsort }}{{ [1, 1.0, 2]|unique|list }}{{ [2, 1]|min }}{{ [2, 1]|sum }}") ==
        "[('a', 2), ('b', 1)][1, 2]13");
  CHECK(rendered("{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }}") == "64 4 0.5");
  CHECK(rendered("{% set x | upper %}a{{ n }}{% endset %}{{ x }}{% generation %}!{% endgeneration %}") == "A-7!");
}

TEST_CASE("jinja: what is not supported is refused by name, with its line") {
  CHECK(fault_of("\n{% include 'x' %}") == "t, line 2: the statement 'include' is not supported");
  CHECK(
      fault_of("a\n\n{{ n|nofilter }}").starts_with("t, line 3: the filter 'nofilter' is not supported; supported: "));
  CHECK(fault_of("{{ n is notest }}").starts_with("t, line 1: the test 'notest' is not supported"));
  CHECK(fault_of("{{ 2 ** 64 }}") == "t, line 1: an integer of more than 63 bits is not supported");
  CHECK(fault_of("{{ (-8) ** 0.5 }}") == "t, line 1: a complex number is not supported");
  CHECK(fault_of("{{ [1, 'a']|sort }}").starts_with("t, line 1: "));
  CHECK(fault_of("{{ [[1]]|unique }}") == "t, line 1: unique: not for list");
  CHECK(fault_of("{% filter length %}a{% endfilter %}") == "t, line 1: the filters of a block make int, not text");
  CHECK(fault_of("{{ 'a'.center(3) }}") == "t, line 1: the method 'center' of str is not supported");
  CHECK(fault_of("{{ 'ß'.upper() }}") == "t, line 1: changing the case of 'ß' is not supported");
  CHECK(fault_of("{{ d.__class__.__mro__ }}") == "t, line 1: '__class__' is undefined");
  CHECK(fault_of("{{ cycler(1) }}") == "t, line 1: the function 'cycler' is not supported");
  CHECK(fault_of("\n{{ raise_exception('roles\nmust alternate') }}") == "t, line 2: roles must alternate");
  CHECK(fault_of("{{ unknown.x }}") == "t, line 1: 'unknown' is undefined");
  CHECK(fault_of("{{ n + 'a' }}") == "t, line 1: '+' is not for int and str");
  CHECK(fault_of("{% if n %}") == "t, line 1: expected {% endif %}, got the end of the template");
  CHECK(fault_of("{{ [1, 2 }}") == "t, line 1: unexpected '}'");
  CHECK(fault_of("{{ 9223372036854775807 + 1 }}") == "t, line 1: an integer of more than 63 bits is not supported");
  CHECK(fault_of("{{ '\xFF' }}") == "t is not UTF-8");
}

TEST_CASE("jinja: every template ends, in little memory") {
  const Limits small{.steps = 100'000, .bytes = 1 << 20, .output = 1 << 18};
  const std::string many = "{% for a in range(10000) %}", end = "{% endfor %}";
  CHECK(fault_of(many + many + "{% set x = a %}" + end + end, small) == "t, line 1: the template takes too long");
  CHECK(fault_of(many + std::string(200, 'x') + end, small) == "t, line 1: the template makes too much text");
  CHECK(fault_of("{{ 'x' * 9000000000 }}") == "t, line 1: the template takes too long");
  CHECK(fault_of("{{ [0] * 9000000000 }}") == "t, line 1: the template takes too long");
  CHECK(fault_of("{% set ns = namespace(x='ab') %}" + many + "{% set ns.x = ns.x ~ ns.x %}" + end) ==
        "t, line 1: the template makes too much text");
  CHECK(fault_of("{% set ns = namespace(x=[]) %}" + many + "{% set ns.x = [ns.x, ns.x] %}" + end) ==
        "t, line 1: values in values, 151 deep");
  CHECK(fault_of("{% set ns = namespace(x=1) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
                 "{{ ns.x }}",
                 small) == "t, line 1: the template makes too much text");
  CHECK(fault_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}") ==
        "t, line 1: too many things in each other, or a macro that calls itself");
  CHECK(fault_of("{{ " + std::string(100'000, '(') + std::string(100'000, ')') + " }}") ==
        "t, line 1: too many things in each other");
  CHECK(fault_of("{{ 1" + std::string(100'000, '+') + "1 }}") == "t, line 1: too many things in each other");
  std::string sum = "{{ 1", loops;
  for (int i = 0; i < 10'000; ++i) sum += " + 1", loops += "{% if 1 %}";
  CHECK(fault_of(sum + " }}") == "t, line 1: too many things in each other");
  CHECK(fault_of(loops) == "t, line 1: too many things in each other");
  CHECK(fault_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x.x }}") ==
        "t, line 1: text of a namespace is not supported");
  CHECK(fault_of("{{ range(1000000) }}") == "t, line 1: range: more than 100000 numbers");
  CHECK(fault_of(std::string((1 << 20) + 1, 'x')) == "t has more than 1.0 MiB");
}
