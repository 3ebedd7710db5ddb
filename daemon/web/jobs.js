// The list of jobs. Those that run are followed over Server-Sent Events, two at a time (browsers open six connections
// to a server); the others are as new as the last refresh.
import { act, follow, list } from "./api.js";
import { h, swap, table, time, span, percent, count, toast, empty, NONE } from "./dom.js";

const FOLLOWED = 2;
const over = (j) => !["queued", "running"].includes(j.state);

export function outcome(j) {
  const r = j.result || {};
  if (j.error) return j.error;
  if (!over(j)) return "";
  if (r.decision) {
    const gain = Number.isFinite(r.gain) && r.gain ? `, ${r.gain > 0 ? "+" : "−"}${Math.abs(100 * r.gain).toFixed(1)} points` : "";
    const what = { activated: "activated", "kept-champion": "not better, the active model stays", candidate: "kept as candidate", overtaken: "kept as candidate, another one came meanwhile" }[r.decision] || r.decision;
    return `model ${r.model} ${what}${gain}`;
  }
  if (r.held_out || r.all) {
    const g = r.held_out || r.all;
    return `model ${r.model}: top-1 ${percent(g.top1_mean)}, pairs ${percent(g.pairwise)}${r.held_out ? "" : " (all data)"}`;
  }
  if (r.method) return `${count(r.count)} of ${count(r.pooled)} candidates chosen (${r.method})`;
  return "";
}

const kind = (j) => (j.params?.mode ? `${j.kind}, ${j.params.mode}` : j.kind);

function progress(j) {
  if (over(j)) return h("span", { class: `state ${j.state}` }, j.state);
  const detail = [j.phase, j.epoch && `epoch ${j.epoch}`, Number.isFinite(j.loss) && j.loss !== null && `loss ${j.loss.toPrecision(3)}`].filter(Boolean).join(", ");
  return h("div", { class: "progress" },
    h("span", { class: `state ${j.state}` }, j.state), " ",
    h("progress", { max: "1", value: j.progress, "aria-label": `Progress of job ${j.id}` }), " ",
    h("span", { class: "digits" }, `${Math.round(100 * j.progress)} %`),
    detail && h("div", { class: "sub digits" }, detail));
}

function took(j) {
  if (!j.started) return NONE;
  return span(((j.finished ? Date.parse(j.finished) : Date.now()) - Date.parse(j.started)) / 1000, Boolean(j.finished));
}

export function jobsView({ hardware, limit = 10, onEnd }) {
  const body = h("div", {});
  const el = h("section", { class: "card", "aria-labelledby": "jobs-title" }, h("h2", { id: "jobs-title" }, "Jobs"), body);
  const known = new Map();
  const followed = new Map();

  async function cancel(j) {
    try {
      await act("DELETE", `v1/jobs/${j.id}`);
    } catch (e) {
      toast(`Job ${j.id} cannot be cancelled: ${e.message}.`, true);
    }
    refresh();
  }

  const columns = [
    { label: "Job", cell: (j) => [`${j.id} `, h("span", { class: "sub" }, kind(j))] },
    !hardware && { label: "Hardware", cell: (j) => h("a", { href: `#/hardware/${j.hardware}`, key: `job-hw-${j.id}` }, j.hardware) },
    { label: "State", cell: progress },
    { label: "Result", wide: true, cell: (j) => outcome(j) || NONE },
    { label: "Took", num: true, cell: took },
    { label: "Asked", num: true, cell: (j) => time(j.created, " ago") },
  ].filter(Boolean);
  const withAction = [...columns, { label: "Action", cell: (j) => (over(j) ? "" : h("button", { type: "button", key: `cancel-${j.id}`, "aria-label": `Cancel job ${j.id}`, onclick: () => cancel(j) }, "Cancel")) }];

  function draw() {
    const rows = [...known.values()].sort((a, b) => b.id - a.id).slice(0, limit);
    const running = rows.some((j) => !over(j));
    swap(body, [rows, running ? Math.floor(Date.now() / 1000) : 0], () => rows.length
      ? table(hardware ? `Jobs of ${hardware}` : "Jobs, newest first", running ? withAction : columns, rows, (j) => j.id)
      : empty(hardware ? "No job yet. Retrain starts one." : "No job yet. Open a hardware and press Retrain; progress appears here."));
  }

  function watch(j) {
    if (over(j) || followed.has(j.id) || followed.size >= FOLLOWED) return;
    const stop = new AbortController();
    followed.set(j.id, stop);
    follow(`v1/jobs/${j.id}/events`, (name, now) => {
      known.set(now.id, now);
      draw();
      if (name !== "end") return;
      const bad = now.state === "failed";
      toast(`Job ${now.id} (${now.kind}, ${now.hardware}) ${now.state}${outcome(now) ? ": " + outcome(now) : ""}`, bad);
      onEnd?.(now);
    }, stop.signal).finally(() => followed.delete(j.id));
  }

  async function refresh() {
    const { items } = await list(`v1/jobs${hardware ? `?hardware=${encodeURIComponent(hardware)}` : ""}`, limit);
    for (const j of items) {
      const before = known.get(j.id);
      if (followed.has(j.id) && before) continue; // its stream is newer
      known.set(j.id, j);
      if (before && !over(before) && over(j)) onEnd?.(j);
    }
    draw();
    items.forEach(watch);
  }

  return { el, refresh, known, gone: () => followed.forEach((s) => s.abort()) };
}
