// Chooses the view, refreshes its data, and handles clicks and the keyboard.

import {h, match} from './dom.js';
import {Changing, Refused, setClock, Silent, withinLimit} from './link.js';
import * as server from './server.js';
import {exactClock, span} from './words.js';

const kPeriodMs = 1000;
const kLongestPauseMs = 15_000;
const kViews = {
  '': {name: 'server', draw: () => server.draw(overview.value)},
  task: {name: 'tasks', module: () => import('./task.js')},
  tasks: {name: 'tasks', module: () => import('./tasks.js')},
  users: {name: 'users', module: () => import('./users.js')},
  history: {name: 'history', module: () => import('./history.js')},
};

let who = null;  // who.js, once the first view is shown

const overview = new Changing('/v1/overview');
const main = document.getElementById('main');
const live = document.getElementById('live');

let place = {};       // parsed from the address
let known = null;     // data that the view has loaded
let failures = 0;     // in a row
let refused = '';     // the server's reason if the last failure was a refusal
let heard_ms = 0;     // when the server last responded
let drawn_ms = 0;     // last drawing, by the viewer's clock; 0: none yet
let timer = 0;
const shownTails = new WeakSet();
let round = 0;        // request number; responses to earlier requests are ignored

function readPlace() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, id] = path.split('/');
  return {view: kViews[view] ? view : '', id: id || '', query: new URLSearchParams(query || '')};
}

function showLink() {
  const silent = failures > 0;
  const old = drawn_ms > 0 ? ` (data from ${exactClock(drawn_ms, Date.now())})` : '';
  const trouble = refused || `no response from the server for ${span(performance.now() - heard_ms)}`;
  const text = silent ? `${trouble}; trying again${old}` : document.hidden ? 'paused' : 'live';
  match(live, [h('span', {class: `dot ${silent ? 'bad' : 'good'}`}), document.createTextNode(text)]);
}

function showHead() {
  const view = overview.value;
  match(document.getElementById('host'), [document.createTextNode(view.host)]);
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === kViews[place.view].name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const what = place.view === 'task' ? `Task ${place.id}` : server.summary(view);
  document.title = `${what} – ${view.host || 'CARMA'}`;
}

// Shows reports at full height, without scrolling inside the frame.
function fitFrames() {
  for (const frame of main.querySelectorAll('iframe[data-tall]')) {
    const page = frame.contentDocument && frame.contentDocument.documentElement;
    // Measures the body, because the document is always at least as high as the frame.
    if (page && frame.contentDocument.body) frame.height = frame.contentDocument.body.scrollHeight + 8;
  }
}

// Shows why carmad refused the report, which otherwise appears as JSON, and asks again if that may help.
function readRefusal(frame) {
  const page = frame.contentDocument;
  if (!page || page.contentType !== 'application/json') return;
  const {code, message} = JSON.parse((page.querySelector('pre') || page.body).textContent).error;
  page.body.textContent = message;
  if (code === 'unavailable') setTimeout(() => frame.isConnected && frame.contentWindow.location.reload(), kLongestPauseMs);
}

async function drawView() {
  const asked = place;
  const view = kViews[asked.view];
  if (view.draw) return view.draw();
  const module = await withinLimit(view.module());
  try {
    known = await module.load(asked.view === 'task' ? asked.id : asked.query, known);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (asked.view === 'task' && error.status < 500) return module.missing(error);
    if (known) throw error;  // what is on the screen is better than nothing
    return [h('h1', {'data-key': 'h'}, 'Not available at the moment'), h('p', {class: 'hint'}, error.message)];
  }
  return module.draw(known, overview.value);
}

