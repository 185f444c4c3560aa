"""Asks `mlx serve` with the packages that people use against OpenAI's, Anthropic's and Ollama's servers.

usage: openai_check.py MLX

A small model of bytes with a chat template that knows tools is imported. The PyPI packages `openai`, `anthropic` and `ollama`
must be able to list models, to complete, chat, stream, call tools, parse answers of a schema, embed, and must raise their
own errors; what they return must agree with each other and with `mlx predict`. Exits with 1 where something does not. It
needs: pip install openai anthropic ollama pydantic. No test of ctest runs it: the packages are no dependencies.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import anthropic
import ollama
import openai
import pydantic

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Bonn", "Ulm"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
ONLY_ASCII = {str(token): -100 for token in (*range(32), *range(127, 257))}  # and no end
found = []


def check(name, holds, shown=""):
    print(("ok    " if holds else "WRONG ") + name + ("" if holds else f": {shown}"))
    if not holds:
        found.append(name)


class Answer(pydantic.BaseModel):
    yes: bool
    count: int


def main():
    mlx = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words, text=None: subprocess.run([mlx, *words], cwd=folder, check=True, capture_output=True, text=True, input=text).stdout
        run("init")
        subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "chat_folder.py"), os.path.join(folder, "lm")], check=True)
        run("import", "model", "lm")
        server = subprocess.Popen([mlx, "serve", "lm@v1", "--listen", "127.0.0.1:0", "--json"], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            text = ""
            while not text.endswith("\n}\n"):
                text += server.stdout.readline()
            url = json.loads(text)["url"]
            openais(url, run)
            others(url)
            gone(url)
        finally:
            server.terminate()
            server.wait()
    return 1 if found else 0


def openais(url, run):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    check("models.list", [m.id for m in client.models.list()] == ["lm@v1"])
    check("models.retrieve", client.models.retrieve("lm").id == "lm@v1")
    whole = client.completions.create(model="lm", prompt="The mill", max_tokens=40, seed=3, temperature=0.7, logit_bias={"256": -100}, logprobs=2)
    predicted = json.loads(run("predict", "lm", "-p", "The mill", "--max-tokens", "40", "--seed", "3", "--temperature", "0.7", "--logit-bias", "256=-100",
                               "--json", "-q"))
    check("completions.create is mlx predict", whole.choices[0].text == predicted["texts"][0]["text"], whole)
    check("logprobs", len(whole.choices[0].logprobs.tokens) == 40)
    check("usage", (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (8, 40), whole.usage)
    texts = ["", ""]
    for chunk in client.completions.create(model="lm", prompt="The mill", max_tokens=40, seed=3, temperature=0.7, logit_bias={"256": -100}, n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    check("completions, streamed", texts[0] == whole.choices[0].text and texts[1] != texts[0], texts)

    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    chat = client.chat.completions.create(model="lm", messages=messages, max_completion_tokens=30, seed=5, logit_bias=ONLY_ASCII, logprobs=True, top_logprobs=3)
    check("chat", chat.choices[0].message.role == "assistant" and chat.choices[0].finish_reason == "length", chat)
    check("chat's logprobs", len(chat.choices[0].logprobs.content) == 30 and len(chat.choices[0].logprobs.content[0].top_logprobs) == 3)
    streamed, usage = "", None
    for chunk in client.chat.completions.create(model="lm", messages=messages, max_tokens=30, seed=5, logit_bias=ONLY_ASCII, stream=True,
                                                stream_options={"include_usage": True}):
        usage = chunk.usage
        streamed += "".join(choice.delta.content or "" for choice in chunk.choices)
    check("chat, streamed", streamed == chat.choices[0].message.content, streamed)
    check("usage of a stream", usage.total_tokens == chat.usage.total_tokens, usage)
    stop = chat.choices[0].message.content[7:10]
    cut = client.chat.completions.create(model="lm", messages=messages, max_tokens=30, seed=5, logit_bias=ONLY_ASCII, stop=[stop, "no such"])
    check("stop", cut.choices[0].message.content == chat.choices[0].message.content.split(stop)[0] and cut.choices[0].finish_reason == "stop")
    shaped = client.chat.completions.parse(model="lm", messages=messages, max_tokens=200, response_format=Answer)
    check("chat.completions.parse", isinstance(shaped.choices[0].message.parsed, Answer), shaped)
    free = client.chat.completions.create(model="lm", messages=messages, max_tokens=400, response_format={"type": "json_object"}, temperature=0)
    check("json_object", free.choices[0].finish_reason == "length" or isinstance(json.loads(free.choices[0].message.content), dict), free)
    forced = client.chat.completions.create(model="lm", messages=messages, tools=[TOOL], tool_choice="required", max_tokens=200)
    call = forced.choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    check("tool_choice", call.function.name == "weather" and arguments["city"] in ("Bonn", "Ulm") and 1 <= arguments["days"] <= 9, forced)
    again = messages + [forced.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    check("a tool's result", client.chat.completions.create(model="lm", messages=again, tools=[TOOL], tool_choice="none", max_tokens=4).usage.prompt_tokens
          > forced.usage.prompt_tokens - 300)
    with client.chat.completions.stream(model="lm", messages=messages, tools=[TOOL], tool_choice={"type": "function", "function": {"name": "weather"}},
                                        max_tokens=200) as stream:
        last = list(stream)[-1]
        final = stream.get_final_completion()
    check("tools, streamed", final.choices[0].message.tool_calls[0].function.name == "weather", last)

    floats = client.embeddings.create(model="lm", input=["one", "two"], encoding_format="float")
    packed = client.embeddings.create(model="lm", input=["one", "two"])  # base64, which the package asks for
    same = all(abs(a - b) < 1e-6 for one, two in zip(floats.data, packed.data) for a, b in zip(one.embedding, two.embedding))
    check("embeddings", same and abs(sum(x * x for x in floats.data[0].embedding) - 1) < 1e-5)
    line = json.loads(run("predict", "lm", "--embed", "-", "--normalize", "-p", "one", "-q"))
    check("embeddings are mlx predict's", all(abs(a - b) < 1e-6 for a, b in zip(line["embedding"], floats.data[0].embedding)))

    for name, kind, call in (("an unknown model", openai.NotFoundError, lambda: client.chat.completions.create(model="no", messages=messages)),
                             ("no messages", openai.BadRequestError, lambda: client.chat.completions.create(model="lm", messages=[])),
                             ("a long prompt", openai.BadRequestError, lambda: client.completions.create(model="lm", prompt="a" * 1200))):
        try:
            call()
            check(name, False, "no error")
        except kind as error:
            check(name, bool(error.body["message"]), error)


def others(url):
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    asked = {"model": "lm", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}], "extra_body": {"temperature": 0.0}}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check("anthropic", whole.content[0].text == text == final.content[0].text, whole)
    tools = [{"name": "weather", "input_schema": TOOL["function"]["parameters"]}]
    with client.messages.stream(**{**asked, "max_tokens": 200}, tools=tools, tool_choice={"type": "any"}) as stream:
        final = stream.get_final_message()
    check("anthropic's tools", final.stop_reason == "tool_use" and final.content[0].input["city"] in ("Bonn", "Ulm"), final)
    try:
        client.messages.create(**{**asked, "model": "no"})
        check("anthropic's errors", False)
    except anthropic.NotFoundError:
        check("anthropic's errors", True)
    theirs = ollama.Client(host=url)
    options = {"temperature": 0, "num_predict": 20}
    answer = theirs.chat(model="lm", messages=[{"role": "user", "content": "Hello"}], options=options)
    lines = "".join(part.message.content for part in theirs.chat(model="lm", messages=[{"role": "user", "content": "Hello"}], options=options, stream=True))
    check("ollama", answer.message.content == lines == whole.content[0].text, answer)
    check("ollama's generate", theirs.generate(model="lm", prompt="Hello", options=options).response == lines)
    check("ollama's list", [m.model for m in theirs.list().models] == ["lm@v1"])
    shown, listed = theirs.show("lm"), theirs.list().models[0]
    check("ollama's show", shown.details == listed.details and "completion" in shown.capabilities and "tools" in shown.capabilities
          and shown.modelinfo["general.parameter_count"] > 1000 and shown.modified_at == listed.modified_at, shown)
    vectors = openai.OpenAI(base_url=url + "/v1", api_key="none").embeddings.create(model="lm", input=["Hello", "you"], encoding_format="float")
    wanted = [each.embedding for each in vectors.data]
    made = theirs.embed(model="lm", input=["Hello", "you"])
    check("ollama's embed", [list(one) for one in made.embeddings] == wanted and made.prompt_eval_count == vectors.usage.prompt_tokens, made)
    check("ollama's embeddings", list(theirs.embeddings(model="lm", prompt="Hello").embedding) == wanted[0])
    check("ollama's embed, cut", len(theirs.embed(model="lm", input="a" * 5000).embeddings) == 1)
    try:
        theirs.embed(model="lm", input="a" * 5000, truncate=False)
        check("ollama's errors", False)
    except ollama.ResponseError as error:
        check("ollama's errors", error.status_code == 400 and "the model takes" in error.error, error)


def gone(url):
    """A client that leaves in the middle of a stream leaves its place to others at once."""
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    stream = client.completions.create(model="lm", prompt="a", max_tokens=500, n=16, stream=True)
    next(iter(stream))
    stream.close()
    begun = time.time()
    client.completions.create(model="lm", prompt="a", max_tokens=1)
    check("a client that leaves", time.time() - begun < 2, time.time() - begun)


sys.exit(main())
