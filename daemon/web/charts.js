// Charts: uPlot in a <figure> with a sentence that says what it shows and the numbers as a table, for those who do not
// see the canvas.
import { h, swap, empty, seconds, count, percent } from "./dom.js";

// The library is fetched for the first chart: a page is ready before it has one.
let uPlot = null, library = null;

async function load() {
  const style = h("link", { rel: "stylesheet", href: new URL("uplot.css", import.meta.url) });
  const styled = new Promise((f) => ["load", "error"].forEach((what) => style.addEventListener(what, f)));
  document.head.append(style);
  uPlot = (await import("./uplot.js")).default;
  await styled;
}

const live = new Set(); // charts on the page, drawn anew when the colour scheme changes
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => live.forEach((c) => c.draw()));

const observer = new ResizeObserver((entries) => {
  for (const e of entries) {
    const c = e.target.chart, w = Math.floor(e.contentRect.width);
    if (c?.plot && w > 0 && w !== c.plot.width) c.plot.setSize({ width: w, height: c.height });
  }
});

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A figure that can be filled again and again: set({opts(), data, summary, rows}) or set({none: text}).
export function figure(title, note, height = 220) {
  const box = h("div", { class: "plot" });
  const words = h("div", {});
  const el = h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, title), h("p", { class: "note" }, note)), box, words);
  const chart = { plot: null, height, content: null };
  box.chart = chart;
  chart.draw = () => {
    chart.plot?.destroy();
    chart.plot = null;
    const c = chart.content;
    if (!c || c.none || !el.isConnected) return;
    if (!uPlot) {
      library ??= load().catch((e) => { library = null; throw e; });
      library.then(chart.draw, () => {
        if (chart.content === c && !chart.plot) box.replaceChildren(empty("The chart could not be loaded: reload the page. The numbers are below."));
      });
      return;
    }
    const opts = c.opts();
    box.replaceChildren();
    chart.plot = new uPlot({ width: Math.max(200, Math.floor(box.clientWidth)), height, ...opts }, c.data, box);
  };
  observer.observe(box);
  live.add(chart);
  return {
    el,
    box,
    set(content) {
      const signature = JSON.stringify([content.none, content.data, content.id]);
      if (chart.signature === signature) return;
      const keep = chart.plot && content.id !== undefined && chart.content?.id === content.id;
      chart.signature = signature;
      chart.content = content;
      box.setAttribute("role", content.none ? "group" : "img");
      box.setAttribute("aria-label", content.none ? title : `${title}. ${content.summary}`);
      if (content.none) {
        chart.draw();
        box.replaceChildren(empty(content.none));
      } else if (keep) {
        chart.plot.setData(content.data);
      } else {
        box.replaceChildren();
        chart.draw();
      }
      swap(words, [content.summary, content.none, content.rows && content.rows()], () => content.none ? [] : [
        h("p", { class: "note" }, content.summary),
        content.rows && h("details", { key: "numbers-" + title }, h("summary", {}, "Show the numbers"), numbers(title, content.rows())),
      ]);
    },
    gone() {
      live.delete(chart);
      observer.unobserve(box);
      chart.plot?.destroy();
      chart.plot = null;
    },
  };
}

// rows: [[head, …], [cell, …], …]
function numbers(title, rows) {
  const [head, ...body] = rows;
  return h("div", { class: "scroll plain", tabindex: "0", role: "region", "aria-label": `${title}: numbers` }, h("table", {},
    h("caption", { class: "sr" }, title),
    h("thead", {}, h("tr", {}, head.map((c, i) => h("th", { scope: "col", class: i ? "num" : null }, c)))),
    h("tbody", {}, body.map((r) => h("tr", {}, r.map((c, i) => (i ? h("td", { class: "num" }, c) : h("th", { scope: "row" }, c))))))));
}

// ---- options shared by all ----
function axis(more) {
  const ink = colour("muted"), line = colour("grid");
  return { stroke: ink, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20, labelGap: 0,
    grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, ...more };
}

const base = () => ({ padding: [8, 24, 0, 0], cursor: { y: false, drag: { x: false, y: false } }, legend: { live: true, markers: { width: 0, fill: (u, i) => u.series[i]._stroke || u.series[i].stroke() } } });

