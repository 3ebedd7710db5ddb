// The dashboard as its users meet it, in headless Chromium against a real tcld. The tests share one daemon and follow one
// another: the first one brings the data that the others look at.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { createServer } from "node:http";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { Daemon, axe, batch, demo, launch, open, ready, shot } from "./browser.mjs";

// Models of one family: 1 came with tcld, the first adapt makes one for the hardware and the family's next.
const OWN = 2, SECOND = 4;
const HW = "host-avx512", PHONE = { width: 390, height: 844 };
let daemon, browser;

before(async () => {
  daemon = await new Daemon().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await daemon?.end();
});

const clean = async (page) => {
  assert.deepEqual(page.wrong, []);
  await page.context().close();
};
const say = (page, text) => page.getByText(text).first().waitFor({ timeout: 60000 });
const api = async (path) => (await fetch(daemon.url + path)).json();

test("an empty server says what to do, and a newcomer gets from there to a rolled-back model by the page alone", { timeout: 480000 }, async () => {
  const page = await open(browser);
  await page.goto(daemon.url);
  await say(page, "No hardware is registered.");
  assert.deepEqual(await axe(page), []);
  await shot(page, "empty");

  // register, by keyboard
  await page.getByRole("button", { name: "Register hardware…" }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Name").fill("Not A Name");
  await page.keyboard.press("Tab");
  await page.keyboard.type("llvm -mcpu=skylake-avx512");
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("dialog").isVisible(), true, "a name that the API refuses is not sent");
  await page.getByLabel("Name").fill(HW);
  assert.deepEqual(await axe(page), []);
  await shot(page, "register");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: HW }).waitFor();
  await say(page, "Next steps");
  assert.deepEqual(await axe(page), []);
  await shot(page, "registered");

  // import: plain, gzip, and a file with a line that is no record
  const [first, second, ...rest] = demo();
  const zipped = join(daemon.dir, "second.json.gz"), torn = join(daemon.dir, "torn.json");
  writeFileSync(zipped, gzipSync(readFileSync(second)));
  writeFileSync(torn, readFileSync(first, "utf8").split("\n").slice(0, 3).join("\n") + "\n{\"i\": 7}\n");
  await page.getByLabel("Log files").setInputFiles([...rest, first, zipped, torn]);
  await page.getByRole("button", { name: "Import" }).click();
  await say(page, /17 files|18 files/);
  await say(page, /torn\.json:4: /);
  const packed = join(daemon.dir, "two-in-one.json.gz"); // browsers read the first only
  writeFileSync(packed, Buffer.concat([gzipSync(readFileSync(first)), gzipSync(readFileSync(second))]));
  await page.getByLabel("Log files").setInputFiles(packed);
  await page.getByRole("button", { name: "Import" }).click();
  await say(page, /two-in-one\.json\.gz cannot be read to its end; if it is several gzip files in one, unpack it first/);
  await say(page, /^Stopped: 0 accepted, 0 duplicates, 0 rejected/);
  const counts = (await api(`/v1/hardware/${HW}`)).counts;
  assert.equal(counts.measurements, 2288);
  assert.equal(counts.tasks, 17);

  // adapt what the family knows, and watch: the bar moves without a reload
  const adapt = async (perTask, epochs, seed, activate) => {
    await page.getByRole("button", { name: "Retrain…" }).click();
    await page.getByLabel("Mode", { exact: true }).selectOption("adapt");
    await page.getByLabel("Activate the new model").selectOption(activate);
    await page.getByText("More", { exact: true }).click();
    await page.getByLabel("Programs per task, at most").fill(String(perTask));
    await page.getByLabel("Epochs").fill(String(epochs));
    await page.getByLabel("Seed").fill(String(seed));
    assert.deepEqual(await axe(page), []);
    await page.getByRole("dialog").getByRole("button", { name: "Retrain" }).click();
  };
  await adapt(100, 5, 3, "auto"); // better than what tcld knew with each of five seeds
  const bar = page.getByRole("progressbar", { name: "Progress of job 1" });
  await bar.waitFor();
  const seen = new Set();
  for (let i = 0; i < 3600 && (await bar.count()); i++) {
    seen.add(await bar.evaluate((e) => e.value, null, { timeout: 1000 }).catch(() => null));
    await page.waitForTimeout(50);
  }
  assert.ok(seen.size >= 3, `progress moved: ${[...seen]}`);
  await say(page, `model ${OWN} activated`);
  await page.getByRole("row", { name: new RegExp(`^${OWN} .*answers now`) }).waitFor();
  const { result } = await api("/v1/jobs/1");
  assert.deepEqual([result.start, result.against_kb.decision, result.kb.decision], ["warm", "activated", "accepted"]);

  // a second model, made active, then back
  await adapt(48, 1, 5, "never");
  await say(page, `model ${SECOND} kept as candidate`);
  await page.getByRole("button", { name: `Activate model ${SECOND}` }).click();
  await page.getByRole("button", { name: `Roll back to model ${OWN}` }).click();
  await say(page, `Rolled back: model ${OWN} answers`);
  assert.equal((await api(`/v1/hardware/${HW}`)).active_model, OWN);

  // check it: points to look at
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.getByRole("img", { name: /Predicted against measured\. [\d,]+ programs/ }).waitFor({ timeout: 60000 });
  assert.equal(await page.getByText("Next steps").count(), 0, "all steps are done");

  // what to measure next
  await page.getByLabel("They hold").selectOption("candidates");
  await page.getByLabel("Log files").setInputFiles(batch);
  await page.getByRole("button", { name: "Import" }).click();
  await page.getByRole("button", { name: "Choose what to measure…" }).click();
  assert.deepEqual(await axe(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Choose" }).click();
  await say(page, /\d+ of [\d,]+ candidates chosen \(rdu\)/);
  assert.ok((await api(`/v1/hardware/${HW}`)).counts.candidates.selected > 100);
  await clean(page);
});

