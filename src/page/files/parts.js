// Elements that several views share.

import {h, s} from './dom.js';
import {clock, ending, gpuState, isWaiting, localTimes, memory, moment, plural, span, stateKind, stateWord} from './words.js';
import {now} from './link.js';

export function chip(kind, text, title) {
  return h('span', {class: `chip ${kind}`, title}, text);
}

export function stateChip(task) {
  return chip(stateKind(task.state), stateWord(task.state));
}

export function taskLink(task, ...more) {
  return h('a', {href: `#/task/${task.id}`}, String(task.id), ...more);
}

// A time, "14:02", with the full date in the tooltip.
export function when(ms) {
  return h('time', {datetime: new Date(ms).toISOString(), title: moment(ms)}, clock(ms, now()));
}

// A bar of `total`. Used memory is filled, memory promised beyond that is pale, and use above the promise is red. `words`
// describes the bar to screen readers.
export function memoryBar({used, promised, foreign, total, over}, words) {
  const at = (mib) => `${Math.max(0, Math.min(100, (mib / Math.max(1, total)) * 100)).toFixed(2)}%`;
  const own = Math.max(0, used - (foreign || 0));
  const most = Math.max(used, promised);
  return s('svg', {class: 'bar', role: 'img', 'aria-label': words, width: '100%', height: 12},
    s('title', {}, words),
    s('rect', {class: 'room', width: '100%', height: 12, rx: 3}),
    most > used && s('rect', {class: 'promised', width: at(most), height: 12, rx: 3}),
    s('rect', {class: over ? 'used over' : 'used', width: at(used), height: 12, rx: 3}),
    foreign > 0 && s('rect', {class: 'foreign', x: at(own), width: at(foreign), height: 12, rx: 3}));
}

export function shareBar(share, words) {
  const width = `${((share || 0) * 100).toFixed(1)}%`;
  return s('svg', {class: 'bar', role: 'img', 'aria-label': words, width: '100%', height: 12},
    s('title', {}, words),
    s('rect', {class: 'room', width: '100%', height: 12, rx: 3}),
    s('rect', {class: 'active', width, height: 12, rx: 3}));
}

// A curve of percentages over equal spans, oldest first; -1 is a gap.
export function sparkline(values, words) {
  const high = 24;
  const y = (value) => (high - 1 - (value / 100) * (high - 2)).toFixed(1);
  let line = '';
  let area = '';
  let begun = -1;
  const close = (end) => {
    if (begun >= 0) area += `L${end} ${high}L${begun} ${high}Z`;
    begun = -1;
  };
  values.forEach((value, i) => {
    if (value < 0) {
      close(i);
      return;
    }
    const step = `${begun < 0 ? 'M' : 'L'}${i} ${y(value)}L${i + 1} ${y(value)}`;
    if (begun < 0) begun = i;
    line += step;
    area += step;
  });
  close(values.length);
  return s('svg', {class: 'spark', role: 'img', 'aria-label': words, viewBox: `0 0 ${values.length} ${high}`,
    preserveAspectRatio: 'none', width: '100%', height: high},
  s('title', {}, words), s('path', {class: 'area', d: area}), s('path', {class: 'curve', d: line}));
}

export function gpuChip(gpu) {
  const {word, kind, text} = gpuState(gpu.state);
  return chip(kind, word, text);
}

// How long a task has run, and how long it may run.
export function runTimes(task) {
  if (!task.launched_ms) return {since: null, until: null, share: null};
  const ran = now() - task.launched_ms;
  const until = task.time_limit_s ? task.launched_ms + task.time_limit_s * 1000 : null;
  return {since: ran, until, share: until ? Math.min(1, ran / (task.time_limit_s * 1000)) : null};
}

// How long the task has waited, "12 min", with the beginning in the tooltip.
export function waits(task) {
  const since = task.waiting_since_ms || task.submitted_ms;
  return h('time', {datetime: new Date(since).toISOString(), title: `since ${moment(since)}`}, span(now() - since));
}

// When the task will start, if known: "by 14:20" or "about 14:20", with the basis of that time.
export function starts(task) {
  const at = task.latest_start_ms || task.likely_start_ms;
  if (!at) return null;
  const [word, rests] = task.latest_start_ms
    ? ['by', 'at the latest, based on the time limits of the tasks ahead of it, unless a higher-priority task arrives or a GPU closes or fails']
    : ['about', 'judging by known run times'];
  return h('time', {datetime: new Date(at).toISOString(), title: `${word} ${moment(at)} ${rests}`}, `${word} ${clock(at, now())}`);
}

