// Dialogs: token, hardware, training, choice of candidates. Each is a <form> in a modal <dialog>, which keeps the focus
// and gives it back.
import { act, hw, setToken, hasToken } from "./api.js";
import { h, toast } from "./dom.js";

// content(form elements); submit() throws to keep it open with the error. Resolves to whether it was submitted.
function open(title, content, label, submit) {
  return new Promise((resolve) => {
    let done = false;
    const wrong = h("p", { class: "error", role: "alert" });
    const go = h("button", { type: "submit", class: "primary" }, label);
    const form = h("form", {
      onsubmit: async (e) => {
        e.preventDefault();
        go.disabled = true;
        wrong.textContent = "";
        try {
          await submit();
          done = true;
          el.close();
        } catch (x) {
          wrong.textContent = x.message;
        } finally {
          go.disabled = false;
        }
      },
    }, h("h2", { id: "dialog-title" }, title), content, wrong,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => el.close() }, "Cancel"), go));
    const el = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => { el.remove(); resolve(done); } }, form);
    document.body.append(el);
    el.showModal();
  });
}

let n = 0;
function field(label, input, note) {
  const id = `f${n++}`;
  input.id = id;
  if (note) input.setAttribute("aria-describedby", id + "-note");
  return h("div", { class: "field" }, h("label", { for: id }, label), input, note && h("p", { class: "note", id: id + "-note" }, note));
}
const input = (more) => h("input", { autocomplete: "off", spellcheck: "false", ...more });
const choose = (options) => h("select", {}, options.map(([value, label]) => h("option", { value }, label)));
const number = (more) => input({ type: "number", min: "0", step: "any", inputmode: "decimal", ...more });

// ---- token ----
let asking = null; // one at a time

export function askToken(error) {
  asking ??= open(error ? (error.status === 403 ? "This needs another role" : "This needs a token") : "Token", [
    error && h("p", {}, `The server answers ${error.status}: ${error.message}.`),
    field("Token", secret(), "Kept in this tab's memory until it is closed or reloaded, and stored nowhere. Reading needs the role predict, importing measure, training and activating operate."),
  ], "Use it", async () => setToken(document.querySelector("dialog input[type=password]").value.trim())).finally(() => { asking = null; });
  return asking;
}
const secret = () => input({ type: "password", autocomplete: "off", placeholder: hasToken() ? "a token is set; empty removes it" : "" });

// ---- hardware ----
const DESCRIPTOR = [["num_cores", "Cores"], ["clock_ghz", "Clock (GHz)"], ["vector_unit_bytes", "Vector unit (bytes)"], ["cache_line_bytes", "Cache line (bytes)"],
  ["l1d_bytes", "L1 data cache (bytes)"], ["l2_bytes", "L2 cache (bytes)"], ["l3_bytes", "L3 cache (bytes)"], ["memory_bandwidth_gbps", "Memory bandwidth (GB/s)"],
  ["peak_gflops", "Peak (GFLOP/s)"], ["sm_count", "Multiprocessors"], ["warp_size", "Warp size (threads)"], ["max_threads_per_block", "Threads per block, at most"],
  ["max_shared_memory_per_block", "Shared memory per block (bytes)"], ["max_local_memory_per_block", "Local memory per block (bytes)"], ["max_vthread_extent", "Virtual threads, at most"]];

