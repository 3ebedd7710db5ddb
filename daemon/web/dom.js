// Elements, tables and numbers as text. No HTML is ever parsed: text goes in as text.

export function h(tag, attrs, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (k === "key") el.dataset.key = v;
    else if (k === "value" || k === "checked") el[k] = v;
    else el.setAttribute(k, v === true ? "" : v);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children.flat(Infinity))
    if (c !== undefined && c !== null && c !== false) el.append(c);
}

// Replaces what is in `box`, unless it was made from the same data. Focus, open <details> and entries stay where they
// are: elements are told apart by their key.
export function swap(box, data, make) {
  const signature = JSON.stringify(data);
  if (box.signature === signature) return;
  box.signature = signature;
  const focus = box.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...box.querySelectorAll("details[open][data-key]")].map((d) => d.dataset.key));
  const nodes = [make()];
  box.replaceChildren();
  add(box, nodes);
  for (const d of box.querySelectorAll("details[data-key]")) if (open.has(d.dataset.key)) d.open = true;
  if (focus) box.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
}

// columns: {label, num, unit, cell(row)}. On a narrow screen each row becomes a card (style.css), so that the roles are
// spelled out.
export function table(caption, columns, rows, key) {
  const head = h("tr", { role: "row" }, columns.map((c) =>
    h("th", { role: "columnheader", scope: "col", class: c.num && "num" }, c.label, c.unit && h("span", { class: "unit" }, " ", c.unit))));
  const body = rows.map((r) => h("tr", { role: "row", class: r.rowClass, key: key && "row-" + key(r) }, columns.map((c, i) =>
    h(i ? "td" : "th", { role: i ? "cell" : "rowheader", scope: i ? null : "row", class: [c.num && "num", c.wide && "wide"].filter(Boolean).join(" ") || null,
      "data-label": c.label + (c.unit ? ` (${c.unit})` : "") }, c.cell(r)))));
  return h("div", { class: "scroll" }, h("table", { role: "table" }, h("caption", { class: "sr" }, caption),
    h("thead", { role: "rowgroup" }, head), h("tbody", { role: "rowgroup" }, body)));
}

// ---- numbers ----
export const NONE = "–";
const NB = "\u00a0"; // between a number and its unit
// Intl would do; loading its tables takes longer than all else that the page computes.
const whole = (v) => String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, ",");
const three = (v) => (Math.abs(v) < 999.5 ? v.toPrecision(3) : whole(Number(v.toPrecision(3))));
const has = (v) => v !== null && v !== undefined && Number.isFinite(v);

export const count = (v) => (has(v) ? whole(v) : NONE);
export const rate = (v) => (!has(v) ? NONE : v >= 1000 ? whole(v) : v === 0 ? "0" : v < 0.01 ? "<0.01" : three(v));
export const share = (v) => (has(v) ? (100 * v).toFixed(1) : NONE);
export const percent = (v) => (has(v) ? share(v) + NB + "%" : NONE);
export const factor = (ln) => (has(ln) ? "×" + NB + Math.exp(ln).toFixed(2) : NONE);

export function seconds(v) {
  if (!has(v)) return NONE;
  if (v === 0) return "0" + NB + "s";
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
    if (v >= size * 0.9995) return three(v / size) + NB + unit;
  return three(v / 1e-9) + NB + "ns";
}

export function bytes(v) {
  if (!has(v)) return NONE;
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (v >= size) return three(v / size) + NB + unit;
  return v + NB + "B";
}

export function span(s, exact) {
  if (!has(s)) return NONE;
  if (s < 10 && exact) return s.toFixed(1) + NB + "s";
  if (s < 60) return Math.floor(s) + NB + "s";
  if (s < 3600) return Math.floor(s / 60) + NB + "min";
  if (s < 48 * 3600) return Math.floor(s / 3600) + NB + "h";
  return Math.floor(s / 86400) + NB + "d";
}

const age = (iso) => span(Math.max(0, (Date.now() - Date.parse(iso)) / 1000));

// How long ago; keepTime() lets it go on.
export function time(iso, suffix = "") {
  if (!iso) return NONE;
  return h("time", { datetime: iso, title: new Date(iso).toString().slice(0, 24), "data-suffix": suffix }, age(iso) + suffix);
}

export function keepTime() {
  for (const t of document.querySelectorAll("time[data-suffix]")) {
    const text = age(t.dateTime) + t.dataset.suffix;
    if (t.textContent !== text) t.textContent = text;
  }
}

// ["tc_conv2d_nhwc", 1, 14] -> "tc_conv2d_nhwc 1, 14"; hashes of workloads stay as they are. A long one is cut.
export function workload(key) {
  let text = String(key);
  try {
    const [name, ...args] = JSON.parse(key);
    text = args.length ? `${name} ${JSON.stringify(args).slice(1, -1).replaceAll(",", ", ")}` : String(name);
  } catch {
    // not JSON: as it is
  }
  return text.length > 120 ? text.slice(0, 119) + "…" : text;
}

// ---- messages ----
export function toast(text, bad) {
  const box = document.getElementById("toasts");
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Dismiss message", onclick: () => el.remove() }, "✕");
  const el = h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text), close);
  box.append(el);
  while (box.children.length > 3) box.firstChild.remove();
  if (!bad) setTimeout(() => el.remove(), 8000);
}

export const empty = (...what) => h("p", { class: "empty" }, ...what);
