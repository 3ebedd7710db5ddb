// What the dashboard's tests share: a tcld of their own, and pages of a headless Chromium in which every console error,
// every page error and every break of the content security policy is kept.
import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const need = createRequire(join(process.env.WORK, "package.json"));
const { chromium } = need("playwright-core");
const AXE = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");
const DEMO = new URL("../data/demo/", import.meta.url).pathname;

export const batch = new URL("../data/batches/matmul_512.call1.json.gz", import.meta.url).pathname;
export const demo = () => readdirSync(DEMO).filter((f) => f.endsWith(".json")).sort().map((f) => join(DEMO, f));

export class Daemon {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), "tcld-web-"));
  }
  // A fresh token of a role, kept in this.tokens as its hash.
  token(role) {
    this.tokens = join(this.dir, "tokens");
    return execFileSync(process.env.TCLD, [`--new-token=${role}`, `--token-name=web-${role}`, `--tokens-file=${this.tokens}`], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  }
  async start(port = 0, more = []) {
    const file = join(this.dir, "port");
    rmSync(file, { force: true });
    this.child = spawn(process.env.TCLD, [`--state-dir=${this.dir}/state`, `--listen=127.0.0.1:${port}`, `--port-file=${file}`, ...more], { stdio: ["ignore", "ignore", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (d) => { this.log += d; });
    for (let i = 0; i < 400 && !existsSync(file); i++) {
      if (this.child.exitCode !== null) throw new Error(`tcld ended: ${this.log}`);
      await sleep(50);
    }
    this.port = Number(readFileSync(file, "utf8"));
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }
  async stop() {
    if (this.child.exitCode !== null) return;
    const over = new Promise((f) => this.child.once("exit", f));
    this.child.kill("SIGTERM");
    await over;
  }
  async end() {
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [], // Chromium's sandbox does not run as root
});

// A page in a context of its own. page.wrong: what must not happen; expected(url, text): a refusal that a test provokes,
// which Chromium reports as a console error.
export async function open(browser, { width = 1280, height = 900, scheme = "light", expected = () => false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.wrong = [];
  page.bytes = 0;
  page.on("console", (m) => {
    const url = m.location().url || "";
    if (m.type() === "error" && !(m.text().startsWith("Failed to load resource") && expected(url))) page.wrong.push(`${m.text()} ${url}`);
  });
  page.on("pageerror", (e) => page.wrong.push(e.stack));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  });
  const wire = await context.newCDPSession(page);
  await wire.send("Network.enable");
  wire.on("Network.loadingFinished", (e) => { page.bytes += e.encodedDataLength; });
  return page;
}

export const ready = (page) => page.waitForFunction(() => performance.getEntriesByName("ready").length > 0);

// Findings of axe-core that are serious or critical, one line each. axe is evaluated by the debugger, which the policy of
// the page does not bind.
export async function axe(page) {
  await page.evaluate(AXE);
  const r = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + " " + (n.any[0]?.message || "")).join(" | ")}`);
}

export const shot = (page, name) => page.screenshot({ path: join(process.env.WORK, `${name}.png`), fullPage: true });
