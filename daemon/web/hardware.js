// One hardware: what to do next, its data, its models, and how good they are.
import { act, get, hw, list } from "./api.js";
import { h, swap, table, time, count, share, factor, seconds, workload, toast, empty, NONE } from "./dom.js";
import { figure, quality, scatter, bestSoFar } from "./charts.js";
import { jobsView } from "./jobs.js";
import { uploadForm } from "./upload.js";
import { details, drift } from "./overview.js";

const CURVES = 5; // of the tasks with most measurements
const TASKS = 300;
const dialogs = () => import("./dialogs.js");

const good = (m) => m.metrics?.evaluation?.held_out || m.metrics?.evaluation?.all || m.metrics?.challenger || {};

export function hardware(name) {
  const head = h("div", {}), steps = h("div", {}), facts = h("dl", { class: "tiles" }), modelsBody = h("div", {}), tasksBody = h("div", {});
  const qualityChart = figure("Quality", "On programs that the model was not trained on, where there are any.", 300);
  const scatterChart = figure("Predicted against measured", "Latency of programs at the newest evaluation; both axes logarithmic.", 300);
  const bestChart = figure("Best so far", "How the best latency of a task fell with each measurement.", 300);
  const pick = h("select", { id: "curve-task", onchange: () => curves() });
  const picker = h("div", { class: "row" }, h("label", { for: "curve-task" }, "Tasks"), pick);
  bestChart.el.insertBefore(picker, bestChart.box);
  const jobs = jobsView({ hardware: name, limit: 8, onEnd: () => refresh() });
  let now = null, tasks = [], scattered = 0, drawn = "";

  const el = [h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: "#/" }, "Overview"), " › ", h("span", { "aria-current": "page" }, name)),
    head, steps, facts, uploadForm(name, () => refresh()), jobs.el,
    h("section", { class: "card", "aria-labelledby": "models-title" }, modelsBody),
    h("div", { class: "pair" }, qualityChart.el, scatterChart.el), bestChart.el,
    h("section", { class: "card", "aria-labelledby": "tasks-title" }, h("h2", { id: "tasks-title" }, "Tasks"), tasksBody)];

  // Runs what a button asks for; the reason of a refusal is told.
  const doing = (what, f) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      await f();
    } catch (e) {
      toast(`${what}: ${e.message}.`, true);
    } finally {
      button.disabled = false;
      refresh();
    }
  };
  const others = async () => (await list("v1/hardware")).items.map((x) => x.name).filter((n) => n !== name);
  const askRetrain = doing("Retrain", async () => (await dialogs()).retrain(name, await others()));
  const askEvaluate = doing("Evaluate", async () => {
    const j = await act("POST", hw(name, "/evaluate"), {});
    toast(`Job ${j.id} (evaluate) is ${j.state}.`);
  });
  const askSelect = doing("Choose", async () => (await dialogs()).select(name, count(now.counts.candidates.pooled)));
  const activate = (id, what) => doing(what, async () => {
    await act("POST", hw(name, "/activate"), { model: id });
    toast(`${what}: model ${id} answers for ${name} now.`);
  });

  function drawHead() {
    const button = (text, key, f, more) => h("button", { type: "button", key, onclick: f, ...more }, text);
    const ready = now.counts.valid >= 32;
    swap(head, [now.target, now.family, now.kind, ready, now.model?.id, now.counts.candidates.pooled > 0], () => h("div", { class: "head" },
      h("div", {}, h("h1", {}, name), h("p", { class: "sub" }, `${now.kind}, family ${now.family}, `, h("code", {}, now.target))),
      h("div", { class: "buttons" },
        button("Change…", "change", doing("Change", async () => (await dialogs()).editHardware(now))),
        now.counts.candidates.pooled > 0 && button("Choose what to measure…", "select", askSelect),
        now.model && button("Evaluate", "evaluate", askEvaluate),
        button("Retrain…", "retrain", askRetrain, { class: ready ? "primary" : null }))));
  }

  // Until everything was done once: what comes next.
  function drawSteps(evaluated) {
    const done = [true, now.counts.valid >= 32, Boolean(now.active_model), evaluated];
    const text = ["Register the hardware", `Import a log with 32 valid measurements or more (${count(now.counts.valid)} so far)`, "Train a model: Retrain…", "Check it: Evaluate"];
    const next = done.indexOf(false);
    swap(steps, [done, text], () => (next < 0 ? [] : h("section", { class: "card steps", "aria-labelledby": "steps-title" }, h("h2", { id: "steps-title" }, "Next steps"),
      h("ol", {}, text.map((t, i) => h("li", { class: done[i] ? "done" : i === next ? "next" : null }, t, done[i] ? h("span", { class: "sr" }, " (done)") : null))))));
  }

  function drawFacts() {
    const c = now.counts, q = c.candidates;
    const tile = (label, value, sub) => h("div", {}, h("dt", {}, label), h("dd", {}, value, sub && h("span", { class: "sub" }, " ", sub)));
    swap(facts, [c, now.model, now.staleness, now.drift], () => [
      tile("Measurements", count(c.measurements), `${count(c.failures)} failed`),
      tile("Programs", count(c.programs), `in ${count(c.tasks)} tasks`),
      tile("Model", now.model ? String(now.model.id) : "none", now.model ? (now.model.role === "kb" ? "of the family" : time(now.model.created, " old")) : null),
      tile("New since model", count(now.staleness), now.staleness !== null && "measurements"),
      tile("Drift", ...drift(now)),
      tile("Queue", count(q.selected + q.leased), `${count(q.pooled)} pooled, ${count(q.leased)} leased`),
    ]);
  }

  function drawModels(models) {
    const at = models.findIndex((m) => m.active);
    const back = at >= 0 ? models.slice(at + 1).find((m) => m.state !== "rejected" && m.role === models[at].role) : null;
    const columns = [
      { label: "Model", cell: (m) => [String(m.id), " ", h("span", { class: "sub" }, m.role === "kb" ? "knowledge base" : "")] },
      { label: "State", cell: (m) => h("span", { class: `state ${m.active ? "active" : m.state}` }, m.active ? "active" : m.state) },
      { label: "Made", num: true, cell: (m) => time(m.created, " ago") },
      { label: "Learned from", num: true, cell: (m) => [count(m.records), h("div", { class: "sub" }, `${count(m.tasks)} tasks`)] },
      { label: "Top-1", unit: "%", num: true, cell: (m) => share(good(m).top1_mean) },
      { label: "Top-5", unit: "%", num: true, cell: (m) => share(good(m).top5_mean) },
      { label: "Pairwise", unit: "%", num: true, cell: (m) => share(good(m).pairwise) },
      { label: "Median error", num: true, cell: (m) => factor(good(m).latency_median_ln_error) },
      { label: "Parents", cell: (m) => (m.parents.length ? m.parents.map((p) => p.id ?? p).join(", ") : NONE) },
      { label: "Decision", wide: true, cell: (m) => m.metrics?.reason || (m.state === "imported" ? "imported" : NONE) },
      { label: "Action", cell: (m) => (m.active ? h("span", { class: "sub" }, "answers now")
        : h("button", { type: "button", key: `activate-${m.id}`, "aria-label": `Activate model ${m.id}`, onclick: activate(m.id, "Activated") }, "Activate")) },
    ];
    swap(modelsBody, models, () => [h("div", { class: "head" }, h("h2", { id: "models-title" }, "Models"),
      back && h("button", { type: "button", key: "rollback", onclick: activate(back.id, "Rolled back") }, `Roll back to model ${back.id}`)),
    models.length ? table(`Models of ${name} and its family, newest first`, columns, models, (m) => m.id)
      : empty(now.counts.valid >= 32 ? "No model yet. Press Retrain: the first one is activated at once." : "No model yet. Import a log first; a model needs 32 valid measurements.")]);
  }

  function drawTasks(more) {
    const columns = [
      { label: "Task", wide: true, cell: (t) => [workload(t.workload_key), h("div", { class: "sub digits" }, t.task)] },
      { label: "Programs", num: true, cell: (t) => count(t.programs) },
      { label: "Measurements", num: true, cell: (t) => count(t.measurements) },
      { label: "Failed", num: true, cell: (t) => count(t.failures) },
      { label: "Best", num: true, cell: (t) => seconds(t.best_seconds) },
    ];
    swap(tasksBody, tasks, () => tasks.length
      ? h("details", { key: "tasks" }, h("summary", {}, `${count(tasks.length)}${more ? " and more" : ""} tasks, most measured first`), table(`Tasks of ${name}`, columns, tasks, (t) => t.task))
      : empty("No task yet: tasks come with the first measurements."));
    picker.hidden = !tasks.length;
    const chosen = pick.value;
    pick.replaceChildren(h("option", { value: "" }, `the ${Math.min(CURVES, tasks.length)} most measured, relative to their best`),
      ...tasks.slice(0, 100).map((t) => h("option", { value: t.task }, workload(t.workload_key))));
    pick.value = tasks.some((t) => t.task === chosen) ? chosen : "";
  }

  async function curves() {
    const of = pick.value ? tasks.filter((t) => t.task === pick.value) : tasks.slice(0, CURVES);
    const key = of.map((t) => `${t.task} ${t.measurements}`).join();
    if (key === drawn && bestChart.box.firstChild) return;
    drawn = key;
    const all = await Promise.all(of.map((t) => get(hw(name, `/tasks/${t.task}/best-so-far`))));
    bestChart.set(bestSoFar(all.map((c, i) => ({ ...c, name: workload(of[i].workload_key) })), !pick.value));
  }

  async function evaluations() {
    const { items } = await list(hw(name, "/evaluations"), 100);
    qualityChart.set(quality([...items].reverse()));
    const newest = items.find((v) => v.result.source === "evaluate" && v.job);
    if (!newest) {
      scatterChart.set({ none: now.model ? "No evaluation with single programs yet. Press Evaluate: it takes seconds." : "Needs a model: import a log, then press Retrain." });
    } else if (newest.id !== scattered) {
      const job = await get(`v1/jobs/${newest.job}`);
      const byId = new Map(tasks.map((t) => [t.task, workload(t.workload_key)]));
      scatterChart.set(job.result?.points ? { ...scatter(job.result.points, job.result.per_task, (id) => byId.get(id) || id), id: `scatter-${newest.id}` }
        : { none: "That evaluation kept no single programs. Press Evaluate for a new one." });
      scattered = newest.id;
    }
    return Boolean(newest);
  }

  async function refresh() {
    now = await details(name);
    drawHead();
    drawFacts();
    const [own, family, page] = await Promise.all([list(hw(name, "/models"), 50), list(`v1/families/${encodeURIComponent(now.family)}/models`, 20).catch(() => ({ items: [] })), list(hw(name, "/tasks"), TASKS), jobs.refresh()]);
    drawModels([...own.items, ...family.items].sort((a, b) => b.id - a.id));
    tasks = page.items.sort((a, b) => b.measurements - a.measurements);
    drawTasks(page.more);
    const [evaluated] = await Promise.all([evaluations(), curves()]);
    drawSteps(evaluated);
    performance.getEntriesByName("ready").length || performance.mark("ready");
  }

  return { title: `${name} – tcld`, el, refresh, gone() {
    jobs.gone();
    for (const c of [qualityChart, scatterChart, bestChart]) c.gone();
  } };
}
