// Import of log files. A file is read as a stream (unpacked when it is gzip), cut at line ends into parts that stay
// below the server's limit, and posted part by part: what was posted is stored, so that a broken import is simply
// started again and finds duplicates.
import { act, hw } from "./api.js";
import { h, bytes, count, toast } from "./dom.js";

const PART = 4 << 20;
const SHOWN = 50; // errors that are listed

async function isGzip(file) {
  const b = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return b[0] === 0x1f && b[1] === 0x8b;
}

function lines(part) {
  let n = 0;
  for (let i = part.indexOf(10); i >= 0; i = part.indexOf(10, i + 1)) n++;
  return n;
}

const join = (list) => {
  const out = new Uint8Array(list.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of list) {
    out.set(p, at);
    at += p.length;
  }
  return out;
};

// Yields {part, line, read}: whole lines, the number of the first of them (from 0), bytes of the file read so far.
async function* parts(file) {
  let read = 0;
  let stream = file.stream().pipeThrough(new TransformStream({
    transform(chunk, out) {
      read += chunk.length;
      out.enqueue(chunk);
    },
  }));
  if (await isGzip(file)) stream = stream.pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  const next = () => reader.read().catch(() => { throw new Error(`${file.name} cannot be read to its end; if it is several gzip files in one, unpack it first`); });
  let held = [], size = 0, line = 0;
  for (;;) {
    const { value, done } = await next();
    if (value) {
      held.push(value);
      size += value.length;
    }
    const end = value ? value.lastIndexOf(10) : -1;
    if (done ? size > 0 : size >= PART && end >= 0) {
      const all = join(held), cut = done ? all.length : all.length - (value.length - end - 1);
      const part = all.subarray(0, cut);
      yield { part, line, read };
      line += lines(part);
      held = [all.subarray(cut)];
      size = all.length - cut;
    }
    if (done) return;
  }
}

// Waits as long as an overloaded server asks for, a few times.
async function post(path, part) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await act("POST", path, part, { type: "application/x-ndjson" });
    } catch (e) {
      if (e.type === "no-records") return { accepted: 0, duplicates: 0, rejected: 0, errors: [] };
      if (![0, 429, 503].includes(e.status) || attempt === 4) throw e;
      await new Promise((f) => setTimeout(f, 1000 * (e.retryAfter || 2 ** attempt)));
    }
  }
}

export function uploadForm(name, onDone) {
  const files = h("input", { type: "file", id: "log-files", multiple: true, required: true, accept: ".json,.log,.ndjson,.jsonl,.txt,.gz" });
  const what = h("select", { id: "log-kind" },
    h("option", { value: "measurements" }, "Measured programs (a tuning log)"),
    h("option", { value: "candidates" }, "Programs to be measured (candidates)"));
  const button = h("button", { type: "submit", class: "primary" }, "Import");
  const bar = h("progress", { max: "1", value: 0, "aria-label": "Import", hidden: true });
  const status = h("p", { class: "digits", role: "status" });
  const errors = h("div", {});
  const form = h("form", { class: "row", onsubmit: run },
    h("label", { for: "log-files" }, "Log files"), files, h("label", { for: "log-kind" }, "They hold"), what, button, bar);
  const el = h("section", { class: "card", "aria-labelledby": "import-title" },
    h("h2", { id: "import-title" }, "Import a log"),
    h("p", { class: "note" }, "TVM auto_scheduler (Ansor) logs as they are, one record a line, also gzipped. Importing a file twice stores nothing twice."),
    form, status, errors);

  async function run(event) {
    event.preventDefault();
    const chosen = [...files.files], total = chosen.reduce((n, f) => n + f.size, 0) || 1;
    const sum = { accepted: 0, duplicates: 0, rejected: 0 }, wrong = [];
    let before = 0;
    button.disabled = true;
    bar.hidden = false;
    errors.replaceChildren();
    const tell = (head) => {
      status.textContent = `${head}: ${count(sum.accepted)} accepted, ${count(sum.duplicates)} duplicates, ${count(sum.rejected)} rejected.`;
    };
    try {
      for (const f of chosen) {
        for await (const { part, line, read } of parts(f)) {
          const r = await post(hw(name, `/${what.value}`), part);
          for (const k of Object.keys(sum)) sum[k] += r[k];
          for (const e of r.errors) if (wrong.length < SHOWN) wrong.push(`${f.name}:${line + e.line}: ${e.detail} (${e.code})`);
          bar.value = (before + read) / total;
          tell(`${bytes(before + read)} of ${bytes(total)}`);
        }
        before += f.size;
      }
      tell(chosen.length === 1 ? chosen[0].name : `${chosen.length} files`);
      form.reset();
    } catch (e) {
      tell("Stopped");
      toast(`The import stopped: ${e.message}. What was counted is stored; start it again to go on.`, true);
    } finally {
      button.disabled = false;
      bar.hidden = true;
    }
    if (wrong.length)
      errors.append(h("details", { open: true }, h("summary", {}, `What was rejected${sum.rejected > wrong.length ? `, the first ${wrong.length}` : ""}`),
        h("ul", { class: "lines" }, wrong.map((w) => h("li", {}, w)))));
    onDone();
  }

  return el;
}