async function ask() {
  const mine = ++round;
  clearTimeout(timer);
  try {
    const fresh = await overview.ask();
    if (fresh) setClock(fresh.now_ms, fresh.time_scale);
    const nodes = await drawView();
    if (mine !== round) return;
    showHead();
    // A text that was scrolled to its end remains there.
    const ends = [...main.querySelectorAll('[data-tail]')].filter((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 8);
    match(main, nodes);
    for (const box of main.querySelectorAll('[data-tail]')) {
      if (ends.includes(box) || !shownTails.has(box)) box.scrollTop = box.scrollHeight;
      shownTails.add(box);
    }
    fitFrames();
    main.dataset.shown = place.view || 'server';
    performance.mark('carma-shown');
    failures = 0;
    heard_ms = performance.now();
    drawn_ms = Date.now();
    if (!who) {
      who = await withinLimit(import('./who.js'));
      who.learn();
    }
  } catch (error) {
    if (mine !== round) return;
    failures += 1;
    refused = error instanceof Refused ? error.message : '';
    if (!(error instanceof Silent || error instanceof Refused)) console.error(error);
  }
  showLink();
  const pause = failures === 0 ? kPeriodMs : Math.min(kLongestPauseMs, kPeriodMs * 2 ** failures);
  if (!document.hidden) timer = setTimeout(ask, pause);
}

function goTo() {
  const before = place;
  place = readPlace();
  const same = before.view === place.view && before.id === place.id;
  if (!same) {
    known = null;
    delete main.dataset.shown;
    window.scrollTo(0, 0);
  }
  ask();
}

// ---- the keyboard ----

const kKeys = [
  ['1 2 3 4', 'Server, Tasks, Users, History'],
  ['j k', 'next and previous task in a list'],
  ['Enter', 'open the task'],
  ['/', 'go to the task filter'],
  ['?', 'these keys'],
  ['Esc', 'back, or close'],
];

function showKeys() {
  const open = document.getElementById('keys');
  if (open) return open.remove();
  const box = h('dialog', {id: 'keys', 'aria-label': 'Keys'}, h('h2', {}, 'Keys'),
    h('dl', {}, kKeys.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])),
    h('form', {method: 'dialog'}, h('button', {}, 'Close')));
  box.addEventListener('close', () => box.remove());
  document.body.append(box);
  box.showModal();
}

function moveRow(step) {
  const links = [...main.querySelectorAll('tr[data-row] td.id a')];
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + step));
  links[next].focus();
  links[next].scrollIntoView({block: 'nearest'});
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches('input, textarea, select') || document.querySelector('dialog[open]')) return;
  const views = {1: '#/', 2: '#/tasks', 3: '#/users', 4: '#/history'};
  if (views[event.key]) location.hash = views[event.key];
  else if (event.key === 'j') moveRow(1);
  else if (event.key === 'k') moveRow(-1);
  else if (event.key === '?') showKeys();
  else if (event.key === 'Escape' && place.view === 'task') history.back();
  else if (event.key === '/') {
    location.hash = '#/tasks';
    setTimeout(() => main.querySelector('input')?.focus(), 100);
  } else return;
  event.preventDefault();
}

// ---- clicks ----

document.getElementById('who').addEventListener('click', async (event) => {
  const what = event.target.dataset.do;
  if (what === 'in') await who.signIn();
  else if (what === 'out') await who.signOut();
  else return;
  known = null;
  ask();
});

main.addEventListener('click', async (event) => {
  const {act, task, name} = event.target.dataset;
  if (act) {
    if (await who.act(act, task, name)) ask();
    return;
  }
  const row = event.target.closest('tr[data-row]');
  // A click anywhere in the row opens the task, unless it selects text.
  if (row && !event.target.closest('a, button') && String(getSelection()) === '') row.querySelector('td.id a').click();
});

main.addEventListener('submit', async (event) => {
  event.preventDefault();
  const view = event.target.dataset.form;
  const form = new FormData(event.target);
  if (view === 'priority') {
    const {task, name} = event.target.dataset;
    if (await who.act('priority', task, name, {priority: Number(form.get('priority'))})) ask();
    return;
  }
  if (!view) return;
  const module = await kViews[view].module();
  location.hash = module.addressOf(form, place.query);
});

main.addEventListener('load', (event) => {
  if (event.target.nodeName === 'IFRAME') readRefusal(event.target);
  fitFrames();
}, true);
addEventListener('resize', fitFrames);

document.addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) ask();
  else clearTimeout(timer);
  showLink();
});
addEventListener('hashchange', goTo);
setInterval(() => failures > 0 && showLink(), kPeriodMs);
goTo();
