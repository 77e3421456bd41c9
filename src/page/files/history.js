// The view of a time span: the GPUs, and the report of `carma report --html`, both drawn by the server.

import {h} from './dom.js';
import {now} from './link.js';

const kHour = 3_600_000;
const kSpans = {'1h': ['hour', kHour], '6h': ['6 hours', 6 * kHour], '24h': ['24 hours', 24 * kHour], '7d': ['7 days', 168 * kHour],
  '30d': ['30 days', 720 * kHour]};

const local = (ms) => {
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 16);
};

export async function load(query, known) {
  if (known && known.asked === query.toString()) return known;
  const from = Date.parse(query.get('from') || '');
  const to = Date.parse(query.get('to') || '');
  const own = !Number.isNaN(from);
  const over = own ? '' : kSpans[query.get('over')] ? query.get('over') : '24h';
  const span = {from: own ? from : Math.round(now() - kSpans[over][1]), to: own && !Number.isNaN(to) ? to : Math.round(now())};
  const tasks = new URLSearchParams({after_ms: span.from, until_ms: span.to});
  // The axes show the times of day of the viewer's clock.
  const clock = `utc_offset_min=${-new Date(span.to).getTimezoneOffset()}`;
  return {...span, over, asked: query.toString(), gpus: `/v1/gpus/history.html?from_ms=${span.from}&to_ms=${span.to}&${clock}`,
    report: `/v1/report.html?${tasks}&${clock}`, data: `/v1/report?run=1&${tasks}`};
}

export function draw({over, from, to, gpus, report, data, asked}) {
  return [
    h('h1', {'data-key': 'h'}, 'History'),
    h('div', {class: 'choice', 'data-key': 'choice', role: 'group', 'aria-label': 'Tasks submitted in the last'},
      Object.entries(kSpans).map(([key, [title]]) =>
        h('a', {href: `#/history?over=${key}`, 'aria-current': key === over ? 'true' : null}, title))),
    h('form', {class: 'filter', 'data-key': 'filter', 'data-form': 'history'},
      h('label', {}, 'From ', h('input', {type: 'datetime-local', name: 'from', value: local(from), 'data-own': true})),
      h('label', {}, 'to ', h('input', {type: 'datetime-local', name: 'to', value: local(to), 'data-own': true})),
      h('button', {type: 'submit'}, 'Show')),
    ...(from < to ? reports(gpus, report, data, asked) : [h('p', {class: 'hint', 'data-key': 'order'}, 'Choose a start before the end.')]),
  ];
}

function reports(gpus, report, data, asked) {
  return [
    h('h2', {'data-key': 'gpus'}, 'The GPUs'),
    // Must differ from the heading's key even if `asked` is empty: a frame that is moved on the page loads again.
    h('iframe', {'data-key': `gpus?${asked}`, 'data-own': true, 'data-tall': true, class: 'low', title: 'GPUs over the chosen span', src: gpus}),
    h('h2', {'data-key': 'tasks'}, 'Tasks submitted in this span'),
    h('p', {'data-key': 'links'}, h('a', {href: report, target: '_blank', rel: 'noopener'}, 'Report only'), ' (to print or save) · ',
      h('a', {href: data, target: '_blank', rel: 'noopener'}, 'as data')),
    h('iframe', {'data-key': `frame${asked}`, 'data-own': true, 'data-tall': true, title: 'Report of the tasks submitted in the chosen span', src: report}),
  ];
}

export function addressOf(form) {
  const query = new URLSearchParams({from: form.get('from')});
  if (form.get('to')) query.set('to', form.get('to'));
  return `#/history?${query}`;
}