const serie = (label, c, more) => ({ label, stroke: () => colour(c), width: 1.75, points: { show: false }, ...more });
const tick = (f) => (u, values) => values.map((v) => (v === null ? "" : f(v)));
// On a log axis uPlot offers every step of each decade; lines and numbers only at some.
const leading = (v) => Number(Number(v.toPrecision(6)).toExponential().split("e")[0]);
const at = (digits) => (u, values) => values.map((v) => (v !== null && digits.includes(leading(v)) ? v : null));
const log = (digits, f) => ({ filter: at(digits), grid: { stroke: colour("grid"), width: 1, filter: at(digits) }, ticks: { stroke: colour("grid"), width: 1, size: 4, filter: at(digits) }, values: tick(f) });
const short = (v) => seconds(v).replace(/\.0+(?=\s)/, "").replace(/(\.\d*[1-9])0+(?=\s)/, "$1");
// Splits of a log axis count from its lower end, which therefore has one digit.
const down = (v) => Number(`${Math.floor(v / 10 ** Math.floor(Math.log10(v)) + 1e-9)}e${Math.floor(Math.log10(v))}`);
const times = (v) => "× " + +v.toPrecision(3);

const clock = (t) => new Date(1000 * t).toTimeString().slice(0, 8);

// points: [{t: unix seconds, v}]
export function throughput(unit, label, c, points, describe) {
  if (points.length < 2) return { none: "Collecting: a rate needs a few seconds." };
  const values = points.map((p) => p.v), now = values[values.length - 1], peak = Math.max(...values);
  return {
    id: label,
    data: [points.map((p) => p.t), values],
    summary: `Now ${describe(now)} ${unit}, peak ${describe(peak)} ${unit} in the last ${Math.round(points[points.length - 1].t - points[0].t)} s.`,
    opts: () => ({
      ...base(),
      scales: { x: { range: (u, lo, hi) => [Math.min(lo, hi - 60), hi] }, y: { range: (u, lo, hi) => [0, Math.max(1, hi * 1.1)] } },
      axes: [axis({ size: 30, space: 90, values: (u, vs) => vs.map(clock) }), axis({ size: 56, values: tick((v) => (v >= 1000 ? count(v / 1000) + " k" : String(+v.toPrecision(3)))) })],
      series: [{ label: "At", value: (u, v) => (v === null ? "–" : clock(v)) }, serie(label, c, { fill: () => colour(c) + "22", value: (u, v) => (v === null ? "–" : `${describe(v)} ${unit}`) })],
    }),
  };
}

// evaluations, oldest first
export function quality(items) {
  const of = (v) => v.result.held_out || v.result.all || {};
  if (!items.length)
    return { none: "No evaluation yet. Train a model: its figures on held-out programs appear here; press Evaluate for new ones later." };
  const x = items.map((_, i) => i + 1), col = (k) => items.map((v) => of(v)[k] ?? null);
  const last = of(items[items.length - 1]);
  return {
    id: "quality-" + items.length,
    data: [x, col("top1_mean"), col("top5_mean"), col("pairwise"), col("random_top1_mean")],
    summary: `Newest, model ${items[items.length - 1].model}: top-1 ${percent(last.top1_mean)}, top-5 ${percent(last.top5_mean)}, ${percent(last.pairwise)} of pairs in order; a random pick has top-1 ${percent(last.random_top1_mean)}.`,
    rows: () => [["Evaluation", "Model", "Measured on", "Top-1 %", "Top-5 %", "Pairwise %"],
      ...items.map((v) => [String(v.id), String(v.model), v.result.held_out ? "held out" : "all", ...["top1_mean", "top5_mean", "pairwise"].map((k) => (100 * of(v)[k]).toFixed(1))])],
    opts: () => ({
      ...base(),
      scales: { x: { time: false, range: (u, lo, hi) => [lo - 0.5, hi + 0.5] }, y: { range: [0, 1] } },
      axes: [axis({ label: "evaluation, oldest first", size: 30, incrs: [1, 2, 5, 10, 20, 50, 100], values: tick((v) => (items[v - 1] ? `m${items[v - 1].model}` : "")) }),
        axis({ size: 52, values: tick((v) => `${Math.round(v * 100)} %`) })],
      series: [{ label: "Evaluation", value: (u, v) => (v === null ? "–" : `${items[v - 1].id}, model ${items[v - 1].model}`) },
        ...[["Top-1", "c1"], ["Top-5", "c3"], ["Pairwise", "c2"]].map(([l, c]) => serie(l, c, { points: { show: true, size: 6 }, value: (u, v) => percent(v) })),
        serie("Random top-1", "muted", { dash: [4, 4], width: 1, value: (u, v) => percent(v) })],
    }),
  };
}

