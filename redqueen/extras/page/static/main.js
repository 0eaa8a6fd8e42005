// The page: which view the address asks for, its data, and the polling that follows a running run.

import { ago, clock, h } from "./dom.js";
import { zoomTo } from "./chart_view.js";
import { overview } from "./views/overview.js";
import { evaluation } from "./views/evaluation.js";
import { league } from "./views/league.js";
import { matrix } from "./views/matrix.js";
import { tree } from "./views/tree.js";
import { tasks } from "./views/tasks.js";
import { task } from "./views/task.js";
import { member } from "./views/member.js";
import { operators } from "./views/operators.js";
import { machine } from "./views/machine.js";
import { settings } from "./views/settings.js";
import { comparison } from "./views/comparison.js";
import { runs } from "./views/runs.js";

const POLL_MS = 2000;
const AGAIN_MS = 10000; // how often is read what can change without a new stamp
// Each view: {api, title, render(root, data, page)}; `fixed` views do not change while a run goes on. In those with
// `age(root, data, state)` something ages while there is nothing new.
const VIEWS = {
  "/": overview,
  "/evaluation": evaluation,
  "/league": league,
  "/matrix": matrix,
  "/tree": tree,
  "/tasks": tasks,
  "/task": task,
  "/member": member,
  "/operators": operators,
  "/machine": machine,
  "/settings": settings,
  "/compare": comparison,
  "/runs": runs,
};
const NAV = ["/", "/evaluation", "/league", "/matrix", "/tree", "/operators", "/tasks", "/machine", "/settings"];
const OF_FOLDER = ["/runs", "/compare"]; // views of all runs
const main = document.getElementById("main");
const notice = document.getElementById("notice");
// What is on the screen: {page, view, data, fixed, seen, failed}; its stamp, null where a view has none; and when it was
// read, null until it is there.
let shown = null;
let polling = false;
let several = false;

/** What the views are given: the query, and links that stay in the same run. */
function pageOf(url) {
  const query = url.searchParams;
  const run = query.get("run") ?? "";
  const link = (path, values = {}) => {
    const wanted = new URLSearchParams();
    if (run) wanted.set("run", run);
    for (const [name, value] of Object.entries(values))
      if (value !== null && value !== undefined && value !== "") wanted.set(name, value);
    const text = wanted.toString();
    return text ? `${path}?${text}` : path;
  };
  return {
    path: url.pathname,
    query,
    run,
    link,
    go,
    compareLink: (names) => `/compare?${new URLSearchParams(names.map((name) => ["with", name]))}`,
    memberLink: (name, text = name) => h("a", { href: link("/member", { name }) }, text),
  };
}

async function ask(name, query) {
  const response = await fetch(`/api/${name}?${query}`);
  const data = await response.json();
  if (!response.ok) throw new Error(data.error ?? `the server answered ${response.status}`);
  return data;
}

/** Goes to another address of the page, as a link does. */
function go(address) {
  history.pushState(null, "", address);
  return show();
}

async function show({ update = false } = {}) {
  const url = new URL(location.href);
  let page = pageOf(url);
  const list = several && !page.run && url.pathname !== "/compare";
  const view = list ? runs : VIEWS[url.pathname];
  // The steps that a reader looks at are those of one run, or of the runs that are compared.
  if (shown && (shown.page.run !== page.run || shown.page.path !== page.path)) zoomTo(null);
  if (!update) {
    main.setAttribute("aria-busy", "true");
    shown = { page, view, fixed: view?.fixed && !list, seen: shown?.seen, stamp: null, at: null };
  }
  const mine = shown; // until the reader goes on
  let state = null;
  try {
    if (!view) throw new Error(`there is no page ${url.pathname}`);
    // The state comes first, with its stamp: what is written while the view is read is then shown by the next poll.
    state = list || OF_FOLDER.includes(url.pathname) ? null : await ask("state", url.searchParams);
    const data = await ask(view.api, url.searchParams);
    if (shown !== mine) return; // the reader went on while this was read
    header(page, state, view);
    const focused = document.activeElement?.id;
    await view.render(main, data, { ...page, state });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    // After a link the reader goes on in the new view, and after a filter where the focus is. A page that has just been
    // opened is read from its top.
    const inside = main.contains(document.activeElement) && document.activeElement !== main;
    if (!update && mine.seen && !inside) main.focus({ preventScroll: true });
    Object.assign(mine, { data, seen: true, failed: false, stamp: state && `${state.stamp} ${state.course}` });
    notify("");
  } catch (error) {
    if (shown !== mine) return;
    // The stamp stays that of what is on the screen, so that the next poll tries again.
    if (update && !mine.failed) return notify(`The page could not be brought up to date (${error.message}). Trying again.`);
    mine.failed = true;
    header(page, state, view);
    main.replaceChildren(h("h1", {}, "This cannot be shown"), h("p", { class: "error" }, error.message));
  } finally {
    if (shown === mine) {
      mine.at = Date.now();
      main.removeAttribute("aria-busy");
      main.dataset.view = url.pathname;
    }
  }
}

