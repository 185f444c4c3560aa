// The page's script: asks a model as any other client does, and shows what it says as text, never as HTML. The key is
// a variable: it is gone with the page.
#include "serve/protocols/page.h"

namespace mlx::serve {

const char* const kPageScript = R"js(
'use strict';
let key = '';
const byId = id => document.getElementById(id);

function make(tag, attributes, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) out.setAttribute(name, value);
  out.append(...children);
  return out;
}

async function ask(path, body, type, signal) {
  const headers = {};
  if (key) headers.Authorization = 'Bearer ' + key;
  if (type) headers['Content-Type'] = type;
  const answer = await fetch(path, {method: body === undefined ? 'GET' : 'POST', headers, body, signal,
                                    cache: 'no-store', credentials: 'same-origin', redirect: 'error'});
  if (answer.ok) return answer;
  let why = answer.status + ' ' + answer.statusText;
  try {
    const error = (await answer.json()).error;
    why = error.message || error;
  } catch (ignored) {}
  throw new Error(why);
}

const pathOf = model => '/v2/models/' + encodeURIComponent(model.dataset.model);

// Each event of a stream, as JSON.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    waiting += value;
    for (let end; (end = waiting.indexOf('\n\n')) >= 0; waiting = waiting.slice(end + 2)) {
      const data = waiting.slice(0, end).split('\n').filter(l => l.startsWith('data: ')).map(l => l.slice(6)).join('\n');
      if (!data || data === '[DONE]') continue;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message || event.error);
      yield event;
    }
  }
}

function showOutputs(out, model, answer) {
  const named = {};
  for (const output of answer.outputs) named[output.name] = output.data;
  const labels = JSON.parse(model.dataset.labels || '[]');
  const rows = [];
  const probabilities = named.probabilities;
  if (probabilities) {
    const best = probabilities.map((p, i) => [p, labels[i] ?? String(i)]).sort((a, b) => b[0] - a[0]).slice(0, 8);
    for (const [p, label] of best)
      rows.push(make('tr', {}, make('td', {}, label), make('td', {}, (100 * p).toFixed(1) + ' %'),
                     make('td', {}, make('progress', {max: 1, value: p, 'aria-label': label}))));
  } else {
    for (const [name, data] of Object.entries(named)) {
      const text = data.length > 6 ? data.slice(0, 6).map(String).join(', ') + ' … (' + data.length + ')' : data.join(', ');
      rows.push(make('tr', {}, make('td', {}, name), make('td', {}, text)));
    }
  }
  out.replaceChildren(make('table', {class: 'answers'}, make('tbody', {}, ...rows)));
}

const asks = {
  async images(model, form, out) {
    const file = form.elements.file.files[0];
    if (!file) throw new Error('choose a file first');
    const answer = await ask(pathOf(model) + '/infer', file, file.type || form.elements.file.dataset.type);
    showOutputs(out, model, await answer.json());
  },
  async rows(model, form, out) {
    const row = {};
    for (const field of form.querySelectorAll('[data-column]'))
      row[field.dataset.column] = field.value === '' ? null : field.type === 'number' ? Number(field.value) : field.value;
    const answer = await ask(pathOf(model) + '/infer', JSON.stringify({rows: [row]}), 'application/json');
    showOutputs(out, model, await answer.json());
  },
  async text(model, form, out, signal) {
    const box = make('div', {class: 'text'});
    out.replaceChildren(box);
    const parameters = {max_tokens: Number(form.elements.tokens.value), temperature: Number(form.elements.temperature.value)};
    const body = JSON.stringify({text_input: form.elements.prompt.value, parameters});
    for await (const event of events(await ask(pathOf(model) + '/generate_stream', body, 'application/json', signal)))
      box.append(event.text_output);
  },
  async chat(model, form, out, signal) {
    model.turns = model.turns || [];
    const turns = [...model.turns, {role: 'user', content: form.elements.prompt.value}];
    const question = make('div', {class: 'text user'}, form.elements.prompt.value);
    const box = make('div', {class: 'text assistant'});
    out.append(question, box);
    const body = JSON.stringify({model: model.dataset.model, messages: turns, stream: true,
      max_tokens: Number(form.elements.tokens.value), temperature: Number(form.elements.temperature.value)});
    let said = '';
    try {
      for await (const event of events(await ask('/v1/chat/completions', body, 'application/json', signal))) {
        const piece = event.choices?.[0]?.delta?.content;
        if (piece) box.append(piece), said += piece;
      }
    } catch (error) {
      if (!said) question.remove(), box.remove();
      if (error.name !== 'AbortError') throw error;
    }
    if (!said) return;
    model.turns = [...turns, {role: 'assistant', content: said}];
    form.elements.prompt.value = '';
  },
};

function ready(model) {
  const form = model.querySelector('form');
  for (const code of model.querySelectorAll('pre')) code.textContent = code.textContent.replaceAll('$URL', location.origin);
  if (!form) return;
  const out = model.querySelector('.out'), wrong = model.querySelector('.wrong');
  const stop = form.querySelector('.stop'), go = form.querySelector('[type=submit]'), again = form.querySelector('.again');
  let running = null;
  form.hidden = false;
  if (stop) stop.onclick = () => running && running.abort();
  if (again) again.onclick = () => (model.turns = [], out.replaceChildren());
  const file = form.elements.file, preview = form.querySelector('.preview');
  if (file) file.onchange = () => {
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.hidden = !file.files[0] || !file.files[0].type.startsWith('image/');
    if (!preview.hidden) preview.src = URL.createObjectURL(file.files[0]);
  };
  form.onsubmit = async event => {
    event.preventDefault();
    running = new AbortController();
    wrong.textContent = '';
    go.disabled = true;
    if (stop) stop.hidden = false;
    try {
      await asks[model.dataset.takes](model, form, out, running.signal);
    } catch (error) {
      if (error.name !== 'AbortError') wrong.textContent = error.message;
    }
    go.disabled = false;
    if (stop) stop.hidden = true;
    figures();
  };
}

async function page() {
  return new DOMParser().parseFromString(await (await ask('/')).text(), 'text/html');
}

// The same page, of which only the figures are taken.
async function figures() {
  if (document.hidden) return;
  try {
    const now = await page();
    for (const model of document.querySelectorAll('.model'))
      for (const other of now.querySelectorAll('.model'))
        if (other.dataset.model === model.dataset.model)
          for (const part of ['.about', '.figures'])
            model.querySelector(part).replaceWith(document.adoptNode(other.querySelector(part)));
  } catch (ignored) {}  // it is tried again
}

function begin() {
  document.querySelectorAll('.model').forEach(ready);
}

const enter = byId('enter');
if (enter) {
  enter.hidden = false;
  enter.onsubmit = async event => {
    event.preventDefault();
    const wrong = enter.querySelector('.wrong');
    key = byId('key').value.trim();
    wrong.textContent = '';
    try {
      const open = await page();
      byId('key').value = '';
      document.querySelector('main').replaceWith(document.adoptNode(open.querySelector('main')));
      document.querySelector('body>header').replaceWith(document.adoptNode(open.querySelector('body>header')));
      begin();
      setInterval(figures, 5000);
    } catch (error) {
      key = '';
      wrong.textContent = error.message;
    }
  };
} else {
  setInterval(figures, 5000);
}
begin();
)js";

}  // namespace mlx::serve