test("the policy forbids what is not a file of the daemon, and these tests would notice", { timeout: 30000 }, async () => {
  const page = await open(browser);
  await page.goto(daemon.url);
  await ready(page);
  await page.evaluate(() => {
    const style = document.createElement("style");
    style.textContent = "body { color: red }";
    document.head.append(style);
  });
  await page.waitForTimeout(200);
  assert.match(page.wrong.join(), /policy: style-src/);
  await assert.rejects(page.evaluate(() => { document.body.innerHTML = "<b>text</b>"; }), /TrustedHTML/);
  await page.context().close();
});

test("both pages are free of serious findings in light, dark and at phone width, and nothing is cut off", { timeout: 120000 }, async () => {
  for (const [name, options] of [["light", {}], ["dark", { scheme: "dark" }], ["phone", PHONE], ["phone-dark", { ...PHONE, scheme: "dark" }]])
    for (const [what, path] of [["overview", "/"], ["hardware", `/#/hardware/${HW}`]]) {
      const page = await open(browser, options);
      await page.goto(daemon.url + path);
      await ready(page);
      await page.locator(".uplot").first().waitFor({ timeout: 20000 });
      if (what === "hardware") await page.getByText("Show the numbers").first().click();
      assert.deepEqual(await axe(page), [], `${what}, ${name}`);
      const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(inner <= outer, `${what}, ${name}: ${inner} px of content in ${outer} px`);
      await shot(page, `${what}-${name}`);
      for (const label of name.startsWith("phone") ? { overview: ["Register hardware…"], hardware: ["Change…", "Retrain…"] }[what] : []) {
        await page.getByRole("button", { name: label }).click();
        const dialog = page.getByRole("dialog");
        await dialog.locator("summary").click();
        const cut = await dialog.evaluate((d) => [...d.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > innerWidth).length);
        assert.equal(cut, 0, `${label}, ${name}: parts of the dialog are beyond the edge`);
        assert.deepEqual(await axe(page), [], `${label}, ${name}`);
        await shot(page, `${label.split(/\W/)[0].toLowerCase()}-${name}`);
        await page.keyboard.press("Escape");
      }
      await clean(page);
    }
});

