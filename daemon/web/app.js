// Which page is shown, when it is refreshed, and what the top line says.
import { get, text, hasToken, onDenied } from "./api.js";
import { h, keepTime, toast } from "./dom.js";
import { overview } from "./overview.js";

const askToken = async (e) => (await import("./dialogs.js")).askToken(e);
const REFRESH_MS = 5000;
const main = document.getElementById("main"), health = document.getElementById("health"), tokenButton = document.getElementById("token"),
  version = document.getElementById("version");
let page = null, busy = false, timer = 0;

onDenied(async (error) => {
  const given = await askToken(error);
  showToken();
  return given && hasToken();
});

function showToken() {
  tokenButton.textContent = hasToken() ? "Token set" : "Token…";
}

// One line where the page failed to load; gone with the next success.
function trouble(e) {
  const box = document.getElementById("trouble");
  box?.remove();
  if (!e) return;
  const line = h("p", { id: "trouble", class: "notice", role: "alert" });
  if (e.denied) line.append(e.status === 401 ? "The server wants a token to show this. " : `${e.message}. `, h("button", { type: "button", onclick: () => changeToken(e) }, "Give a token…"));
  else if (e.status === 404) line.append(`${e.message}. `, h("a", { href: "#/" }, "Back to the overview"));
  else line.append(`Not up to date: ${e.message}.`);
  main.prepend(line);
}

async function changeToken(error) {
  if (await askToken(error)) {
    showToken();
    await refresh();
  }
}

async function ready() {
  try {
    await text("readyz");
    return ["ok", "ready"];
  } catch (e) {
    return e.status ? ["warn", "not ready"] : ["bad", "no answer"];
  }
}

async function refresh() {
  if (busy) return;
  busy = true;
  clearTimeout(timer);
  const shown = page;
  let wrong = null;
  try {
    await shown.refresh();
  } catch (e) {
    if (!e.status && e.status !== 0) console.error(e);
    wrong = e;
  }
  busy = false;
  if (shown === page) {
    const old = document.getElementById("trouble")?.dataset.text;
    if (old !== wrong?.message) {
      trouble(wrong);
      if (wrong && document.getElementById("trouble")) document.getElementById("trouble").dataset.text = wrong.message;
    }
    const [state, word] = await ready();
    if (health.textContent !== word) {
      health.className = `health ${state}`;
      health.textContent = word;
    }
  } else {
    return refresh();
  }
  if (!wrong && !version.textContent) {
    const v = await get("v1").catch(() => null);
    if (v) version.textContent = `tcld ${v.version}, features ${v.features_version}, ${v.build}`;
  }
  keepTime();
  clearTimeout(timer);
  timer = setTimeout(refresh, document.hidden ? 6 * REFRESH_MS : REFRESH_MS);
}

const go = (hash) => { location.hash = hash; };

async function route() {
  const m = /^#\/hardware\/([a-z0-9][a-z0-9._-]*)$/.exec(location.hash);
  if (location.hash === "#main") return;
  const asked = location.hash, hardware = m && (await import("./hardware.js")).hardware;
  if (asked !== location.hash) return; // gone on meanwhile
  const first = page === null;
  page?.gone();
  page = m ? hardware(m[1]) : overview(go);
  document.title = page.title;
  main.replaceChildren(...page.el);
  if (!first) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  refresh();
}

tokenButton.addEventListener("click", () => changeToken(null));
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("unhandledrejection", (e) => {
  e.preventDefault();
  toast(String(e.reason?.message || e.reason), true);
});
route();
