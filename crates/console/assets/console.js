// @ts-check
// What pages do beyond links and forms: live rows, times, copying, keys. Every page works without it.

/** @param {string} selector @param {ParentNode} [within] */
const all = (selector, within = document) => /** @type {HTMLElement[]} */ ([...within.querySelectorAll(selector)]);
/** @param {string} id */
const byId = (id) => document.getElementById(id);

/** @param {string} text */
function toast(text) {
  const box = byId("toast");
  if (!box) return;
  box.textContent = text;
  box.classList.add("on");
  setTimeout(() => box.classList.remove("on"), 1500);
}

// Times from here.
/** @param {number} seconds */
function about(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}
function tick() {
  for (const time of all("time[datetime]")) {
    const seconds = (Date.now() - Date.parse(time.getAttribute("datetime") ?? "")) / 1000;
    if (Number.isFinite(seconds)) time.textContent = seconds < 0 ? `in ${about(-seconds)}` : `${about(seconds)} ago`;
  }
}
setInterval(tick, 5000);

// Copying, and asking before what cannot be undone.
document.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const copied = target.closest("[data-copy]");
  if (copied && !getSelection()?.toString()) {
    navigator.clipboard?.writeText(copied.getAttribute("data-copy") || copied.textContent || "").then(() => toast("copied"));
  }
  const asked = target.closest("[data-sure]");
  if (asked && !confirm(asked.getAttribute("data-sure") ?? "")) event.preventDefault();
  if (target.closest("[data-palette]")) openPalette();
});

// A link from the terminal signs in by itself.
const entrance = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-submit]"));
entrance?.requestSubmit();

// Live: rows are appended once, pieces are replaced, both as the host made them.
const live = /** @type {HTMLElement | null} */ (document.querySelector("[data-live]"));
if (live) follow(live);

/** @param {HTMLElement} place */
function follow(place) {
  const sign = document.createElement("p");
  sign.id = "live";
  sign.setAttribute("role", "status");
  place.append(sign);
  /** @param {string} text @param {boolean} off */
  const say = (text, off) => { sign.textContent = text; sign.classList.toggle("off", off); };
  const connect = () => {
    const source = new EventSource(behind(place));
    source.addEventListener("open", () => say("live", false));
    source.addEventListener("error", () => {
      say("reconnecting …", true);
      // A broken connection the browser mends by itself; an answer that is no stream it takes for the last word.
      if (source.readyState === EventSource.CLOSED) setTimeout(lookAgain, 1000);
    });
    source.addEventListener("row", (event) => append(place, /** @type {MessageEvent} */ (event)));
    source.addEventListener("replace", (event) => replace(/** @type {MessageEvent} */ (event).data));
    source.addEventListener("done", () => { source.close(); say("", false); });
    addEventListener("pagehide", () => source.close());
  };
  // Signed out: the page leads to where one signs in. Back again: go on. Otherwise the host is still in trouble.
  const lookAgain = async () => {
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" }).catch(() => null);
    if (answer?.ok) connect();
    else if (answer?.type === "opaqueredirect") location.reload();
    else setTimeout(lookAgain, 1000);
  };
  connect();
}

/** The stream from behind the last row that is here. @param {HTMLElement} place */
function behind(place) {
  const url = new URL(place.dataset.live ?? "", location.href);
  const last = /** @type {HTMLElement | null | undefined} */ (place.querySelector("[data-rows]")?.lastElementChild);
  if (last?.dataset.last && Number(last.dataset.last) > Number(url.searchParams.get("after"))) url.searchParams.set("after", last.dataset.last);
  return url.href;
}

/** @param {string} html @returns {Element | null} */
function parse(html) {
  const box = document.createElement("template");
  box.innerHTML = html;
  return box.content.firstElementChild;
}

/** @param {HTMLElement} place @param {MessageEvent} event */
function append(place, event) {
  const rows = place.querySelector("[data-rows]");
  const row = /** @type {HTMLElement | null} */ (parse(event.data));
  if (!rows || !row) return;
  const last = /** @type {HTMLElement | null} */ (rows.lastElementChild);
  // Whoever comes back may be told again what it has.
  if (last && Number(row.dataset.last) <= Number(last.dataset.last)) return;
  const follows = nearEnd();
  const before = last?.dataset.join !== undefined && last.dataset.join === row.dataset.join ? last.querySelector(".piece") : null;
  if (before && last) {
    before.append(row.querySelector(".piece")?.textContent ?? "");
    last.dataset.last = row.dataset.last;
  } else {
    rows.append(row);
  }
  if (follows) scrollTo({ top: document.body.scrollHeight });
}

