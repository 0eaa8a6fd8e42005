// The task browser. Its filters are the address, so that a list can be shared and the back button works.

import { h } from "../dom.js";
import { taskRows } from "./task_rows.js";

const SORTS = [
  ["-step", "newest"],
  ["step", "oldest"],
  ["-rho", "solved most"],
  ["rho", "solved least"],
  ["-reward", "paid most"],
  ["reward", "paid least"],
  ["-tokens", "longest"],
  ["tokens", "shortest"],
  ["-nodes", "most nodes"],
  ["nodes", "fewest nodes"],
  ["-lines", "most lines"],
  ["-depth", "deepest"],
];
const KEYS = ["text", "in", "kind", "teacher", "student", "status", "from", "to", "least", "most", "novel", "nodes", "sort"];

export const tasks = {
  api: "tasks",
  title: "Tasks",
  render(root, data, page) {
    let form = root.querySelector("form.filters");
    let list = root.querySelector(".list");
    // While somebody sets a filter, only the list is drawn again; a link may ask for other filters.
    if (!form || !list) {
      form = h("form", { class: "filters", submit: (event) => event.preventDefault() });
      list = h("div", { class: "list" });
      root.replaceChildren(h("h1", {}, "Tasks"), form, list);
    }
    const filters = filtersOf(page.query);
    if (!form.contains(document.activeElement) || form.dataset.filters !== filters)
      form.replaceChildren(...controls(data, page, form));
    form.dataset.filters = filters;
    list.replaceChildren(...lines(data, page));
  },
};

/** The filters of an address as a text: those of the form, unless one of them has the focus. */
function filtersOf(query) {
  const chosen = ["run", ...KEYS].map((key) => [key, query.get(key)]).filter(([, value]) => value);
  return String(new URLSearchParams(chosen));
}

function controls(data, page, form) {
  const now = (name) => page.query.get(name) ?? "";
  const apply = () => {
    // A field in which somebody writes also says that it has changed when another view, or other filters, replace it.
    const { pathname, searchParams } = new URL(location.href);
    if (pathname !== "/tasks" || filtersOf(searchParams) !== form.dataset.filters) return;
    const values = Object.fromEntries(new FormData(form));
    const address = page.link("/tasks", values);
    form.dataset.filters = filtersOf(new URL(address, location.href).searchParams);
    page.go(address);
  };
  const label = (text, control) => h("label", {}, text, control);
  const select = (name, text, options, chosen = now(name)) =>
    label(
      text,
      h("select", { name, id: `filter-${name}`, change: apply }, options.map(([value, words]) =>
        h("option", { value, selected: value === chosen }, words),
      )),
    );
  const input = (name, text, attributes) =>
    label(
      text,
      h("input", { name, id: `filter-${name}`, type: "number", value: now(name), change: apply, ...attributes }),
    );
  const any = (values) => [["", "all"], ...values.map((value) => [value, value])];
  const statuses = [
    ["", "valid"],
    ["any", "all"],
    ["refused", "refused (all)"],
    ...data.statuses.slice(2).map((value) => [value, value]),
  ];
  const text = h("input", {
    name: "text",
    id: "filter-text",
    type: "search",
    "data-filter": true,
    value: now("text"),
    placeholder: "a word of a program",
    change: apply,
  });
  return [
    label("text", text),
    select("in", "in", [["", "tasks"], ["answers", "answers"]]),
    select("kind", "kind", any(data.kinds)),
    select("teacher", "author", any(data.teachers)),
    select("student", "student", any(data.students)),
    select("status", "verdict", statuses, now("status") === "valid" ? "" : now("status")),
    input("from", "from step", { min: 1, step: 1 }),
    input("to", "to step", { min: 1, step: 1 }),
    input("least", "solved at least", { min: 0, max: 1, step: "any" }),
    input("most", "at most", { min: 0, max: 1, step: "any" }),
    select("novel", "idea", [["", "all"], ["1", "new"], ["0", "not new"]]),
    input("nodes", "nodes at least", { min: 0, step: 1 }),
    select("sort", "order", SORTS, now("sort") || "-step"),
    h("a", { href: page.link("/tasks") }, "reset"),
  ];
}

function lines(data, page) {
  const values = Object.fromEntries(KEYS.map((key) => [key, page.query.get(key)]));
  const to = (number) => page.link("/tasks", { ...values, page: number > 1 ? number : "" });
  const words = data.total === 1 ? "1 proposal" : `${data.total} proposals`;
  const hint = "j and k, or the arrows, move; Enter opens; / goes to the filters.";
  if (data.searched) return searched(data, page, words, values);
  if (!data.total) return [h("p", { class: "count", role: "status" }, "No proposal matches. Widen the filter.")];
  return [
    h("p", { class: "soft count", role: "status" }, `${words}. ${hint}`),
    taskRows(data.tasks, page),
    h(
      "div",
      { class: "pager" },
      data.page > 1 && h("a", { href: to(data.page - 1), rel: "prev" }, "← previous"),
      `page ${data.page} of ${data.pages}`,
      data.page < data.pages && h("a", { href: to(data.page + 1), rel: "next" }, "next →"),
    ),
  ];
}

/** A search reads the texts, the newest first, for a moment; then it says how far it came, and can go on. */
function searched(data, page, words, values) {
  const { first, last, complete } = data.searched;
  const steps = last ? `in steps ${first} to ${last}` : "in no step";
  const further = complete
    ? h("span", {}, "All steps were searched.")
    : h("a", { href: page.link("/tasks", { ...values, before: first - 1 }), rel: "next" }, `search the steps before ${first} →`);
  return [
    h("p", { class: "soft count", role: "status" }, `${words} ${steps}, the newest first.`),
    taskRows(data.tasks, page),
    h("div", { class: "pager" }, further),
  ];
}
