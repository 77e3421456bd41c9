// The view of one task: its history, promised and measured memory, neighbours, reason for waiting, last output.

import {h} from './dom.js';
import {ending, exactClock, hasEnded, isRunning, isWaiting, kSharing, localTimes, memory, moment, percent, plural, span} from './words.js';
import {get, now, Refused} from './link.js';
import {learn, mayAct, mayRaise} from './who.js';
import {chip, memoryBar, parameterWords, progressOf, ranUntil, runTimes, stateChip, taskLink, waits, warnings, when} from './parts.js';

const kMostEvents = 200;
const kOutputEveryMs = 3000;

// Shows the last lines of the task's output, if the viewer may see them.
async function output(task, known) {
  if (!mayAct(task)) return null;
  const fresh = known && known.output && performance.now() - known.output.asked < kOutputEveryMs;
  if (fresh) return known.output;
  if (task.attempt === 0) return {asked: performance.now(), ends: []};
  const streams = task.stderr_path === task.stdout_path ? ['stdout'] : ['stdout', 'stderr'];
  const ends = await Promise.all(streams.map((stream) => get(`/v1/tasks/${task.id}/output?stream=${stream}`)
    .then((end) => ({stream, ...end}), (error) => ({stream, trouble: error.message, status: error.status}))));
  if (ends.some((end) => end.status === 403)) await learn();
  return {asked: performance.now(), ends};
}

// Everything about the task that is not in the overview. Requested again until the task has ended.
export async function load(id, known) {
  // Once its last lines have been read, an ended task no longer changes.
  if (known && known.settled && (known.output || !mayAct(known.task))) return known;
  const explained = await get(`/v1/tasks/${id}/explain`);
  const changed = !known || known.task.state !== explained.task.state || known.task.attempt !== explained.task.attempt ||
    known.task.reason !== explained.task.reason;
  const events = changed ? (await get(`/v1/events?task=${id}&limit=${kMostEvents}`)).events : known.events;
  const settled = hasEnded(explained.task.state);
  return {task: explained.task, explained, events, settled, output: await output(explained.task, settled ? null : known)};
}

function fact(title, ...value) {
  const shown = value.flat().filter((each) => each !== null && each !== undefined && each !== '' && each !== false);
  return shown.length === 0 ? null : [h('dt', {}, title), h('dd', {}, shown)];
}