export async function editHardware(old) {
  const name = input({ required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,62}", maxlength: "63", value: old?.name || "", readonly: Boolean(old) });
  const target = input({ required: true, value: old?.target || "", placeholder: "llvm -mcpu=skylake-avx512" });
  const family = input({ pattern: "[a-z0-9][a-z0-9._\\-]{0,62}", value: old?.family || "", placeholder: "as the kind" });
  const kind = choose([["", "by its target"], ["cpu", "CPU"], ["gpu", "GPU"], ["accelerator", "Accelerator"]]);
  kind.value = old?.kind || "";
  const described = DESCRIPTOR.map(([key, label]) => [key, label, number({ value: old?.descriptor?.[key] ?? "" })]);
  const ok = await open(old ? `Change ${old.name}` : "Register hardware", [
    field("Name", name, "Lower-case letters, digits, dot, dash and underscore; for example xeon-8272."),
    field("TVM target", target, "As TVM writes it, for example llvm -mcpu=core-avx2 or cuda -arch=sm_86."),
    field("Family", family, "Hardware of one family shares what it learned. Leave it empty unless you want to split finer than CPU and GPU."),
    field("Kind", kind),
    h("details", {}, h("summary", {}, "Describe it (optional, helps to find similar hardware)"),
      h("div", { class: "grid" }, described.map(([, label, i]) => field(label, i)))),
  ], old ? "Save" : "Register", async () => {
    const descriptor = { ...old?.descriptor };
    for (const [key, , i] of described) {
      if (i.value === "") delete descriptor[key];
      else descriptor[key] = Number(i.value);
    }
    const body = { target: target.value.trim(), descriptor };
    if (family.value.trim()) body.family = family.value.trim();
    if (kind.value) body.kind = kind.value;
    await act("PUT", hw(name.value.trim()), body);
  });
  if (!ok) return null;
  toast(old ? `${old.name} is changed.` : `${name.value.trim()} is registered.`);
  return name.value.trim();
}

// ---- training ----
export async function retrain(name, others) {
  const mode = choose([["", "The server's default"], ["adapt", "Adapt: start from the family's knowledge, give back what is learned"],
    ["finetune", "Fine-tune: this hardware's measurements alone"], ["pretrain", "Pretrain: a knowledge base from several hardware"]]);
  const sources = h("fieldset", { hidden: true }, h("legend", {}, "Sources"),
    others.map((o) => h("label", { class: "check" }, h("input", { type: "checkbox", value: o, name: "source" }), " ", o)));
  mode.addEventListener("change", () => { sources.hidden = mode.value !== "pretrain"; });
  const epochs = number({ min: "1", max: "1000", step: "1", placeholder: "by the amount of data" });
  const limit = number({ placeholder: "none" });
  const perTask = number({ step: "1", placeholder: "all" });
  const seed = number({ step: "1", placeholder: "0" });
  const activate = choose([["auto", "if it is not worse on held-out measurements"], ["never", "never: keep it as a candidate"]]);
  let job = null;
  await open(`Retrain ${name}`, [
    field("Mode", mode), sources,
    field("Activate the new model", activate),
    h("details", {}, h("summary", {}, "More"), h("div", { class: "grid" }, field("Epochs", epochs), field("Time limit (s)", limit), field("Programs per task, at most", perTask), field("Seed", seed))),
  ], "Retrain", async () => {
    const body = { activate: activate.value };
    if (mode.value) body.mode = mode.value;
    const from = [...sources.querySelectorAll("input:checked")].map((i) => i.value);
    if (mode.value === "pretrain" && from.length) body.sources = from;
    for (const [key, i] of [["epochs", epochs], ["max_seconds", limit], ["per_task", perTask], ["seed", seed]])
      if (i.value !== "") body[key] = Number(i.value);
    job = await act("POST", hw(name, "/retrain"), body);
  });
  if (job) toast(`Job ${job.id} (${job.kind}) is ${job.state}.`);
  return job;
}

// ---- what to measure next ----
export async function select(name, pooled) {
  const share = number({ min: "0.1", max: "100", value: "10", required: true });
  const method = choose([["rdu", "rdu: representative, diverse, uncertain"], ["uncertainty", "uncertainty"], ["coreset", "coreset"], ["representative", "representative"], ["random", "random"]]);
  let job = null;
  await open(`Choose what ${name} measures next`, [
    h("p", {}, `${pooled} candidates are in the pool. Chosen ones are handed to measurement agents.`),
    field("Share of the pool (%)", share), field("Method", method),
  ], "Choose", async () => {
    job = await act("POST", hw(name, "/selections"), { fraction: Number(share.value) / 100, method: method.value });
  });
  if (job) toast(`Job ${job.id} (${job.kind}) is ${job.state}.`);
  return job;
}