function header(page, state, view) {
  document.title = [view?.title, state?.title, "Red Queen"].filter(Boolean).join(" · ");
  document.getElementById("title").textContent = state ? state.title : "Red Queen";
  const course = document.getElementById("course");
  course.replaceChildren();
  const facts = document.getElementById("facts");
  facts.replaceChildren();
  const nav = document.getElementById("nav");
  const having = state ? NAV.filter((path) => state.views.includes(VIEWS[path].api)) : [];
  const places = having.map((path) => [path, VIEWS[path].title]);
  if (several) places.unshift(["/runs", "All runs"], ["/compare", "Compare"]);
  const open = page.path === "/task" ? "/tasks" : page.path === "/member" ? "/league" : page.path;
  const links = places.map(([path, title]) =>
    h("a", { href: addressOf(path, page), "aria-current": path === open && "page" }, title),
  );
  // The focus may be on one of them.
  const same = links.length === nav.children.length && links.every((link, i) => link.isEqualNode(nav.children[i]));
  if (!same) nav.replaceChildren(...links);
  if (!state) return;
  const left = state.seconds_left === null ? "" : `, ${clock(state.seconds_left)} left`;
  course.append(
    h("span", { class: `badge ${state.course}` }, state.course),
    ` step ${state.step} of ${state.steps}${left} `,
    h("progress", { max: state.steps, value: state.step, "aria-label": "steps played" }),
    " ",
    h("span", { class: "soft", "data-now": "" }, state.now),
  );
  const written = state.written === null ? null : `last step ${ago(state.written)}`;
  const parts = [
    `recipe ${state.recipe}`,
    state.base,
    state.members,
    `seed ${state.seed}`,
    `isolation ${state.isolation}`,
    `${clock(state.seconds)} in steps`,
    written,
  ];
  facts.append(parts.filter(Boolean).join(" · "));
}

/** The address of a view. The comparison begins with the run that the reader is looking at. */
function addressOf(path, page) {
  if (path === "/compare") return page.path === path ? `${path}${location.search}` : page.compareLink(page.run ? [page.run] : []);
  return path === "/runs" ? path : page.link(path);
}

function notify(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

async function poll() {
  // An answer can take longer than the time to the next poll.
  if (document.hidden || polling || !shown?.at) return;
  const mine = shown;
  polling = true;
  try {
    await follow(mine);
  } catch {
    if (shown === mine) notify("redqueen watch does not answer. Trying again.");
  } finally {
    polling = false;
  }
}

async function follow(mine) {
  const old = Date.now() - mine.at >= AGAIN_MS;
  // Lists of runs, and what could not be shown.
  if (!mine.stamp) return old && show({ update: true });
  const run = new URLSearchParams({ run: mine.page.run });
  const { stamp, course, now } = await ask("stamp", run);
  if (shown !== mine) return;
  const same = `${stamp} ${course}` === mine.stamp;
  if (!same && !mine.fixed) return show({ update: true });
  // What a step is doing changes without anything new to read.
  for (const each of document.querySelectorAll("[data-now]")) each.textContent = now;
  if (!same || old) {
    const state = await ask("state", run);
    if (shown !== mine) return;
    header(mine.page, state, mine.view);
    mine.view.age?.(main, mine.data, state);
    mine.at = Date.now();
    if (mine.fixed) mine.stamp = `${state.stamp} ${state.course}`;
  }
  notify("");
}

function onClick(event) {
  const link = event.target.closest?.("a[href]");
  const address = link?.getAttribute("href");
  // A click that asks for a new tab, and a link to another place on this page, are the browser's own.
  if (
    !address?.startsWith("/") ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey
  )
    return;
  event.preventDefault();
  go(address).then(() => scrollTo(0, 0));
}

function onKey(event) {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing) {
    const filter = document.querySelector("[data-filter]");
    if (!filter) return;
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape" && typing) {
    main.focus({ preventScroll: true });
  } else if (!typing && ["j", "k", "ArrowDown", "ArrowUp"].includes(event.key)) {
    move(event, event.key === "j" || event.key === "ArrowDown" ? 1 : -1);
  }
}

/** Moves the focus in a list. Arrows do so only once the focus is there: elsewhere they scroll the page. */
function move(event, by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  if (!rows.length || (at < 0 && event.key.startsWith("Arrow"))) return;
  event.preventDefault();
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)].focus();
}

document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", poll);
addEventListener("popstate", () => show());
const { runs: found } = await ask("runs", "");
several = found.length > 1 || found[0]?.name !== "";
await show();
setInterval(poll, POLL_MS);