const nearEnd = () => scrollY > 0 && innerHeight + scrollY >= document.body.scrollHeight - 80;

/** @param {string} html */
function replace(html) {
  const piece = parse(html);
  const old = piece && byId(piece.id);
  if (!piece || !old) return;
  // Nobody loses what they ticked, typed or have open.
  const active = document.activeElement;
  if (active && old.contains(active) && active.matches("input:not([type=checkbox]), textarea, select")) return;
  const ticked = new Set(all("input:checked", old).map((box) => /** @type {HTMLInputElement} */ (box).value));
  const open = new Set(all("details[open][id]", old).map((box) => box.id));
  const here = all(".here", old)[0]?.querySelector("a")?.getAttribute("href");
  const focus = active && old.contains(active) ? active.getAttribute("href") : null;
  old.replaceWith(piece);
  for (const box of all("input[type=checkbox]", piece)) if (ticked.has(/** @type {HTMLInputElement} */ (box).value)) /** @type {HTMLInputElement} */ (box).checked = true;
  for (const id of open) byId(id)?.setAttribute("open", "");
  for (const link of all("a[href]", piece)) {
    if (link.getAttribute("href") === here) link.closest("tr, li")?.classList.add("here");
    if (focus && link.getAttribute("href") === focus) link.focus();
  }
}

// Keys.
/** @type {Record<string, string>} */
const PLACES = { o: "/", r: "/console/runs", i: "/console/inbox", a: "/console/agents", m: "/console/roster", w: "/console/workflows", t: "/console/triggers", s: "/console/schedules" };
let goes = false;
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); openPalette(); return; }
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select")) return;
  if (goes) { goes = false; const place = PLACES[event.key]; if (place) location.href = place; return; }
  const here = document.querySelector(".here");
  switch (event.key) {
    case "g": goes = true; setTimeout(() => { goes = false; }, 1500); break;
    case "/": case "?": event.preventDefault(); openPalette(); break;
    case "j": move(1); break;
    case "k": move(-1); break;
    case "Enter": if (here && !target.closest("a, button, summary")) here.querySelector("a")?.click(); break;
    case "a": /** @type {HTMLElement | null} */ (here?.querySelector("[data-key=a]"))?.click(); break;
    case "r": /** @type {HTMLElement | null} */ (here?.querySelector("[data-key=r]"))?.click(); break;
  }
});

/** @param {number} step */
function move(step) {
  const rows = all("[data-keys] tbody tr, [data-keys] > li");
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("here"));
  rows[at]?.classList.remove("here");
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest" });
}

// The palette asks the host for what it finds.
function openPalette() {
  const dialog = /** @type {HTMLDialogElement | null} */ (byId("palette"));
  const input = /** @type {HTMLInputElement | null} */ (dialog?.querySelector("input") ?? null);
  if (!dialog || !input || dialog.open) return;
  /** @type {HTMLElement} */ (document.querySelector("#nav"))?.hidePopover?.();
  dialog.showModal();
  input.value = "";
  find("");
  input.oninput = () => find(input.value);
  input.onkeydown = (event) => {
    const links = all("#found a");
    const at = links.findIndex((link) => link.parentElement?.classList.contains("here"));
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      links[at]?.parentElement?.classList.remove("here");
      links[Math.min(links.length - 1, Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1)))]?.parentElement?.classList.add("here");
    }
    if (event.key === "Enter" && links.length) { event.preventDefault(); (links[at] ?? links[0]).click(); }
  };
}

let asked = 0;
/** @param {string} text */
async function find(text) {
  const turn = ++asked;
  const answer = await fetch(`/console/find?part=1&q=${encodeURIComponent(text)}`);
  const list = byId("found");
  if (turn !== asked || !list || !answer.ok || answer.redirected) return;
  list.innerHTML = await answer.text();
  list.firstElementChild?.classList.add("here");
}
