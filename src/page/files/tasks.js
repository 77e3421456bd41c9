// The view of all tasks, page by page.

import {h} from './dom.js';
import {get, now} from './link.js';
import {hasEnded, isRunning, memory, span} from './words.js';
import {because, groupsOf, lastWords, ranUntil, starts, stateChip, table, taskLink, taskName, waits, warnings, when} from './parts.js';

const kPage = 50;
const kShown = {
  open: {title: 'not ended', states: ''},
  running: {title: 'running', states: 'launching,running,stopping'},
  waiting: {title: 'waiting', states: 'submitted,estimating,queued'},
  failed: {title: 'failed', states: 'failed,timed_out,out_of_memory,lost,rejected'},
  ended: {title: 'ended', states: 'succeeded,failed,cancelled,timed_out,out_of_memory,lost,rejected'},
  all: {title: 'all', states: 'all'},
};

export async function load(query) {
  const show = kShown[query.get('show')] ? query.get('show') : 'open';
  const asked = new URLSearchParams({limit: kPage});
  if (kShown[show].states) asked.set('state', kShown[show].states);
  for (const key of ['user', 'name', 'before']) if (query.get(key)) asked.set(key, query.get(key));
  const page = await get(`/v1/tasks?${asked}`);
  return {show, page, query};
}

function withQuery(query, changes) {
  const next = new URLSearchParams(query);
  for (const [key, value] of Object.entries(changes)) {
    if (value) next.set(key, value);
    else next.delete(key);
  }
  return `#/tasks?${next}`;
}

const kColumns = [
  {name: 'id', title: 'Task', kind: 'id'},
  {name: 'name', title: 'Name', kind: 'name'},
  {name: 'user', title: 'User'},
  {name: 'state', title: 'State'},
  {name: 'gpus', title: 'GPU'},
  {name: 'submitted', title: 'Submitted'},
  {name: 'time', title: 'Time'},
  {name: 'starts', title: 'Starts'},
  {name: 'memory', title: 'Memory'},
  {name: 'notes', title: 'Notes', kind: 'text'},
];

function notes(task) {
  const text = hasEnded(task.state) ? lastWords(task) : task.reason_text;
  const marks = warnings(task);
  return text || marks.length > 0 ? because(marks, text) : null;
}

// A row with the first and the last task of a group. The list shows the newest first.
function row(group) {
  const [task, last] = [group.at(-1), group[0]].sort((a, b) => a.id - b.id);
  const many = last.id !== task.id;
  const start = task.launched_ms;
  const end = isRunning(task.state) ? now() : ranUntil(task);
  return {
    key: `t${task.id}`, href: `#/task/${task.id}`,
    cells: {
      id: many ? [taskLink(task), '–', taskLink(last)] : taskLink(task),
      name: many ? `${task.name} [${task.array_index}–${last.array_index}]` : taskName(task), user: task.user,
      state: stateChip(task), gpus: task.gpu_indices.length > 0 ? task.gpu_indices.join(', ') : task.gpus === 0 ? 'none' : `${task.gpus} wanted`,
      submitted: when(task.submitted_ms), time: task.waiting_since_ms ? ['waits ', waits(task)] : start && end ? span(end - start) : '',
      starts: starts(task),
      memory: task.peak_mib > 0 ? `${memory(task.peak_mib)}${task.claim_mib ? ` of ${memory(task.claim_mib)}` : ''}`
        : task.bound_mib ? memory(task.bound_mib) : '',
      notes: notes(task),
    },
  };
}

export function draw({show, page, query}) {
  return [
    h('h1', {'data-key': 'h'}, 'Tasks'),
    h('div', {class: 'choice', 'data-key': 'choice', role: 'group', 'aria-label': 'Which tasks'},
      Object.entries(kShown).map(([key, {title}]) =>
        h('a', {href: withQuery(query, {show: key, before: ''}), 'aria-current': key === show ? 'true' : null}, title))),
    h('form', {class: 'filter', 'data-key': 'filter', 'data-form': 'tasks'},
      h('label', {}, 'User ', h('input', {name: 'user', value: query.get('user') || '', autocomplete: 'off', 'data-own': true})),
      h('label', {}, 'Name ', h('input', {name: 'name', value: query.get('name') || '', autocomplete: 'off', 'data-own': true})),
      h('button', {type: 'submit'}, 'Show')),
    h('section', {'data-key': 'list', 'aria-label': 'List'},
      table({caption: 'Tasks', columns: kColumns, rows: groupsOf(page.tasks).map(row), empty: 'No matching tasks.'})),
    h('p', {class: 'pages', 'data-key': 'pages'}, query.get('before') && h('a', {href: withQuery(query, {before: ''})}, 'newest'), ' ',
      page.next && h('a', {href: withQuery(query, {before: page.next})}, 'older')),
  ];
}

// The address for the filter in this view's form.
export function addressOf(form, query) {
  return withQuery(query, {user: form.get('user').trim(), name: form.get('name').trim(), before: ''});
}
