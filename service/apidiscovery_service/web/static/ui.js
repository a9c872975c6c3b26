"use strict";

// Ages beside times: "4 minutes ago". Without scripts the page shows the time itself.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const words = new Intl.RelativeTimeFormat("en", { numeric: "always" });

function showAges(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const seconds = Math.round((new Date(time.dateTime) - Date.now()) / 1000);
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
    const text = words.format(Math.trunc(seconds / size), unit);
    if (time.textContent !== text) time.textContent = text;
  }
}

class ThemeSwitch extends HTMLElement {
  connectedCallback() {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Dark";
    button.title = "Switch between light and dark";
    const root = document.documentElement;
    const isDark = () => root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const tell = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      tell();
    });
    tell();
    this.replaceChildren(button);
  }
}

class CopyButton extends HTMLElement {
  connectedCallback() {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = this.getAttribute("label") ?? "Copy";
    button.addEventListener("click", async () => {
      const source = document.getElementById(this.getAttribute("from") ?? "");
      const path = this.getAttribute("href");
      const text = path ? new URL(path, location.href).href
        : this.getAttribute("text") ?? source?.textContent ?? "";
      const before = button.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        if (source) getSelection()?.selectAllChildren(source);
        button.textContent = source ? "Selected: press Ctrl+C" : "Cannot copy";
      }
      setTimeout(() => { button.textContent = before; }, 1500);
    });
    this.replaceChildren(button);
  }
}

customElements.define("theme-switch", ThemeSwitch);
customElements.define("copy-button", CopyButton);

// Live: the server says that something has changed; the page asks for itself again and takes over
// the parts marked `data-live` that differ. Parts keep their place, and changed lines are marked.
function lines(part) {
  return new Map([...part.querySelectorAll("[data-key]")].map((line) => [line.id, line]));
}

function shown(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.textContent = "";
  copy.classList.remove("changed");
  for (const line of copy.querySelectorAll(".changed")) line.classList.remove("changed");
  return copy.outerHTML.replaceAll(' class=""', "");
}

function takeOver(fresh) {
  let count = 0;
  for (const part of document.querySelectorAll("[data-live]")) {
    const after = fresh.getElementById(part.id);
    if (!after || shown(part) === shown(after) || part.contains(document.activeElement)) continue;
    const before = lines(part);
    for (const [id, line] of lines(after)) {
      const old = before.get(id);
      if (!old || shown(old) !== shown(line)) line.classList.add("changed");
    }
    part.replaceWith(document.adoptNode(after));
    window.htmx?.process(after);
    showAges(after);
    count += 1;
  }
  return count;
}

let etag = "";
let asking = false;
let again = false;

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const headers = etag ? { "If-None-Match": etag } : {};
    const response = await fetch(location.href, { headers, cache: "no-store" });
    if (response.status === 200) {
      etag = response.headers.get("ETag") ?? "";
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (takeOver(page)) say(`Updated ${new Date().toLocaleTimeString()}`);
    }
  } catch {
    say("The server does not answer. This page shows what it said last.");
  } finally {
    asking = false;
    if (again) { again = false; refresh(); }
  }
}

function say(text) {
  document.querySelector(".live").textContent = text;
}

function follow() {
  if (!document.querySelector("[data-live]")) return;
  const source = new EventSource(document.body.dataset.events);
  let broken = false;
  source.addEventListener("changed", refresh);
  // What has changed since this page was made, or while the connection was broken, was not told.
  source.addEventListener("open", () => { if (broken) say(""); broken = false; refresh(); });
  source.addEventListener("error", () => {
    broken = true;
    say("The server does not answer. This page shows what it said last.");
  });
  addEventListener("pagehide", () => source.close());
}

// "/" goes to the search box, as on most sites.
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.querySelector("#q, .find input")?.focus();
  }
});

// Kinds: a link to a field, such as #spec.strategy, opens the tree down to it.
function openField() {
  let path = location.hash.slice(1);
  try { path = decodeURIComponent(path); } catch { return; }
  if (!path || !document.querySelector("[data-fields]") || document.getElementById(path)) return;
  const url = new URL(location.href);
  if (url.searchParams.get("field") === path) return;
  url.searchParams.set("field", path);
  url.searchParams.delete("from");
  location.replace(url);
}

openField();
addEventListener("hashchange", openField);
showAges(document);
setInterval(() => showAges(document), 10000);
addEventListener("htmx:load", (event) => showAges(event.detail.elt));
follow();
