// Calls of the HTTP API. The token lives in this variable and nowhere else.

let token = null;
let ask = null; // async (error) => was a token given?

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.type = String(problem.type || "").replace("urn:tcld:problem:", "");
  }
  get denied() {
    return this.status === 401 || this.status === 403;
  }
}

export const setToken = (t) => { token = t || null; };
export const hasToken = () => token !== null;
export const onDenied = (f) => { ask = f; };

async function send(method, path, { body, type, signal, headers } = {}) {
  const q = { method, signal, headers: { ...headers } };
  if (token) q.headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) {
    q.headers["Content-Type"] = type || "application/json";
    q.body = type ? body : JSON.stringify(body);
  }
  let r;
  try {
    r = await fetch(path, q);
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new ApiError(0, { detail: "the server does not answer" });
  }
  if (r.ok) return r;
  const problem = await r.json().catch(() => ({}));
  const e = new ApiError(r.status, problem);
  e.retryAfter = Number(r.headers.get("Retry-After")) || 1;
  throw e;
}

// Reading in the background: a refusal is the caller's to show.
export const get = async (path, options) => (await send("GET", path, options)).json();
export const text = async (path) => (await send("GET", path)).text();

// What a person asked for: a refusal asks for a token and tries once more.
export async function act(method, path, body, options) {
  const q = { body, ...options };
  let r;
  try {
    r = await send(method, path, q);
  } catch (e) {
    if (!e.denied || !ask || !(await ask(e))) throw e;
    r = await send(method, path, q);
  }
  return r.status === 204 ? null : r.json();
}

export const hw = (name, rest = "") => `v1/hardware/${encodeURIComponent(name)}${rest}`;

// All pages of a list, up to `max` items.
export async function list(path, max = 1000) {
  const items = [];
  let cursor = null;
  do {
    const sep = path.includes("?") ? "&" : "?";
    const page = await get(path + sep + `limit=${Math.min(100, max)}` + (cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""));
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < max);
  return { items, more: cursor !== null };
}

// Server-Sent Events by fetch, since EventSource cannot send a token. Ends after "end", or when aborted; reconnects
// where it stopped.
export async function follow(path, onEvent, signal) {
  let last = null, wait = 2000;
  while (!signal.aborted) {
    try {
      const r = await send("GET", path, { signal, headers: last ? { "Last-Event-ID": last } : {} });
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          let name = "message", data = "";
          for (const line of block.split("\n")) {
            if (line.startsWith("event: ")) name = line.slice(7);
            else if (line.startsWith("data: ")) data += line.slice(6);
            else if (line.startsWith("id: ")) last = line.slice(4);
            else if (line.startsWith("retry: ")) wait = Number(line.slice(7)) || wait;
          }
          if (data) onEvent(name, JSON.parse(data));
          if (name === "end") return;
        }
      }
    } catch (e) {
      if (signal.aborted || e.denied || e.status === 404) return;
    }
    await new Promise((f) => setTimeout(f, wait));
  }
}

// Prometheus text -> name -> [{labels, value}]
export async function metrics() {
  const out = new Map();
  for (const line of (await text("metrics")).split("\n")) {
    const m = /^([a-z0-9_]+)(\{[^}]*\})? (\S+)$/.exec(line);
    if (!m) continue;
    if (!out.has(m[1])) out.set(m[1], []);
    out.get(m[1]).push({ labels: m[2] || "", value: Number(m[3]) });
  }
  return out;
}
