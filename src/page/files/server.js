// The overview of the server: figures, GPUs, running tasks, waiting tasks with reasons, ended tasks.

import {h, s} from './dom.js';
import {localTimes, memory, percent, plural, span} from './words.js';
import {now} from './link.js';
import {chip, endedRow, gpuChip, indexedName, kTaskColumns, memoryBar, parameterWords, runningRow, shareBar, sparkline, table, taskLink, waitingRows, when} from './parts.js';

const kWaiting = ['submitted', 'estimating', 'queued'];
const kRunning = ['launching', 'running', 'stopping'];

const sum = (list, value) => list.reduce((all, each) => all + (value(each) || 0), 0);
const counted = (view, states) => sum(states, (state) => view.task_counts[state]);

function figure(value, unit, text) {
  return h('div', {class: 'figure'}, h('strong', {}, value, unit && h('small', {}, ` ${unit}`)), h('span', {}, text));
}

function figures(view) {
  const whole = view.gpus;
  const busy = whole.filter((gpu) => gpu.tasks.length > 0).length;
  const known = whole.filter((gpu) => gpu.sm_active !== null);
  const total = sum(whole, (gpu) => gpu.total_mib);
  const power = sum(whole, (gpu) => gpu.power_w);
  return h('section', {class: 'figures', 'aria-label': 'Totals'},
    figure(`${busy}`, `of ${whole.length}`, 'GPUs have tasks'),
    figure(known.length > 0 ? percent(sum(known, (gpu) => gpu.sm_active) / known.length) : '–', '', 'SM activity, mean'),
    figure(memory(sum(whole, (gpu) => gpu.used_mib)), `of ${memory(total)}`,
      `memory used, ${memory(sum(whole, (gpu) => gpu.promised_mib))} promised`),
    figure(String(counted(view, kRunning)), '', 'tasks running'),
    figure(String(counted(view, kWaiting)), '', 'tasks waiting'),
    figure(power >= 10000 ? (power / 1000).toFixed(1) : String(Math.round(power)), power >= 10000 ? 'kW' : 'W', 'power, all GPUs'));
}

function resident(task, gpu, rows) {
  const row = rows.get(task.id);
  const words = `task ${task.id}: ${memory(task.observed_mib)} used of ${memory(task.promised_mib)} promised`;
  return h('li', {'data-key': `t${task.id}`},
    h('span', {class: 'line'}, taskLink(task, ' ', h('span', {class: 'name'}, row ? indexedName(row) : task.name)), h('span', {class: 'soft'}, task.user)),
    row && parameterWords(row) && h('span', {class: 'soft values'}, parameterWords(row)),
    memoryBar({used: task.observed_mib, promised: task.promised_mib, total: gpu.total_mib}, words),
    h('span', {class: 'line soft'}, h('span', {}, `${memory(task.observed_mib)} of ${memory(task.promised_mib)}`),
      h('span', {}, task.sm_active === null ? '' : `${task.sm_active_by === 'alone' ? '' : '~'}${percent(task.sm_active)} SM`)),
    task.idle_since_ms && chip('warn', `idle for ${span(now() - task.idle_since_ms)}`));
}

