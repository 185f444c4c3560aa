"""Compares chat templates with what `transformers` makes of them with the PyPI package `jinja2`.

usage: templates_check.py MLX [--conversations N] [--seed N] [--template FILE]...

Templates in the manner of published models, and many small expressions, are rendered by `mlx predict --chat --json` and
by jinja2, set up as transformers sets it up, with random conversations: the texts must be equal, and what jinja2
refuses must be refused. What mlx does not support is counted; of the models' templates it must be nothing. `--template`
adds files with templates. Exits with 1 where something differs. It needs: pip install jinja2 transformers. No test of
ctest runs it: the packages are no dependencies.
"""
import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}

MODELS = {
    "chatml": """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "chatml with a default": """{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] -%}{%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = 'You help.' -%}{%- set rest = messages -%}
{%- endif %}
{{- '<|im_start|>system\\n' + first + '<|im_end|>\\n' }}
{%- for m in rest %}
    {%- if (m.role == "user") or (m.role == "system" and not loop.first) or (m.role == "assistant" and not m.tool_calls) %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
    {%- elif m.role == "tool" %}
        {%- if (loop.index0 == 0) or (rest[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- m.content }}{{- '\\n</tool_response>' }}
    {%- else %}
        {{- '<|im_start|>' + m.role }}
        {%- if m.content %}{{- '\\n' + m.content }}{%- endif %}
        {%- for call in m.tool_calls or [] %}
            {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- call.name }}{{- '", "arguments": ' }}{{- call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "thinking": """{%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set at = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and m.role == "user" and m.content is string and not (m.content.startswith('<r>') and m.content.endswith('</r>')) %}
        {%- set ns.open = false %}{%- set ns.last = at %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.content is string %}{%- set content = m.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if m.role == "assistant" %}
        {%- set thought = '' %}
        {%- if m.reasoning_content is string %}{%- set thought = m.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thought)) %}
            {{- '<|im_start|>' + m.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + m.role + '\\n' + content }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + m.role + '\\n' + content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}""",
    "brackets": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set first = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set first = false %}{% endif %}
{%- for m in rest %}
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns: user/assistant/user/...') }}{% endif %}
{% if loop.index0 == 0 and first != false %}{% set text = '<<SYS>>\\n' + first + '\\n<</SYS>>\\n\\n' + m['content'] %}{% else %}{% set text = m['content'] %}{% endif %}
{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}
{% endfor %}""",
    "brackets of two": """{%- if messages[0]["role"] == "system" %}{%- set head = messages[0]["content"] %}{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set users = rest | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}{%- set ns.index = 0 %}
{%- for m in rest %}
    {%- if not (m.role == "tool" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("After the system: user and assistant in turns") }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in rest %}
    {%- if m["role"] == "user" %}
        {%- if tools is not none and (m == users[-1]) %}{{- "[AVAILABLE_TOOLS] [" }}{%- endif %}
        {%- if loop.last and head is defined %}{{- "[INST] " + head + "\\n\\n" + m["content"] + "[/INST]" }}{%- else %}{{- "[INST] " + m["content"] + "[/INST]" }}{%- endif %}
    {%- elif m["role"] == "assistant" %}
        {{- " " + m["content"]|trim + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant, and a system at the beginning") }}
    {%- endif %}
{%- endfor %}
""",
    "headers": """{% set loop_messages = messages %}{% for m in loop_messages %}{% set content = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}""",
    "headers with a date": """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set first = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set first = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{%- if builtin_tools is defined %}{{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n" }}{%- endif %}
{{- "Date: " + date_string + "\\n\\n" }}
{{- first }}{{- "<|eot_id|>" }}
{%- for m in messages %}
    {%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) %}
        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in m %}
        {%- if not m.tool_calls|length == 1 %}{{- raise_exception("One call at a time") }}{%- endif %}
        {%- set call = m.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}{{- call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if m.content is mapping or m.content is iterable %}{{- m.content | tojson }}{%- else %}{{- m.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "turns": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system here') }}{% endif %}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns') }}{% endif %}{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "turns of parts": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}{%- set prefix = messages[0]['content'] + '\\n\\n' -%}{%- else -%}{%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}{%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}{%- set rest = messages -%}
{%- endif -%}
{%- for m in rest -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception("Turns must alternate") }}{%- endif -%}
    {%- if (m['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = m['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if m['content'] is string -%}
        {{ m['content'] | trim }}
    {%- elif m['content'] is iterable -%}
        {%- for item in m['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}{{ raise_exception("Not a content") }}{%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
""",
    "lines of roles": """{% for m in messages %}
{% if m['role'] == 'user' %}
{{ '<|user|>\\n' + m['content'] + eos_token }}
{% elif m['role'] == 'system' %}
{{ '<|system|>\\n' + m['content'] + eos_token }}
{% elif m['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + m['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
""",
    "roles and ends": """{% for m in messages %}{% if m['role'] == 'system' and m['content'] %}{{'<|system|>\\n' + m['content'] + '<|end|>\\n'}}{% elif m['role'] == 'user' %}{{'<|user|>\\n' + m['content'] + '<|end|>\\n'}}{% elif m['role'] == 'assistant' %}{% generation %}{{'<|assistant|>\\n' + m['content'] + '<|end|>\\n'}}{% endgeneration %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "macros": """{% macro head(role, sep='\\n') -%}<{{ role|upper }}>{{ sep }}{%- endmacro %}
{% macro body(m) %}{% if m.content is string %}{{ m.role.title() ~ m.content.replace('\\n', ' ').lower() }}{% elif m.content is none %}-{% else %}{% for k, v in m.content[0].items() %}{{ k ~ '=' ~ v }}{% if not loop.last %}, {% endif %}{% endfor %}{% endif %}{% endmacro %}
{% for m in messages if m.role != 'tool' %}{{ head(m.role) }}{{ body(m) }}{{ head('/' ~ m.role, sep='') }}
{% else %}nothing{% endfor %}{{ messages|map(attribute='role')|unknown_is_none|join('/') if false else messages|map(attribute='role')|join('/') }}""".replace("|unknown_is_none", ""),
}

EXPRESSIONS = r"""1 + 2 * 3;n // 2;n % 3;-n // 2;n / 2;f * 2;f // 1;f % 2;-f % 2;-f // 1;1e16;1e15;1.5e-7;0.1 + 0.2;1e22;1 / 0;1 % 0;n ~ "x" ~ f ~ none ~ true
s.split(",");s.split(",", 1);w.split();w.split(none, 1);s.upper();w.strip();w|trim;w.lstrip();w.rstrip();s.replace(",", ";", 2);s.replace("", "-");s.strip("af")
messages[0]["content"];messages[0].content|trim;messages[1:];messages[::-1];messages[-1].role;messages[9];messages[9] is defined;messages|length;l[1:3];l[::2];l[::-2];l[9:];l[-2:];l[:-1]
s[1];s[-1];s[1:4];s[::-1];d.items();d["items"];d.keys()|list;d.values()|list;d;d.a;d["a"][2];d.missing;d.get("q");d.get("q", 5);d|tojson;d|tojson(indent=2);messages|tojson;d|items|list;d|list
"a" in s;"a" not in s;1 in l;"b" in d;q is defined;q;q|default("x");none|default("x");none|default("x", true);""|d("y", true);s is string;d is mapping;q is iterable;true is number;true is integer
1 < 2 < 3;1 < 3 < 2;"a" < "b";1 == 1.0;true == 1;[1, 2] == [1, 2];(1, 2) == [1, 2];{"a": 1} == {"a": 1.0};q == q2;1 if n else 2;1 if not n;n and f;none or f;not n == 3;n in n;"a" < 1
l|join(",");messages|map(attribute="role")|join("|");messages|selectattr("role", "equalto", "user")|list|length;l|select("odd")|list;l|reject("gt", 1)|list;["a", "B"]|map("upper")|join;l|first;l|last;[]|first
"12.7"|int;"x"|int(3);f|int;none|int;"1.5"|float;n|string;d|string;"hello wOrld-foo (bar"|title;"hello wOrld's"|capitalize;"hello wOrld's x1y".title();"ÄÖ"|lower;"世界"|upper;f|abs
"a\nb\\c\'d\"e\x41\u00e4\101\q";'a' 'b';["a'b", 'c"d', "e\n\t\x00\u00ad\u200b", "世"];("a",);();(1, 2);{"a": 1, 2: "b", none: 3};"abc".endswith(("c", "d"));"aXbXc".rfind("X");"aaa".count("a")
"a,b,c".rsplit(",", 1);"a\nb\r\nc\n".splitlines();range(5, 0, -2)|list;dict(a=1, b=2);namespace(a=1).a;"a" * 3;[1] * 2;[1] + [2];"a\nb\n\nc"|indent(2, true);n.x;none.x;q.x;q + 1;n + "a";l.append(1)
raise_exception("no");nothing();n|length;none["a"];messages[0]["role"] == "system" and messages|length == 3;-n|abs;not true|not true;l[true];[1, 2;a b;1 +;(q|default({})).c is defined;loop is defined
l|sort;l|sort(reverse=true);["b", "A", "c", "a"]|sort;["b", "A", "c", "a"]|sort(case_sensitive=true);["b", "A", "a"]|sort(true);messages|sort(attribute="role")|map(attribute="content")|join("/");messages|sort(reverse=true, attribute="role,content")|map(attribute="content")|join("/")
[1, "a"]|sort;q|sort;"badc"|sort;d|sort;[[2, 1], [1, 9], [1, 2]]|sort;[1, 2.5, true, 0]|sort;[none, 1]|sort;[none]|sort;[{"k": {"v": 2}}, {"k": {"v": 1}}]|sort(attribute="k.v");[(2, "a"), (1, "b")]|sort(attribute=0);l|sort(attribute="x")
d|dictsort;{"b": 2, "A": 3, "a": 1}|dictsort;{"b": 2, "A": 3, "a": 1}|dictsort(true);{"b": 2, "A": 3, "a": 1}|dictsort(by="value");{"b": 2, "a": 2}|dictsort(false, "value", true);d|dictsort(by="x");l|dictsort;{"a": "x", "b": 1}|dictsort(by="value");{1: "z", 0: "y"}|dictsort
l|unique|list;["a", "A", "b"]|unique|list;["a", "A", "b"]|unique(true)|list;messages|unique(attribute="role")|map(attribute="content")|join("/");[[1], [1]]|unique|list;[1, 1.0, true, "1"]|unique|list;l|unique;"aBAb"|unique|join;[(1, 2), (1, 2)]|unique|list
l|min;l|max;[]|min;["b", "A"]|min;["b", "A"]|max(true);messages|max(attribute="role");[1, "a"]|max;l|sum;messages|map(attribute="content")|map("length")|sum;[{"a": 1}, {"a": 2}]|sum(attribute="a");[[1], [2]]|sum(start=[]);["a"]|sum;[]|sum;l|sum(start=0.5)
2 ** 3;2 ** 3 ** 2;-2 ** 2;2 ** -1;n ** 2;f ** 2;2 ** 0.5;(-8) ** 0.5;0 ** -1;0.0 ** -1.0;2 ** 62;2 ** 64;2 ** 3 * 2;2 * 3 ** 2;"a" ** 2;true ** 2;10.0 ** 400;(-7) ** 3;0 ** 0;1.5 ** 2|abs"""

STATEMENTS = [
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% if loop.changed(x) %}+{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x, 1) }},{{ loop.cycle(x) }} {% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.cycle(1, 2, 3) }}{{ loop.changed(y > 1) }}{% endfor %}{{ loop.changed() }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% with a=1, b=n %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}",
    "{% with n=1, m=n %}{{ m }}{{ n }}{% endwith %}{{ n }}",
    "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}",
    "{% for x in l %}{% with y=x * 2 %}{% if y > 4 %}{% continue %}{% endif %}{{ y }}{% endwith %}{% endfor %}",
    "{% filter upper %}a {{ s }} b{% endfilter %}",
    "{% filter replace('a', 'X')|trim|length %} {{ s }} {% set k = 1 %}{{ k }} {% endfilter %}{{ k }}",
    "{% filter nothing %}x{% endfilter %}",
    "{% filter %}x{% endfilter %}",
    "{% with a=1 %}{{ a }}",
    "{% set ns = namespace(t='') %}{% for x in l|sort %}{% set ns.t = ns.t ~ x %}{% endfor %}{{ ns.t }}",
]

SETS = ("{% set n = -7 %}{% set f = 2.5 %}{% set s = 'ab,cd,,ef' %}{% set w = '  x y\\tz \\n' %}{% set l = [3, 1, 2, 1] %}"
        "{% set d = {'b': 1, 'a': [1, 2.0, none, true], 'items': 3} %}x")  # a text of blanks only is no prompt
WORDS = ["the mill", " Hällo ß\n", "世界 🙂", "<think>\nhm\n</think>\n\nyes", "a, b; 'c' \"d\"", "\n\n", "", "x" * 40, "<r>1</r>", "{{ x }}", "\\n\t\u00a0", "<|im_end|>"]


def conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(WORDS)})
    for i in range(rng.randint(1, 5)):
        role = ("user", "assistant")[i % 2] if rng.random() < 0.9 else rng.choice(["user", "assistant", "tool", "system"])
        message = {"role": role, "content": "".join(rng.choice(WORDS) for _ in range(rng.randint(0, 3)))}
        if rng.random() < 0.1:
            message["content"] = rng.choice([None, [{"type": "text", "text": rng.choice(WORDS)}, {"type": "image"}]])
        if role == "assistant" and rng.random() < 0.2:
            message["tool_calls"] = [{"function": {"name": "f", "arguments": {"x": rng.choice([1, 2.5, None, "é\n"]), "y": [True]}}}]
        if role == "assistant" and rng.random() < 0.2:
            message["reasoning_content"] = rng.choice(WORDS)
        messages.append(message)
    return messages


def theirs(template, messages):
    try:
        made = chat_template_utils._compile_jinja_template(template)
        return made.render(messages=messages, tools=None, documents=None, add_generation_prompt=True, **NAMES), None
    except Exception as error:  # of any kind: it has no text
        return None, f"{type(error).__name__}: {error}"


class Ours:
    def __init__(self, mlx, folder):
        self.mlx, self.folder, self.count = mlx, folder, 0
        self.run("init")
        outside = os.path.join(folder, "theirs")
        subprocess.run([sys.executable, os.path.join(HERE, "../cli/decoder_folder.py"), "LlamaForCausalLM", outside, "F32", "1",
                        "max_position_embeddings=20000"], check=True)
        with open(os.path.join(outside, "tokenizer_config.json"), "w") as file:
            json.dump(NAMES, file)
        self.run("import", "model", "theirs", "--name", "lm")

    def run(self, *arguments, text=""):
        return subprocess.run([self.mlx, "-C", self.folder, *arguments], input=text.encode(), capture_output=True)

    def text(self, number, template, messages):
        place = f"model{number}"
        self.run("checkout", "lm", "--to", place)
        with open(os.path.join(self.folder, place, "chat_template.jinja"), "w", newline="") as file:
            file.write(template)
        out = self.run("predict", f"./{place}", "--chat", "--json", "--max-tokens", "0", text=json.dumps(messages))
        if out.returncode == 0:
            return json.loads(out.stdout)["prompt"], None
        error = out.stderr.decode()
        # An empty text is no prompt.
        return ("", None) if "makes nothing of the conversation" in error else (None, error)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("mlx")
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--template", action="append", default=[])
    options = parser.parse_args()
    rng = random.Random(options.seed)
    models = dict(MODELS)
    for path in options.template:
        models[path] = open(path, newline="").read()
    cases = [(name, template, conversation(rng)) for name, template in models.items() for _ in range(options.conversations)]
    for line in EXPRESSIONS.split("\n"):
        for expression in line.split(";"):
            cases.append(("", SETS + "{{ " + expression + " }}", conversation(rng)))
    for statements in STATEMENTS:
        cases.append(("", SETS + statements, conversation(rng)))
    equal = refused = unsupported = bad = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        ours = Ours(os.path.abspath(options.mlx), folder)
        results = pool.map(lambda case: ours.text(case[0], *case[1][1:]), enumerate(cases))
        for (name, template, messages), (text, error) in zip(cases, results):
            wanted, fault = theirs(template, messages)
            if text is not None and text == wanted:
                equal += 1
            elif text is None and wanted is None:
                refused += 1
            elif text is None and "not supported" in error and not name:
                unsupported += 1
                print(f"not supported: {template[len(SETS):]}")
            else:
                bad += 1
                print(f"{name or template[len(SETS):]}: {messages}\n  mlx    {text!r} {error or ''}\n  jinja2 {wanted!r} {fault or ''}")
    print(f"{len(cases)} texts: {equal} equal, {refused} refused by both, {unsupported} not supported, {bad} differ")
    sys.exit(1 if bad else 0)


main()
