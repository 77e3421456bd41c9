// Formats numbers, times and states for display.

export function memory(mib) {
  if (mib === null || mib === undefined) return '–';
  if (mib < 1024) return `${Math.round(mib)}M`;
  return `${(mib / 1024).toFixed(mib < 102400 ? 1 : 0)}G`;
}

export function percent(share) {
  return share === null || share === undefined ? '–' : `${Math.round(share * 100)} %`;
}

// A duration: 45 s, 12 min, 3 h 05 min, 2 d 4 h.
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, '0')} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const kTime = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit'});
const kDay = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});
const kWhole = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'medium'});

// A time: 14:02, with the day if it is not today.
export function clock(ms, now) {
  const when = new Date(ms);
  const time = kTime.format(when);
  return when.toDateString() === new Date(now).toDateString() ? time : `${kDay.format(when)} ${time}`;
}

const kSecond = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});

// A time with seconds: 14:02:37, with the day if it is not today.
export function exactClock(ms, now) {
  const when = new Date(ms);
  const time = kSecond.format(when);
  return when.toDateString() === new Date(now).toDateString() ? time : `${kDay.format(when)} ${time}`;
}

// Converts the UTC times in a text from the server to the viewer's clock.
export function localTimes(text) {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (iso) => kWhole.format(new Date(iso)));
}

export function moment(ms) {
  return kWhole.format(new Date(ms));
}

// The displayed word for each state, and its colour.
const kStates = {
  submitted: ['submitted', 'waits'],
  estimating: ['estimating', 'waits'],
  queued: ['waiting', 'waits'],
  launching: ['starting', 'runs'],
  running: ['running', 'runs'],
  stopping: ['stopping', 'runs'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
  cancelled: ['cancelled', 'over'],
  timed_out: ['timed out', 'bad'],
  out_of_memory: ['out of memory', 'bad'],
  lost: ['lost', 'bad'],
  rejected: ['rejected', 'bad'],
};

export function stateWord(state) {
  return (kStates[state] || [state, ''])[0];
}

export function stateKind(state) {
  return (kStates[state] || ['', ''])[1];
}

export const isWaiting = (state) => stateKind(state) === 'waits';
export const isRunning = (state) => stateKind(state) === 'runs';
export const hasEnded = (state) => !isWaiting(state) && !isRunning(state);

const kGpuStates = {
  idle: ['idle', 'good', 'nothing is running on it'],
  mix: ['shared', 'runs', 'tasks may join'],
  alloc: ['taken', 'runs', 'held by an exclusive task'],
  drng: ['closing', 'warn', 'closed to new tasks, some still running'],
  drain: ['closed', 'warn', 'closed to new tasks'],
  down: ['down', 'bad', 'not usable'],
};

export function gpuState(state) {
  const [word, kind, text] = kGpuStates[state] || [state, '', ''];
  return {word, kind, text};
}

export const kSharing = {
  alone: 'alone on its GPU',
  streams: 'time slices',
  mps: 'MPS, at the same time as others',
  mig: 'a MIG instance',
};

export function plural(count, one, many) {
  return `${count} ${count === 1 ? one : many || `${one}s`}`;
}

// How a task ended, in a few words.
export function ending(task) {
  if (task.signal) return `signal ${task.signal}`;
  if (task.exit_code !== null && task.exit_code !== undefined && task.exit_code !== 0) return `exit code ${task.exit_code}`;
  return '';
}