// p: "points" of an evaluation's result
export function scatter(p, perTask, name) {
  const n = p.measured_seconds.length;
  const order = [...Array(n).keys()].filter((i) => p.predicted_seconds[i] > 0).sort((a, b) => p.measured_seconds[a] - p.measured_seconds[b]);
  const x = order.map((i) => p.measured_seconds[i]);
  const held = order.map((i) => (p.held_out[i] ? p.predicted_seconds[i] : null));
  const seen = order.map((i) => (p.held_out[i] ? null : p.predicted_seconds[i]));
  if (!x.length) return { none: "The evaluation has no program with a valid measurement." };
  const within = (f) => order.filter((i) => Math.abs(Math.log(p.predicted_seconds[i] / p.measured_seconds[i])) <= Math.log(f)).length / x.length;
  const lo = Math.min(x[0], ...order.map((i) => p.predicted_seconds[i])), hi = Math.max(x[x.length - 1], ...order.map((i) => p.predicted_seconds[i]));
  const range = () => [10 ** Math.floor(Math.log10(lo)), 10 ** Math.ceil(Math.log10(hi))];
  const none = () => null;
  const dots = (label, c) => serie(label, c, { paths: none, points: { show: true, size: 5, width: 1, fill: colour(c) + "55" }, value: (u, v) => seconds(v) });
  return {
    id: "scatter",
    data: [x, held, seen, x],
    summary: `${count(x.length)} programs (a sample): ${percent(within(1.25))} predicted within a factor of 1.25, ${percent(within(2))} within 2. On the line a prediction is exact.`,
    rows: () => [["Task", "Programs", "Held out", "Top-1 %", "Pairwise %", "Median error"],
      ...(perTask || []).slice(0, 100).map((t) => [name(t.task), count(t.programs), count(t.held_out), percent(t.top1), percent(t.pairwise), t.latency_median_ln_error === null ? "–" : "× " + Math.exp(t.latency_median_ln_error).toFixed(2)])],
    opts: () => ({
      ...base(),
      scales: { x: { time: false, distr: 3, range }, y: { distr: 3, range } },
      axes: [axis({ label: "measured", size: 30, ...log([1], short) }), axis({ label: "predicted", size: 56, ...log([1], short) })],
      series: [{ label: "Measured", value: (u, v) => seconds(v) }, dots("Held out", "c2"), dots("Trained on", "c1"),
        serie("Exact", "muted", { width: 1, value: (u, v) => "" })],
    }),
  };
}

// curves: [{name, n, items: [{measurement, best_seconds}]}]; relative: against the best of each
export function bestSoFar(curves, relative) {
  curves = curves.filter((c) => c.items.length);
  if (!curves.length) return { none: "No valid measurement yet. Import a log above: each task's best latency is drawn as it fell." };
  const steps = [...new Set(curves.flatMap((c) => [...c.items.map((i) => i.measurement), c.measurements]))].sort((a, b) => a - b);
  const scale = (c) => (relative ? c.items[c.items.length - 1].best_seconds : 1);
  const data = [steps, ...curves.map((c) => {
    const by = new Map(c.items.map((i) => [i.measurement, i.best_seconds / scale(c)]));
    let v = null;
    return steps.map((m) => (m > c.measurements ? null : (v = by.get(m) ?? v)));
  })];
  const show = relative ? (v) => (v === null ? "–" : "× " + v.toFixed(2)) : seconds;
  const first = curves[0], most = steps[steps.length - 1];
  const all = data.slice(1).flat().filter((v) => v !== null), lo = Math.min(...all), hi = Math.max(...all);
  const mark = hi / lo > 30 ? [1] : [1, 2, 5];
  return {
    id: "best-" + curves.map((c) => c.task).join("-") + relative,
    data,
    summary: relative
      ? `${curves.map((c) => `${c.name}: ${seconds(c.items[c.items.length - 1].best_seconds)} after ${count(c.measurements)} measurements`).join("; ")}.`
      : `${first.name}: from ${seconds(first.items[0].best_seconds)} to ${seconds(first.items[first.items.length - 1].best_seconds)} in ${count(first.measurements)} measurements; the best came as number ${count(first.items[first.items.length - 1].measurement)}.`,
    rows: () => [["Task", "Measurement", "Best so far"], ...curves.flatMap((c) => c.items.map((i) => [c.name, count(i.measurement), seconds(i.best_seconds)]))],
    opts: () => ({
      ...base(),
      scales: { x: { time: false, distr: 3, range: () => [1, Math.max(10, most)] }, y: { distr: 3, range: () => [down(lo / 1.05), hi * 1.2] } },
      axes: [axis({ label: "measurements", size: 30, ...log([1, 2, 5], count) }), axis({ size: 62, ...log(mark, relative ? times : short) })],
      series: [{ label: "Measurement", value: (u, v) => count(v) },
        ...curves.map((c, i) => serie(c.name, "c" + (i % 5 + 1), { paths: uPlot.paths.stepped({ align: 1 }), value: (u, v) => show(v) }))],
    }),
  };
}
