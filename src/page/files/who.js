// The viewer's identity, and the actions on the viewer's tasks.

import {h, match} from './dom.js';
import {get, keepToken, post, Silent, token} from './link.js';

let who = {user: '', admin: false, by: ''};

// A token never grants administrator privileges. The server decides who is an administrator.
export function mayAct(task) {
  return who.user !== '' && (who.admin || who.user === task.user);
}

export function mayRaise() {
  return who.admin;
}

// Shows a short message at the bottom of the page. It disappears by itself, and screen readers announce it.
export function tell(text) {
  const line = h('p', {}, text);
  document.getElementById('told').append(line);
  setTimeout(() => line.remove(), 6000);
}

// Shows a dialog. Resolves to the name of the pressed button, or "" if there was none.
function askFor(title, content, buttons) {
  return new Promise((resolve) => {
    const box = h('dialog', {'aria-label': title}, h('form', {method: 'dialog'}, h('h2', {}, title), content,
      h('p', {class: 'actions'}, buttons.map(({value, text, kind}) => h('button', {value, class: kind}, text)))));
    box.addEventListener('close', () => {
      const answer = box.returnValue;
      const form = new FormData(box.querySelector('form'));
      box.remove();
      resolve({answer, form});
    });
    document.body.append(box);
    box.showModal();
    // Never puts the focus on a button that ends a task, because Enter would press it.
    (box.querySelector('input') || box.querySelector('button[value=""]'))?.focus();
  });
}

export async function signIn() {
  const {answer, form} = await askFor('Act on your tasks', [
    h('p', {}, 'Create a token on the server and paste it here: ', h('code', {}, 'carma token create')),
    h('p', {class: 'soft'}, 'The browser keeps it until this tab is closed and sends it only to this server. If you have forwarded the Unix socket ' +
      'of carmad instead of a port, you need no token.'),
    h('p', {}, h('label', {}, 'Token ', h('input', {name: 'token', type: 'password', autocomplete: 'off', required: true, size: 40}))),
  ], [{value: 'in', text: 'Sign in', kind: 'strong'}, {value: '', text: 'Close'}]);
  if (answer !== 'in' || !form.get('token').trim()) return;
  keepToken(form.get('token').trim());
  await learn();
  if (who.by === 'socket') tell(`The socket identifies you as ${who.user}; no token is needed.`);
}

export async function signOut() {
  keepToken('');
  await learn();
}

// Requests the identity and shows it at the top of the page. Also called after a refusal, because the token may have
// been revoked.
export async function learn() {
  try {
    who = await get('/v1/whoami');
  } catch (error) {
    who = {user: '', admin: false, by: ''};
    // The server has rejected the token, so it is discarded.
    if (error.status === 403 && token()) {
      keepToken('');
      tell(`You are signed out: ${error.message}.`);
      who = await get('/v1/whoami').catch(() => who);
    }
  }
  const shown = who.user === '' ? [h('span', {}, 'read-only'), h('button', {type: 'button', 'data-do': 'in'}, 'Sign in')]
    : [h('span', {title: who.by === 'token' ? 'identified by a token' : 'identified by the connection'}, who.user),
      who.by === 'token' && h('button', {type: 'button', 'data-do': 'out'}, 'Sign out')];
  match(document.getElementById('who'), shown.filter(Boolean));
}

const kAsked = {
  cancel: {title: 'Cancel', text: 'If the task is running, it is stopped. It will not start again.', button: 'Cancel the task', kind: 'danger'},
  requeue: {title: 'Start again', text: 'The task is stopped and returns to the queue. It will start from the beginning.', button: 'Start it again', kind: 'danger'},
};
const kDone = {cancel: 'is cancelled', hold: 'is held', release: 'is released', requeue: 'is back in the queue', priority: 'has a new priority'};

// Returns true if the server has performed the action.
export async function act(verb, id, name, body) {
  const question = kAsked[verb];
  if (question) {
    const {answer} = await askFor(`${question.title} task ${id} ${name}?`, h('p', {}, question.text),
      [{value: 'yes', text: question.button, kind: question.kind}, {value: '', text: 'Leave it'}]);
    if (answer !== 'yes') return false;
  }
  try {
    await post(`/v1/tasks/${id}/${verb}`, body);
    tell(`Task ${id} ${kDone[verb]}.`);
    return true;
  } catch (error) {
    tell(error instanceof Silent ? 'The server does not respond. The change may or may not have been made.' : error.message);
    if (error.status === 403) await learn();
    return false;
  }
}
