// The view of users: what each user holds now, and the totals of their tasks over a span of time.

import {h} from './dom.js';
import {Changing, get, now} from './link.js';
import {memory, span} from './words.js';
import {table} from './parts.js';

const kDays = 86_400_000;
export const kSpans = {'1h': ['hour', kDays / 24], '24h': ['24 hours', kDays], '7d': ['7 days', 7 * kDays], '30d': ['30 days', 30 * kDays]};

const kRetryMs = 15_000;  // after the server could not read the records

const users = new Changing('/v1/users');

// The tasks submitted since then, by user, and the GPU hours used since then. Tasks that were submitted earlier count only in the hours.
async function pastSince(after_ms) {
  const [{groups}, {usage}] = await Promise.all([get(`/v1/report?after_ms=${after_ms}`), get(`/v1/usage?after_ms=${after_ms}`)]);
  const others = usage.filter(({user}) => !groups.some(({name}) => name === user)).map(({user}) => ({name: user, tasks: 0}));
  return {groups: [...groups, ...others], hours: new Map(usage.map(({user, gpu_s}) => [user, gpu_s / 3600]))};
}

export async function load(query, known) {
  const over = kSpans[query.get('over')] ? query.get('over') : '7d';
  await users.ask();
  // Reading the records of a month takes the server some time, so this is requested only once.
  const keep = known && known.over === over && (known.past || performance.now() - known.asked_ms < kRetryMs);
  const past = keep ? known.past : await pastSince(Math.round(now() - kSpans[over][1])).catch(() => null);
  return {over, past, asked_ms: keep ? known.asked_ms : performance.now(), users: users.value.users};
}

// A mean is null if no task has run.
const mean = (of) => of ? span(of.mean * 1000) : '';

function pastRow(group, hours) {
  return {
    key: group.name,
    cells: {
      user: h('a', {href: `#/tasks?show=all&user=${encodeURIComponent(group.name)}`}, group.name),
      tasks: String(group.tasks), hours: (hours.get(group.name) || 0).toFixed(1),
      waiting: mean(group.waiting_s), execution: mean(group.execution_s), completion: mean(group.jct_s),
      ooms: group.oom_crashes ? String(group.oom_crashes) : '',
    },
  };
}

export function draw({over, past, users: list}) {
  return [
    h('h1', {'data-key': 'h'}, 'Users'),
    h('section', {'data-key': 'now', 'aria-label': 'Now'}, h('h2', {}, 'Now'), table({
      caption: 'Users with tasks', empty: 'No user has any tasks.',
      columns: [{name: 'user', title: 'User', kind: 'name'}, {name: 'running', title: 'Running', kind: 'number'},
        {name: 'waiting', title: 'Waiting', kind: 'number'}, {name: 'gpus', title: 'On GPUs', kind: 'number'},
        {name: 'promised', title: 'Promised', kind: 'number'}],
      rows: list.map((user) => ({key: user.user, cells: {
        user: h('a', {href: `#/tasks?user=${encodeURIComponent(user.user)}`}, user.user),
        running: String(user.running), waiting: String(user.waiting), gpus: String(user.gpus), promised: memory(user.promised_mib)}})),
    })),
    h('section', {'data-key': 'past', 'aria-label': 'Past'}, h('h2', {}, 'Tasks submitted in the last'),
      h('div', {class: 'choice', role: 'group', 'aria-label': 'Span'}, Object.entries(kSpans).map(([key, [title]]) =>
        h('a', {href: `#/users?over=${key}`, 'aria-current': key === over ? 'true' : null}, title))),
      h('p', {class: 'hint'}, 'GPU hours include running and earlier tasks. Times are means over the tasks that have ended.'),
      past === null ? h('p', {class: 'hint'}, 'Not available at the moment.') : table({
        caption: 'Totals of their tasks', empty: 'Nothing was submitted.',
        columns: [{name: 'user', title: 'User', kind: 'name'}, {name: 'tasks', title: 'Tasks', kind: 'number'},
          {name: 'hours', title: 'GPU hours', kind: 'number'}, {name: 'waiting', title: 'Waited', kind: 'number'},
          {name: 'execution', title: 'Ran', kind: 'number'}, {name: 'completion', title: 'Done after', kind: 'number'},
          {name: 'ooms', title: 'Out of memory', kind: 'number'}],
        rows: past.groups.map((group) => pastRow(group, past.hours)),
      })),
  ];
}