// Problems that an administrator or the task's user should look at.
export function warnings(task) {
  const list = [];
  if (task.over_promise_mib) list.push(chip('bad', `${memory(task.over_promise_mib)} over its promise`));
  if (task.wrong_gpus && task.wrong_gpus.length > 0)
    list.push(chip('bad', `computes on GPU ${task.wrong_gpus.join(', ')}`, 'a GPU that is not assigned to it'));
  if (task.idle_since_ms) list.push(chip('warn', `idle for ${span(now() - task.idle_since_ms)}`, 'it holds GPUs and does not use them'));
  if (task.leaves_by_ms && task.state === 'running')
    list.push(chip('warn', `leaves in ${span(Math.max(0, task.leaves_by_ms - now()))}`, 'it was asked to checkpoint because others wait for its GPUs'));
  if (task.ooms > 0) list.push(chip('warn', `ran out of memory ${task.ooms === 1 ? 'once' : `${task.ooms} times`}`));
  if (task.progress?.stalled)
    list.push(chip('warn', `no progress for ${span(now() - task.progress.changed_ms)}`, 'it holds GPUs, but the counters in its output do not change'));
  return list;
}

// The progress of the run, or else of the loop that its output shows: {share, text}.
export function progressOf({fraction, done, total, unit, epoch, ends_ms: end}) {
  const whole = (share) => `${Math.floor(share * 100)} %`;
  if (fraction !== null) return {share: fraction, text: `${whole(fraction)}${end ? `, ${span(Math.max(0, end - now()))} left` : ''}`};
  if (!total) return {share: null, text: `${done} ${unit}s`};
  const share = Math.min(1, done / total);
  return {share, text: `${whole(share)} of ${epoch !== null && unit !== 'epoch' ? `epoch ${epoch}` : `${unit}s`}`};
}

export function progressBar(progress) {
  if (!progress) return null;
  const {share, text} = progressOf(progress);
  return h('span', {class: 'measured'}, share !== null && shareBar(share, text), h('small', {}, text));
}

// A table that becomes a list of cards on a phone, so every cell has its own label.
// brief: on a phone, each task is one line with only its number, name and end.
export function table({caption, columns, rows, empty, brief}) {
  if (rows.length === 0) return h('p', {class: 'hint'}, empty);
  return h('table', {class: brief ? 'list brief' : 'list'},
    h('caption', {class: 'unseen'}, caption),
    h('thead', {}, h('tr', {}, columns.map((column) =>
      h('th', {scope: 'col', class: column.kind}, column.title)))),
    h('tbody', {}, rows.map((row) => h('tr', {'data-key': row.key, 'data-row': row.href ? true : null},
      columns.map((column) => {
        const cell = row.cells[column.name];
        const none = cell === undefined || cell === null || cell === '' || (Array.isArray(cell) && cell.length === 0);
        return h('td', {class: `${column.kind || ''}${none ? ' none' : ''}`, 'data-title': column.title}, none ? '' : cell);
      })))));
}

export const kTaskColumns = {
  running: [
    {name: 'id', title: 'Task', kind: 'id'},
    {name: 'name', title: 'Name', kind: 'name'},
    {name: 'user', title: 'User'},
    {name: 'gpus', title: 'GPU'},
    {name: 'memory', title: 'Memory', kind: 'wide'},
    {name: 'progress', title: 'Progress', kind: 'wide'},
    {name: 'since', title: 'Runs for'},
    {name: 'until', title: 'Until'},
    {name: 'notes', title: 'Notes', kind: 'text'},
  ],
  waiting: [
    {name: 'turn', title: 'Position', kind: 'turn'},
    {name: 'id', title: 'Task', kind: 'id'},
    {name: 'name', title: 'Name', kind: 'name'},
    {name: 'user', title: 'User'},
    {name: 'wants', title: 'Requests'},
    {name: 'waits', title: 'Waits for'},
    {name: 'starts', title: 'Starts'},
    {name: 'reason', title: 'Why', kind: 'text'},
  ],
  ended: [
    {name: 'id', title: 'Task', kind: 'id'},
    {name: 'name', title: 'Name', kind: 'name'},
    {name: 'user', title: 'User'},
    {name: 'state', title: 'End'},
    {name: 'when', title: 'At'},
    {name: 'ran', title: 'Ran'},
    {name: 'peak', title: 'Peak'},
    {name: 'notes', title: 'How it ended', kind: 'text'},
  ],
};