// The program's name without its folder.
function programOf({command}) {
  return command ? command.replace(/^((?:MPS server|display): )?\S*\//, '$1') : 'a hidden process';
}

function stranger(process) {
  const used = process.used_mib === null ? '' : memory(process.used_mib);
  return h('li', {'data-key': `p${process.pid}`, class: 'stranger'},
    h('span', {class: 'line'}, h('span', {}, h('span', {class: 'name', title: process.command}, programOf(process)), ` (pid ${process.pid})`),
      h('span', {class: 'soft'}, process.user)),
    h('span', {class: 'line soft'}, h('span', {}, 'not a CARMA task'), h('span', {}, used)));
}

const kShownReservations = 3;

function reservation({id, whom, why, from_ms, to_ms, holds}) {
  return h('p', {class: 'hint small', 'data-key': `r${id}-${from_ms}`}, 'reserved for ', h('strong', {}, whom), holds ? ' until ' : ' from ',
    when(holds ? to_ms : from_ms), !holds && [' to ', when(to_ms)], why && ` (${why})`);
}

function card(gpu, rows) {
  const promised = Math.max(0, gpu.promised_mib);
  const words = `${memory(gpu.used_mib)} used and ${memory(promised)} promised of ${memory(gpu.total_mib)}` +
    (gpu.foreign_mib > 0 ? `, ${memory(gpu.foreign_mib)} of that by other processes` : '');
  const activity = gpu.sm_active === null ? 'SM activity unknown' : `SM activity ${percent(gpu.sm_active)}`;
  return h('article', {class: 'gpu', 'data-key': gpu.uuid, 'aria-labelledby': `gpu${gpu.index}`},
    h('div', {class: 'line'}, h('h3', {id: `gpu${gpu.index}`}, `GPU ${gpu.index}`), gpuChip(gpu)),
    h('p', {class: 'soft model', title: gpu.uuid}, gpu.name.replace(/^NVIDIA /, ''), gpu.mig_profile && ` · ${gpu.mig_profile}`),
    gpu.trouble && h('p', {class: 'trouble'}, localTimes(gpu.trouble)),
    gpu.alerts.map((alert) => h('p', {class: 'trouble'}, alert)),
    gpu.reserved.slice(0, kShownReservations).map(reservation),
    h('div', {class: 'line small'}, h('span', {}, 'Memory'), h('span', {}, `${memory(gpu.used_mib)} of ${memory(gpu.total_mib)}`)),
    memoryBar({used: gpu.used_mib, promised, foreign: gpu.foreign_mib, total: gpu.total_mib}, words),
    h('div', {class: 'line small'}, h('span', {}, 'SM activity'), h('span', {}, percent(gpu.sm_active))),
    shareBar(gpu.sm_active, activity),
    sparkline(gpu.recent, `SM activity of the last 15 minutes, now ${percent(gpu.sm_active_now)}`),
    h('div', {class: 'line soft small'},
      h('span', {}, promised > 0 ? `${memory(promised)} promised` : 'nothing promised'),
      h('span', {}, [gpu.power_w === null ? '' : `${gpu.power_w} W`, gpu.temperature_c === null ? '' : `${gpu.temperature_c} °C`]
        .filter(Boolean).join(' · '))),
    gpu.state === 'drain' ? h('p', {class: 'soft small'}, 'not sampled while it is drained')
      : gpu.read_ms && h('p', {class: 'trouble'}, `last read ${span(now() - gpu.read_ms)} ago`),
    (gpu.tasks.length > 0 || gpu.foreign.length > 0) &&
      h('ul', {class: 'residents'}, gpu.tasks.map((task) => resident(task, gpu, rows)), gpu.foreign.map(stranger)));
}

function key() {
  const swatch = (kind) => s('svg', {class: 'bar', 'aria-hidden': 'true'}, s('rect', {class: kind, width: 18, height: 9, rx: 2}));
  return h('div', {class: 'key'}, h('span', {}, swatch('used'), 'used'), h('span', {}, swatch('promised'), 'promised'),
    h('span', {}, swatch('foreign'), 'used by other processes'), h('span', {}, swatch('active'), 'SM activity, 15 min'));
}

function heading(text, count, shown, href) {
  const more = count > shown && h('a', {href}, `all ${count}`);
  return h('h2', {}, text, ' ', h('span', {class: 'soft'}, String(count)), ' ', more);
}

function troubles(view) {
  const list = [...view.troubles];
  if (view.starting) list.unshift('carmad has just started and is detecting GPUs');
  if (list.length === 0) return null;
  return h('section', {class: 'troubles', 'aria-label': 'Problems'}, h('ul', {}, list.map((text) => h('li', {}, localTimes(text)))));
}

export function draw(view) {
  const running = counted(view, kRunning);
  const waiting = counted(view, kWaiting);
  const rows = new Map(view.running.map((task) => [task.id, task]));
  return [
    h('h1', {class: 'unseen', 'data-key': 'h'}, 'The server at a glance'),
    troubles(view),
    figures(view),
    h('section', {'data-key': 'gpus', 'aria-label': 'GPUs'}, h('div', {class: 'between'}, h('h2', {}, 'GPUs'), key()),
      view.gpus.length === 0 ? h('p', {class: 'hint'}, view.starting ? 'carmad is still detecting them' : `none: ${view.driver}`)
        : h('div', {class: 'gpus'}, view.gpus.map((gpu) => card(gpu, rows)))),
    h('section', {'data-key': 'running', 'aria-label': 'Running tasks'}, heading('Running', running, view.running.length, '#/tasks?show=running'),
      table({caption: 'Running tasks', columns: kTaskColumns.running, rows: view.running.map(runningRow), empty: 'Nothing is running.'})),
    h('section', {'data-key': 'waiting', 'aria-label': 'Waiting tasks'}, heading('Waiting', waiting, view.waiting.length, '#/tasks?show=waiting'),
      table({caption: 'Waiting tasks', columns: kTaskColumns.waiting, rows: waitingRows(view.waiting), empty: 'Nothing is waiting.'})),
    h('section', {'data-key': 'ended', 'aria-label': 'Ended tasks'}, h('h2', {}, 'Ended ', h('a', {href: '#/tasks?show=ended'}, 'all')),
      table({caption: 'Tasks that have ended', columns: kTaskColumns.ended, rows: view.ended.map(endedRow), empty: 'Nothing has ended yet.', brief: true})),
    h('footer', {'data-key': 'rules'}, h('p', {}, h('strong', {}, 'Rules: '), view.policy), h('p', {}, h('strong', {}, 'Sharing: '), view.collocation),
      h('p', {}, `CARMA ${view.version}`, view.simulated && ` · simulated GPUs${view.time_scale === 1 ? '' : `, their clock runs ${Math.round(view.time_scale)} times as fast as real time`}`)),
  ].filter(Boolean);
}

// A line for the title and for screen readers.
export function summary(view) {
  return `${plural(counted(view, kRunning), 'task')} running, ${counted(view, kWaiting)} waiting`;
}