// The command as typed in a shell. A command given as a single string is already a shell line.
function asTyped(words) {
  const quoted = (word) => (/^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
  return words.length === 1 ? words[0] : words.map(quoted).join(' ');
}

function promiseText(task) {
  if (!task.claim_mib) return 'requested memory';
  return task.others_claim_mib ? `reserved for it on its first GPU; ${memory(task.others_claim_mib)} on each other GPU` : 'reserved for it on each GPU';
}

function memoryFigures(task) {
  const rows = [
    ['Predicted', task.predicted_mib, task.estimate_method && (task.estimate_method === 'given' ? 'stated at submission' : `by ${task.estimate_method}`)],
    ['Promised', task.claim_mib || task.bound_mib, promiseText(task)],
    ['Enforced', task.group_limit_mib || task.memory_limit_mib || null,
      task.group_limit_mib ? 'limit of all its processes together (kernel)' : 'limit of each of its processes (MPS)'],
    ['Used now', isRunning(task.state) ? task.observed_mib : null, 'on its fullest GPU'],
    ['Peak', task.peak_mib || null, 'highest on any GPU in any attempt'],
  ].filter(([, value]) => value !== null && value !== undefined && value !== 0);
  if (rows.length === 0) return h('p', {class: 'hint'}, task.gpus === 0 ? 'It uses no GPU.' : 'Its memory use is not known yet.');
  const total = Math.max(...rows.map(([, value]) => value));
  return h('table', {class: 'bars'}, h('caption', {class: 'unseen'}, 'Memory of each GPU'),
    h('tbody', {}, rows.map(([title, value, text]) => {
      const measured = title === 'Used now' || title === 'Peak';
      return h('tr', {'data-key': title}, h('th', {scope: 'row'}, title),
        h('td', {class: 'wide'}, memoryBar({used: measured ? value : 0, promised: measured ? 0 : value, total}, `${title}: ${memory(value)}`)),
        h('td', {class: 'number'}, memory(value)), h('td', {class: 'soft'}, text));
    })));
}

function neighbours(task, view) {
  if (!isRunning(task.state) || task.gpus === 0) return null;
  const gpus = view.gpus.filter((gpu) => task.gpu_indices.includes(gpu.index));
  const others = gpus.flatMap((gpu) => gpu.tasks.filter((other) => other.id !== task.id).map((other) => ({gpu, other})));
  const foreign = gpus.flatMap((gpu) => gpu.foreign.map((process) => ({gpu, process})));
  return h('section', {'data-key': 'beside', 'aria-label': 'Neighbours'}, h('h2', {}, 'Neighbours'),
    others.length + foreign.length === 0 ? h('p', {class: 'hint'}, 'None: it has its GPUs to itself.') : h('ul', {class: 'plain'},
      others.map(({gpu, other}) => h('li', {'data-key': `t${gpu.index}-${other.id}`}, `GPU ${gpu.index}: `, taskLink(other, ` ${other.name}`),
        ` of ${other.user}, ${memory(other.observed_mib)} of ${memory(other.promised_mib)}`,
        other.sm_active === null ? '' : `, ${percent(other.sm_active)} SM`)),
      foreign.map(({gpu, process}) => h('li', {'data-key': `p${gpu.index}-${process.pid}`},
        `GPU ${gpu.index}: ${process.command || 'a hidden process'} of ${process.user || 'an unknown user'}, not a CARMA task`))));
}

// The CPUs and host memory that the task requests, and how much is free.
function hostWords({fit, wants_cpus: cpus, wants_memory_mib: mib, ...left}) {
  const words = [cpus > 0 && `${plural(cpus, 'CPU')} (${left.free_cpus} of ${left.cpus} free)`,
    mib > 0 && `${memory(mib)} of memory (${memory(left.free_memory_mib)} of ${memory(left.memory_mib)} free)`].filter(Boolean);
  return fit === '' || words.length === 0 ? null : words.join(' and ');
}

// The expected start with its basis; empty if nothing is known.
function startWords(task) {
  const {latest_start_ms: latest, likely_start_ms: likely} = task;
  const about = likely && (!latest || likely + 60_000 < latest);
  return [
    latest && h('p', {'data-key': 'latest'}, 'It will start by ', when(latest), ' at the latest, when the tasks ahead of it have reached their time limits. A task with ' +
      'higher priority or a GPU that closes or fails may delay it.'),
    about && h('p', {'data-key': 'likely'}, 'It will probably start at about ', when(likely), ', judging by known run times.'),
  ];
}

// Groups GPUs that have the same figures and, apart from GPU numbers, the same sentence. Each group is one row.
function alike(gpus) {
  const groups = new Map();
  for (const gpu of gpus) {
    const key = [gpu.fit, gpu.used_mib, gpu.promised_mib, gpu.reason_text.replaceAll(`GPU ${gpu.gpu}`, 'GPU')].join('|');
    if (groups.has(key)) groups.get(key)[1].push(gpu.gpu);
    else groups.set(key, [gpu, [gpu.gpu]]);
  }
  return [...groups.values()];
}

function verdicts({task, explained}) {
  if (!isWaiting(task.state)) return null;
  const host = hostWords(explained.host);
  return h('section', {'data-key': 'why', 'aria-label': 'Why it waits'}, h('h2', {}, 'Why it waits'),
    h('p', {}, task.reason && chip('waits', task.reason), ' ', localTimes(task.reason_text)),
    explained.ahead !== null && h('p', {class: 'soft'}, explained.ahead === 0 ? 'It is first in its queue.'
      : `${plural(explained.ahead, 'task')} ahead of it.`),
    startWords(task),
    host !== null && h('p', {class: 'soft'}, `It also needs ${host}.`),
    explained.gpus.length > 0 && h('table', {class: 'list'}, h('caption', {class: 'unseen'}, 'Verdict for each GPU'),
      h('thead', {}, h('tr', {}, ['GPU', 'Verdict', 'Used', 'Promised', 'Why'].map((title) => h('th', {scope: 'col'}, title)))),
      h('tbody', {}, alike(explained.gpus).map(([gpu, names]) => h('tr', {'data-key': `g${gpu.gpu}`},
        h('td', {'data-title': 'GPU', class: 'id'}, `GPU ${names.join(', ')}`),
        h('td', {'data-title': 'Verdict'}, chip(gpu.fit === 'fits' ? 'good' : gpu.fit === 'never' ? 'bad' : 'waits',
          {fits: 'could take it', not_now: 'not now', never: 'never'}[gpu.fit])),
        h('td', {'data-title': 'Used'}, memory(gpu.used_mib)), h('td', {'data-title': 'Promised'}, memory(gpu.promised_mib)),
        h('td', {'data-title': 'Why', class: gpu.reason_text ? 'text' : 'none'}, localTimes(names.length > 1 ? gpu.reason_text.replaceAll(`GPU ${gpu.gpu}`, 'each GPU') : gpu.reason_text)))))));
}

function life({task, events}) {
  return h('section', {'data-key': 'life', 'aria-label': 'History'}, h('h2', {}, 'History'),
    h('ol', {class: 'life'}, events.map((event) => h('li', {'data-key': `e${event.sequence}`, class: event.what},
      h('time', {datetime: new Date(event.when_ms).toISOString(), title: moment(event.when_ms)}, exactClock(event.when_ms, now())),
      h('span', {}, h('strong', {}, event.what.replaceAll('_', ' ')), ' ', localTimes(event.text))))),
    task.attempt > 1 && h('p', {class: 'soft'}, `${plural(task.attempt, 'start')}, ran out of GPU memory ${plural(task.ooms, 'time')}`));
}

function actions(task) {
  if (!mayAct(task)) return null;
  const button = (act, text, kind) => h('button', {type: 'button', class: kind, 'data-act': act, 'data-task': task.id, 'data-name': task.name}, text);
  const held = task.reason === 'Held';
  return h('div', {class: 'actions', 'data-key': 'actions', role: 'group', 'aria-label': 'Actions'},
    isWaiting(task.state) && (held ? button('release', 'Release', 'strong') : button('hold', 'Hold')),
    !isWaiting(task.state) && task.attempt > 0 && task.state !== 'stopping' && button('requeue', hasEnded(task.state) ? 'Requeue' : 'Start again'),
    !hasEnded(task.state) && button('cancel', 'Cancel', 'danger'),
    isWaiting(task.state) && h('form', {'data-form': 'priority', 'data-task': task.id, 'data-name': task.name},
      h('label', {}, 'Priority ', h('input', {type: 'number', name: 'priority', value: task.priority, max: mayRaise() ? null : 0, required: true, 'data-own': true})),
      ' ', h('button', {type: 'submit'}, 'Set')));
}

function lastLines({task, output: written}) {
  if (!written) {
    return h('section', {'data-key': 'output', 'aria-label': 'Output'}, h('h2', {}, 'Output'),
      h('p', {class: 'hint'}, `Only ${task.user} and administrators can read it: `, h('code', {}, `carma logs ${task.id}`)));
  }
  return h('section', {'data-key': 'output', 'aria-label': 'Output'}, h('h2', {}, 'Output'),
    written.ends.length === 0 && h('p', {class: 'hint'}, 'It has not started yet.'), written.ends.map((end) => [
    written.ends.length > 1 && h('h3', {}, end.stream),
    end.trouble ? h('p', {class: 'hint'}, end.trouble)
      : end.text === '' ? h('p', {class: 'hint'}, 'nothing yet')
        : h('pre', {class: 'log', 'data-key': end.stream, 'data-tail': true, tabindex: 0, role: 'log', 'aria-label': `The end of ${end.stream}`},
          end.from > 0 ? `… ${end.from} bytes omitted\n` : '', end.text),
  ]));
}

function facts(task) {
  const times = runTimes(task);
  return h('dl', {class: 'facts', 'data-key': 'facts'},
    fact('User', task.user),
    fact('Command', h('code', {}, asTyped(task.command))),
    fact('Folder', h('code', {}, task.workdir)),
    fact('GPUs', task.gpu_indices.length > 0 ? `${task.gpu_indices.join(', ')} (${plural(task.gpus, 'GPU')} wanted${task.exclusive ? ', alone' : ''})`
      : task.gpus === 0 ? 'none' : `${plural(task.gpus, 'GPU')} wanted${task.exclusive ? ', alone' : ''}`),
    fact('CPUs', task.cpus, task.own_cores && `, dedicated (${task.own_cores})`),
    fact('Host memory', task.host_memory_mib && memory(task.host_memory_mib)),
    fact('Not enforced', task.host_note),
    fact('Origin', task.origin === 'lease' && 'lease: carmad did not start its process'),
    fact('Sharing', kSharing[task.sharing], task.sharing_note && ` (${task.sharing_note})`,
      task.thread_percent > 0 && `, at most ${task.thread_percent} % of the SMs`,
      task.partition_sms > 0 && `, ${task.partition_sms} dedicated SMs`),
    fact('Submitted', when(task.submitted_ms), isWaiting(task.state) && `, ${span(now() - task.submitted_ms)} ago`),
    fact('Waiting since', task.waiting_since_ms && task.waiting_since_ms !== task.submitted_ms && [when(task.waiting_since_ms), ', ', waits(task)]),
    fact('Started', task.launched_ms && when(task.launched_ms), task.launched_ms && isRunning(task.state) && `, ${span(times.since)} ago`),
    fact('Until', times.until && isRunning(task.state) && [when(times.until), ' at the latest (time limit)']),
    fact('Progress', task.progress && [progressOf(task.progress).text, task.progress.phase === 'eval' && ', evaluation',
      task.progress.rate_per_s && `, ${Number(task.progress.rate_per_s.toPrecision(3))} ${task.progress.unit}s per second`,
      task.progress.loss !== null && `, loss ${Number(task.progress.loss.toPrecision(4))}`]),
    fact('Ended', task.ended_ms && when(task.ended_ms), task.ended_ms && task.launched_ms && `, ran ${span(ranUntil(task) - task.launched_ms)}`),
    fact('Result', hasEnded(task.state) && (ending(task) || (task.exit_code === 0 ? 'exit code 0' : ''))),
    fact('Last end', task.exit_detail && h('code', {}, task.exit_detail)),
    fact('Reason', hasEnded(task.state) && localTimes(task.reason_text)),
    fact('Chosen because', task.placement_reason),
    fact('Priority', task.priority !== 0 && String(task.priority)),
    fact('Array', task.array_id && `${task.array_id}, index ${task.array_index}`),
    fact('Parameters', parameterWords(task) && h('code', {}, parameterWords(task))),
    fact('Container', task.container && h('code', {}, task.container)),
    fact('Output', h('code', {}, task.stdout_path), task.stderr_path !== task.stdout_path && [h('br'), h('code', {}, task.stderr_path)]),
    fact('Remarks', task.estimate_remarks.join(' ')),
    fact('Comment', task.comment));
}

export function draw(known, view) {
  const {task} = known;
  return [
    h('p', {class: 'path', 'data-key': 'path'}, h('a', {href: '#/'}, 'Server'), ' / ', h('a', {href: '#/tasks'}, 'Tasks')),
    h('div', {class: 'title', 'data-key': 'title'}, h('h1', {}, `${task.id} ${task.name}`), stateChip(task), ...warnings(task)),
    actions(task),
    facts(task),
    h('section', {'data-key': 'memory', 'aria-label': 'Memory'}, h('h2', {}, 'Memory, promised and measured'), memoryFigures(task)),
    verdicts(known),
    neighbours(task, view),
    life(known),
    lastLines(known),
  ].filter(Boolean);
}

export function missing(error) {
  const text = error instanceof Refused ? error.message : 'The server is not responding.';
  return [h('p', {class: 'path'}, h('a', {href: '#/tasks'}, 'Tasks')), h('h1', {}, 'No such task'), h('p', {}, text)];
}