// A page of nothing but a script that says "ready": what Chromium and the machine take by themselves.
async function bare() {
  const server = createServer((q, r) => {
    r.setHeader("Content-Type", q.url === "/" ? "text/html" : "text/javascript");
    r.end(q.url === "/" ? "<!doctype html><html lang=\"en\"><link rel=\"icon\" href=\"data:,\"><title>bare</title><body>bare<script type=\"module\" src=\"a.js\"></script>"
      : "performance.mark(\"ready\"); fetch(\"readyz\");");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

// A first visit in a window of its own: {wall, computed} ms until the page is ready. Chromium loads a start page of its
// own with each window, and a script that looks at the page takes time from it: the visit begins after the one and ends
// before the other, with the request that a ready page sends.
async function visit(url) {
  const page = await open(browser);
  const timing = await page.context().newCDPSession(page);
  await timing.send("Performance.enable", { timeDomain: "threadTicks" });
  const work = async () => (await timing.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
  await page.waitForTimeout(1000);
  const at = await work(), over = page.waitForRequest((r) => r.url().endsWith("/readyz"));
  await page.goto(url);
  await over;
  const computed = 1000 * (await work() - at);
  await ready(page);
  const wall = await page.evaluate(() => performance.getEntriesByName("ready")[0].startTime);
  await clean(page);
  return { wall, computed };
}

test("the page is ready within 200 ms", { timeout: 240000 }, async () => {
  const middle = (visits, key) => visits.map((v) => v[key]).sort((a, b) => a - b)[visits.length >> 1];
  const nothing = await bare(), pages = [], bares = [];
  let wall, limit;
  for (let i = 1; i <= 15 && !(wall <= 200); i++) {
    bares.push(await visit(nothing.url));
    pages.push(await visit(daemon.url));
    if (i % 5) continue;
    wall = middle(pages.slice(-5), "wall");
    limit = Math.max(200, 8 * middle(bares.slice(-5), "wall")); // 8: where nobody else uses the machine a bare page takes 25 ms
    console.log(`  ready after ${wall.toFixed(0)} ms, a bare page after ${middle(bares.slice(-5), "wall").toFixed(0)} ms`);
  }
  nothing.close();
  const computed = middle(pages, "computed");
  console.log(`  ${computed.toFixed(0)} ms of it computed by the page`);
  assert.ok(wall <= limit, `ready after ${wall} ms; at most ${limit} ms`);
  assert.ok(computed <= 100, "what the page computes until it is ready hardly depends on who else uses the machine");
});

test("the page is light", { timeout: 60000 }, async () => {
  const page = await open(browser);
  const drawn = async () => { // with all that it loads for its charts
    await page.locator(".uplot").first().waitFor({ timeout: 20000 });
    await page.waitForLoadState("networkidle").catch(() => {});
  };
  await page.goto(daemon.url);
  await drawn();
  const cold = page.bytes;
  await page.reload();
  await drawn();
  const again = await page.evaluate(() => performance.getEntriesByType("resource").filter((r) => r.name.includes("/web/")).map((r) => r.transferSize));
  console.log(`  ${(cold / 1000).toFixed(1)} kB`);
  assert.ok(cold > 0 && cold <= 150000, `${cold} bytes`);
  assert.ok(again.length > 5 && again.every((n) => n === 0), `files are kept: ${again}`);
  await clean(page);
});

test("keyboard: skip link, focus kept by a dialog and given back", { timeout: 60000 }, async () => {
  const page = await open(browser);
  await page.goto(daemon.url);
  await ready(page);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  const button = page.getByRole("button", { name: "Register hardware…" });
  await button.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null), "focus stays in the dialog");
  }
  await page.keyboard.press("Escape");
  assert.equal(await button.evaluate((b) => b === document.activeElement), true);
  await page.getByRole("link", { name: HW }).first().focus();
  await page.waitForTimeout(6000); // a refresh later
  assert.equal(await page.evaluate(() => document.activeElement.textContent), HW, "a refresh takes no focus");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: HW }).waitFor();
  await clean(page);
});

