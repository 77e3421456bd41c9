// Sends requests to the server. The viewer is identified by the connection (a forwarded Unix socket) or by a token that
// the viewer enters, never by a cookie. The token is kept while the tab is open and is sent in the Authorization
// header.

const kTokenKey = 'carma-token';
const kAnswerMs = 5000;  // a hanging daemon or a stalled tunnel counts as no response

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// No response: the daemon is restarting, or the tunnel is closed.
export class Silent extends Error {
  constructor() {
    super('the server does not respond');
  }
}

export function token() {
  return sessionStorage.getItem(kTokenKey) || '';
}

export function keepToken(text) {
  if (text) sessionStorage.setItem(kTokenKey, text);
  else sessionStorage.removeItem(kTokenKey);
}

async function send(method, path, headers = {}, body) {
  const all = {...headers};
  if (token()) all.Authorization = `Bearer ${token()}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  try {
    return await fetch(path, {method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store',
      credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(kAnswerMs)});
  } catch {
    throw new Silent();
  }
}

async function refusal(response) {
  let error = {code: '', message: `the server responded with status ${response.status}`};
  try {
    error = (await response.json()).error;
  } catch {
    // The text comes from another program, such as a proxy.
  }
  return new Refused(response.status, error.code, error.message);
}

// Reading the body has a time limit too, because it may stall.
async function valueOf(response) {
  if (!response.ok) throw await refusal(response);
  try {
    return await response.json();
  } catch {
    throw new Silent();
  }
}

// Also limits what has no limit of its own, such as loading a script.
export function withinLimit(promise) {
  return Promise.race([promise, new Promise((_, reject) => {
    setTimeout(() => reject(new Silent()), kAnswerMs);
  })]);
}

export async function get(path) {
  return valueOf(await send('GET', path));
}

export async function post(path, body) {
  return valueOf(await send('POST', path, {}, body));
}

// A value that is requested repeatedly and often has not changed. ask() returns the value, or null if it is unchanged.
export class Changing {
  constructor(path) {
    this.path = path;
    this.etag = '';
    this.value = null;
  }

  async ask() {
    const response = await send('GET', this.path, this.etag ? {'If-None-Match': this.etag} : {});
    if (response.status === 304) return null;
    this.value = await valueOf(response);
    this.etag = response.headers.get('ETag') || '';
    return this.value;
  }
}

// The server's clock, which on a simulated server runs faster than ours.
const clock = {server_ms: Date.now(), ours_ms: performance.now(), scale: 1};

export function setClock(now_ms, scale) {
  clock.server_ms = now_ms;
  clock.ours_ms = performance.now();
  clock.scale = scale;
}

export function now() {
  return clock.server_ms + (performance.now() - clock.ours_ms) * clock.scale;
}

export function timeScale() {
  return clock.scale;
}