// The parameters of a sweep's task: "lr=0.1 seed=3".
export function parameterWords(task) {
  return Object.entries(task.parameters || {}).map(([name, value]) => `${name}=${value}`).join(' ');
}

export function indexedName(task) {
  return task.array_index === null || task.array_index === undefined ? task.name : `${task.name} [${task.array_index}]`;
}

export function taskName(task) {
  const words = parameterWords(task);
  return [indexedName(task), words && h('span', {class: 'soft small'}, ` ${words}`)];
}

export function runningRow(task) {
  const times = runTimes(task);
  const used = task.observed_mib;
  const promised = task.claim_mib;
  const words = `${used === null ? 'not measured yet' : `${memory(used)} used`}${promised ? ` of ${memory(promised)} promised` : ', nothing promised'}`;
  return {
    key: `t${task.id}`, href: `#/task/${task.id}`,
    cells: {
      id: taskLink(task), name: taskName(task), user: task.user,
      gpus: task.gpus === 0 ? 'none' : task.gpu_indices.length > 0 ? task.gpu_indices.join(', ') : '',
      memory: task.gpus === 0 ? '' : h('span', {class: 'measured'}, memoryBar({used: used || 0, promised, total: Math.max(promised, used || 0), over: task.over_promise_mib}, words),
        h('small', {}, promised ? `${memory(used)} of ${memory(promised)}` : memory(used))),
      progress: progressBar(task.progress),
      since: times.since === null ? stateWord(task.state) : span(times.since),
      until: times.until ? when(times.until) : '',
      notes: [task.state === 'running' ? null : stateChip(task), task.attempt > 1 && chip('', `start ${task.attempt}`), ...warnings(task)]
        .filter(Boolean),
    },
  };
}

// A long reason is cut on the screen. Its tooltip and the task's page show it in full.
export function because(chips, text) {
  const words = localTimes(text || '');
  return h('span', {class: 'because'}, chips, h('span', {class: 'why', title: words}, words));
}

function waitingRow(task, last) {
  const gpus = task.gpus === 0 ? 'no GPU' : plural(task.gpus, 'GPU');
  const many = last.id !== task.id;
  return {
    key: `t${task.id}`, href: `#/task/${task.id}`,
    cells: {
      turn: task.turn && (many ? `${task.turn}–${last.turn}` : task.turn),
      id: many ? [taskLink(task), '–', taskLink(last)] : taskLink(task),
      name: many ? `${task.name} [${task.array_index}–${last.array_index}]` : taskName(task), user: task.user,
      wants: `${gpus}${task.bound_mib ? ` · ${memory(task.bound_mib)}` : ''}${task.exclusive ? ' · alone' : ''}`,
      waits: waits(task),
      starts: starts(task),
      reason: because(task.reason && chip('waits', task.reason), task.reason_text),
    },
  };
}

// Neighbouring tasks of an array that wait for the same reason share a row.
export function waitingRows(tasks) {
  return groupsOf(tasks).map((group) => waitingRow(group[0], group.at(-1)));
}

// Groups neighbouring tasks of an array in one state. Works for ascending and descending numbers.
export function groupsOf(tasks) {
  const groups = [];
  for (const task of tasks) {
    const last = groups.at(-1)?.at(-1);
    const same = last && task.array_id !== null && task.array_id === last.array_id && Math.abs(task.id - last.id) === 1 &&
      isWaiting(task.state) && task.state === last.state && !task.turn === !last.turn && task.reason === last.reason &&
      task.reason_text === last.reason_text && parameterWords(task) === '' && parameterWords(last) === '';
    if (same) groups.at(-1).push(task);
    else groups.push([task]);
  }
  return groups;
}

export function lastWords(task) {
  return task.exit_detail || (task.state === 'succeeded' ? '' : task.reason_text);
}

// When the last attempt ended: before the task's own end if the task was requeued and then cancelled.
export function ranUntil(task) {
  return task.attempt_ended_ms || task.ended_ms;
}

export function endedRow(task) {
  return {
    key: `t${task.id}`, href: `#/task/${task.id}`,
    cells: {
      id: taskLink(task), name: taskName(task), user: task.user,
      state: [stateChip(task), ' ', ending(task)],
      when: task.ended_ms ? when(task.ended_ms) : '',
      ran: task.launched_ms && task.ended_ms ? span(ranUntil(task) - task.launched_ms) : '',
      peak: task.peak_mib > 0 ? memory(task.peak_mib) : '',
      notes: lastWords(task) && because(null, lastWords(task)),
    },
  };
}
