// The first page: throughput, hardware, jobs, and what each hardware can learn from the others.
import { get, hw, list, metrics } from "./api.js";
import { h, swap, table, time, count, rate, seconds, bytes, span, share, empty, NONE } from "./dom.js";
import { figure, throughput } from "./charts.js";
import { jobsView } from "./jobs.js";

const SAMPLE_MS = 2000, KEPT = 150; // five minutes
const MATRIX_MAX = 16;
const history = []; // outlives the page: going to a hardware and back loses no sample

const total = (m, name, label = "") => (m.get(name) || []).filter((s) => s.labels.includes(label)).reduce((a, s) => a + s.value, 0);

function sample(m) {
  const s = {
    t: Date.now() / 1000,
    predicted: total(m, "tcld_predicted_programs_total"),
    measured: total(m, "tcld_measurements_total"),
    requests: total(m, "tcld_http_requests_total"),
    busy: total(m, "tcld_predict_duration_seconds_sum"),
    calls: total(m, "tcld_predict_duration_seconds_count"),
  };
  if (history.length && s.requests < history[history.length - 1].requests) history.length = 0; // the daemon was restarted
  history.push(s);
  if (history.length > KEPT) history.shift();
}

const rates = (key) => history.slice(1).map((s, i) => ({ t: s.t, v: Math.max(0, (s[key] - history[i][key]) / (s.t - history[i].t)) }));

// What the hardware's model answers with, and how good that was.
const figures = (model) => model?.metrics?.evaluation?.held_out || model?.metrics?.evaluation?.all || model?.metrics?.challenger || null;

// [figure, unit]. The server's running comparison of what comes in: its error over that of the first measurements which
// the model was asked about. Where there is none: points of pairwise accuracy that the newest evaluation differs from
// the one at training, on held-out programs both.
export function drift(x) {
  if (x.drift) return Number.isFinite(x.drift.ratio) ? [`× ${x.drift.ratio.toFixed(2)}`, "latency error"] : [NONE, "too few yet"];
  const then = x.model?.metrics?.challenger?.pairwise, now = x.model?.metrics?.evaluation;
  return now?.source === "evaluate" && now.held_out && then !== undefined ? [points(now.held_out.pairwise - then), "points of pairwise"] : [NONE, null];
}
const points = (v) => (v === null || v === undefined ? NONE : `${v < 0 ? "−" : "+"}${Math.abs(100 * v).toFixed(1)}`);

// The hardware with its counts and the model that answers for it.
export async function details(name) {
  const d = await get(hw(name));
  const id = d.active_model ?? d.kb_model;
  return { ...d, model: id ? await get(`v1/models/${id}`) : null };
}

const COLUMNS = [
  { label: "Hardware", cell: (x) => [h("a", { href: `#/hardware/${x.name}`, key: `hw-${x.name}` }, x.name), h("div", { class: "sub clip" }, x.target)] },
  { label: "Family", cell: (x) => x.family },
  { label: "Measurements", num: true, cell: (x) => [count(x.counts.measurements), x.counts.failures > 0 && h("div", { class: "sub" }, `${count(x.counts.failures)} failed`)] },
  { label: "Tasks", num: true, cell: (x) => count(x.counts.tasks) },
  { label: "Model", num: true, cell: (x) => (x.model ? [String(x.model.id), h("div", { class: "sub" }, x.model.role === "kb" ? "knowledge base" : "its own")] : h("span", { class: "sub" }, "none")) },
  { label: "Model age", num: true, cell: (x) => time(x.model?.created) },
  { label: "Top-1", unit: "%", num: true, cell: (x) => share(figures(x.model)?.top1_mean) },
  { label: "Drift", num: true, cell: (x) => {
    const [figure, unit] = drift(x);
    return [figure, unit && h("div", { class: "sub" }, unit)];
  } },
  { label: "New since model", num: true, cell: (x) => count(x.staleness) },
  { label: "Queue", num: true, cell: (x) => {
    const c = x.counts.candidates;
    return [count(c.selected + c.leased), c.pooled > 0 && h("div", { class: "sub" }, `${count(c.pooled)} pooled`)];
  } },
];

// ---- transfer ----
async function similar(names) {
  const rows = new Map();
  for (const n of names) {
    const r = await get(hw(n, "/similar"));
    rows.set(n, new Map(r.items.map((i) => [i.hardware, i])));
  }
  return rows;
}

function matrix(names, rows) {
  const cell = (to, from) => {
    if (to === from) return h("td", { class: "num same" }, "·");
    const i = rows.get(to)?.get(from);
    if (!i) return h("td", { class: "num" }, NONE);
    const level = Math.max(0, Math.min(4, Math.floor(5 * (i.similarity ?? 0))));
    return h("td", { class: `num level${level}`, title: i.reason }, i.similarity?.toFixed(2) ?? NONE, i.recommended && h("span", {}, " ✓", h("span", { class: "sr" }, " recommended")),
      i.measured_transfer_gain !== null && h("div", { class: "sub" }, `${points(i.measured_transfer_gain)} points`));
  };
  return [h("div", { class: "scroll plain", tabindex: "0", role: "region", "aria-label": "Transfer matrix" }, h("table", {}, h("caption", { class: "sr" }, "Similarity of hardware, rows learn from columns"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "learns from →"), names.map((n) => h("th", { scope: "col", class: "num" }, n)))),
    h("tbody", {}, names.map((to) => h("tr", {}, h("th", { scope: "row" }, to), names.map((from) => cell(to, from))))))),
    h("p", { class: "note" }, "Similarity from 0 to 1; below it the measured gain of a transfer in points of pairwise accuracy; ✓ recommended as a source.")];
}