test("a server with tokens: the page asks for one, says which role is missing, goes on, and stores it nowhere", { timeout: 90000 }, async () => {
  const reader = daemon.token("predict"), operator = daemon.token("operate");
  await daemon.stop();
  await daemon.start(0, [`--tokens-file=${daemon.tokens}`]);
  const active = async () => (await (await fetch(`${daemon.url}/v1/hardware/${HW}`, { headers: { Authorization: `Bearer ${reader}` } })).json()).active_model;
  const page = await open(browser, { expected: () => true });
  const give = async (token) => {
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.keyboard.press("Enter");
  };
  await page.goto(daemon.url);
  await say(page, "The server wants a token to show this.");
  assert.deepEqual(await axe(page), []);
  await page.getByRole("button", { name: "Give a token…" }).click();
  await give(reader);
  await page.getByRole("link", { name: HW }).first().click();
  await page.getByRole("button", { name: `Activate model ${SECOND}` }).click();
  await say(page, "This needs another role");
  assert.deepEqual(await axe(page), []);
  await shot(page, "refused");
  await page.keyboard.press("Escape");
  await page.getByText(/^Activated: /).waitFor();
  assert.equal(await active(), OWN);
  await page.getByRole("button", { name: `Activate model ${SECOND}` }).click();
  await give(operator);
  await say(page, `model ${SECOND} answers`);
  assert.equal(await active(), SECOND);
  await page.getByRole("button", { name: "Evaluate" }).click();
  await say(page, /Job \d+ \(evaluate, host-avx512\) succeeded/); // followed with the token
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
  await page.reload();
  await say(page, "The server wants a token to show this.");
  await clean(page);
  await daemon.stop();
  await daemon.start();
});

test("what hardware learns from hardware is a matrix", { timeout: 60000 }, async () => {
  await fetch(`${daemon.url}/v1/hardware/xeon-8272`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: "{\"target\": \"llvm -mcpu=core-avx2\"}" });
  const real = await open(browser, { expected: (url) => url.endsWith("/similar") });
  const row = (p) => p.getByRole("region", { name: "Transfer matrix" }).getByRole("row", { name: /^xeon-8272/ });
  await real.route("**/similar", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: "{\"type\": \"urn:tcld:problem:busy\", \"status\": 503, \"title\": \"Busy\", \"detail\": \"too much to do\"}" }));
  await real.goto(daemon.url);
  await say(real, "Not available: too much to do.");
  await real.unroute("**/similar");
  await row(real).waitFor({ timeout: 20000 });
  const { items } = await api("/v1/hardware/xeon-8272/similar");
  assert.match(await row(real).textContent(), new RegExp(items[0].similarity.toFixed(2)));
  await clean(real);

  const page = await open(browser);
  await page.route("**/similar", (route) => {
    const other = route.request().url().includes("xeon") ? HW : "xeon-8272";
    route.fulfill({ json: { items: [{ hardware: other, similarity: 0.82, measured_transfer_gain: other === HW ? 0.031 : null, recommended: other === HW, reason: "probe concordance" }] } });
  });
  await page.route(/\/v1\/hardware\?/, async (route) => {
    const response = await route.fetch(), list = await response.json();
    list.items.find((x) => x.name === HW).drift = { model: SECOND, programs: 300, error_ln: 0.3, bias_ln: 0.1, base_ln: 0.2, ratio: 1.5 };
    await route.fulfill({ response, json: list });
  });
  await page.goto(daemon.url);
  await row(page).waitFor();
  await say(page, "× 1.50");
  assert.match(await row(page).textContent(), /0\.82 ✓ recommended\+3\.1 points/);
  assert.deepEqual(await axe(page), []);
  await shot(page, "transfer");
  await clean(page);
});

test("the page survives a restart of the daemon", { timeout: 90000 }, async () => {
  const page = await open(browser, { expected: () => true });
  await page.goto(daemon.url);
  await say(page, "ready");
  await daemon.stop();
  await say(page, "no answer");
  await say(page, "Not up to date");
  assert.ok(await page.getByRole("link", { name: HW }).first().isVisible(), "what was known stays");
  await daemon.start(daemon.port);
  await page.locator("#health", { hasText: /^ready$/ }).waitFor({ timeout: 30000 });
  assert.equal(await page.getByText("Not up to date").count(), 0);
  await clean(page);
});