export function overview(go) {
  const tiles = h("dl", { class: "tiles" });
  const predicted = figure("Predictions", "Programs scored per second, since this page was opened.", 150);
  const measured = figure("Measurements", "Measurements posted per second, since this page was opened.", 150);
  const hardwareBody = h("div", {});
  const register = h("button", { type: "button", class: "primary", key: "register", onclick: add }, "Register hardware…");
  const transferBody = h("div", {});
  const jobs = jobsView({ limit: 10, onEnd: () => {
    transfer = null; // a job may have measured one
    refresh();
  } });
  let names = [], transfer = null, timer = 0, stopped = false;

  const el = [h("h1", { class: "sr" }, "Overview"),
    h("section", { class: "card", "aria-labelledby": "hardware-title" }, h("div", { class: "head" }, h("h2", { id: "hardware-title" }, "Hardware"), register), hardwareBody),
    jobs.el,
    h("section", { "aria-labelledby": "throughput-title" }, h("h2", { id: "throughput-title" }, "Throughput"), tiles, h("div", { class: "pair" }, predicted.el, measured.el)),
    h("section", { class: "card", "aria-labelledby": "transfer-title" }, h("h2", { id: "transfer-title" }, "Transfer between hardware"), transferBody)];

  async function add() {
    const name = await (await import("./dialogs.js")).editHardware(null);
    if (name) go(`#/hardware/${name}`);
  }

  function drawTiles(m) {
    const last = history[history.length - 1], first = history[Math.max(0, history.length - 16)];
    const calls = last.calls - first.calls, up = Date.now() / 1000 - total(m, "tcld_start_time_seconds");
    const tile = (name, value, sub) => h("div", {}, h("dt", {}, name), h("dd", {}, value, sub && h("span", { class: "sub" }, " ", sub)));
    const mean = calls > 0 ? (last.busy - first.busy) / calls : last.calls > 0 ? last.busy / last.calls : null;
    tiles.replaceChildren(
      tile("Programs scored", count(last.predicted), "since start"),
      tile("Predict call, mean", seconds(mean), calls > 0 ? "last 30 s" : "since start"),
      tile("Measurements", count(last.measured), "posted since start"),
      tile("Waiting", count(total(m, "tcld_predict_queue_requests") + total(m, "tcld_api_queue_requests")), "requests"),
      tile("Memory", bytes(total(m, "tcld_resident_memory_bytes")), "resident"),
      tile("Up", span(up)));
  }

  async function throughputNow() {
    try {
      const m = await metrics();
      sample(m);
      drawTiles(m);
      predicted.set(throughput("programs/s", "Predictions", "c1", rates("predicted"), rate));
      measured.set(throughput("measurements/s", "Measurements", "c3", rates("measured"), rate));
    } catch (e) {
      if (!history.length) predicted.set({ none: e.message });
    }
    if (!stopped) timer = setTimeout(throughputNow, document.hidden ? 5 * SAMPLE_MS : SAMPLE_MS);
  }

  async function transferNow() {
    if (transfer === names.join()) return;
    transfer = names.join();
    if (names.length < 2) {
      transferBody.replaceChildren(empty("Needs two hardware at least. What one has learned may help another: similar pairs appear here."));
      return;
    }
    const shown = names.slice(0, MATRIX_MAX);
    try {
      transferBody.replaceChildren(...matrix(shown, await similar(shown)));
      if (names.length > MATRIX_MAX) transferBody.append(empty(`The first ${MATRIX_MAX} of ${names.length}.`));
    } catch (e) {
      transferBody.replaceChildren(empty(`Not available: ${e.message}.`));
      transfer = null;
    }
  }

  const draw = (items, more) => swap(hardwareBody, [items, more], () => items.length
    ? [table("Hardware", COLUMNS, items, (x) => x.name), more && empty(`The first ${items.length} are shown.`)]
    : empty("No hardware is registered. ", h("strong", {}, "Register hardware"), " to begin, then import a tuning log and train a model."));

  async function refresh() {
    const [page] = await Promise.all([list("v1/hardware?detail=true", 100), jobs.refresh()]);
    names = page.items.map((x) => x.name);
    draw(page.items, page.more);
    performance.getEntriesByName("ready").length || performance.mark("ready");
    await transferNow();
  }

  throughputNow();
  return { title: "tcld", el, refresh, gone() {
    stopped = true;
    clearTimeout(timer);
    jobs.gone();
    predicted.gone();
    measured.gone();
  } };
}
