// What a reader sees of all charts of the page: how much they are smoothed, and which steps. One choice for all of them.

import { h } from "./dom.js";
import { usualWindow } from "./series.js";

const WINDOWS = [1, 3, 5, 11, 21, 51, 101];
const choice = { window: null, range: null }; // null: as the page thinks fit, and all steps
const followers = new Set();

/**
 * The number of steps that a panel's means are over, whether it is the page that chose it, and the range of steps that is
 * shown; null shows all.
 */
export function viewOf(panel) {
  const along = (panel.along ?? "step") === "step";
  if (panel.plain || !along) return { window: 1, range: along ? choice.range : null };
  const window = choice.window ?? usualWindow(panel.steps.length);
  return { window, usual: choice.window === null, range: choice.range };
}

/** Calls `follower({smoothing})` after each change, until the function that this returns is called. */
export function followView(follower) {
  followers.add(follower);
  return () => followers.delete(follower);
}

/** Shows only these steps, [from, to]; null shows all. */
export function zoomTo(range) {
  choice.range = range;
  tell({ smoothing: false });
}

function setWindow(window) {
  choice.window = window;
  tell({ smoothing: true });
}

function tell(what) {
  for (const follower of [...followers]) follower(what);
}

/** The controls above the charts of a run, and how to use the charts. */
export function chartControls(steps) {
  const last = steps.at(-1) ?? 1;
  const usual = usualWindow(steps.length);
  const words = (window) => (window <= 1 ? "off" : `mean of ${window} steps`);
  const windows = WINDOWS.filter((window) => window < Math.max(steps.length, 4));
  const smoothing = h(
    "select",
    { id: "smoothing", change: () => setWindow(smoothing.value ? Number(smoothing.value) : null) },
    h("option", { value: "", selected: choice.window === null }, `automatic: ${words(usual)}`),
    windows.map((window) => h("option", { value: window, selected: choice.window === window }, words(window))),
  );
  const end = (name, label) =>
    h("input", { id: name, type: "number", min: steps[0] ?? 1, max: last, "aria-label": label, change: apply });
  const from = end("zoom-from", "first step shown");
  const to = end("zoom-to", "last step shown");
  const all = h("button", { type: "button", id: "zoom-all", click: () => zoomTo(null) }, "show all");
  function apply() {
    const range = [Number(from.value) || 1, Number(to.value) || last];
    zoomTo(range[0] < range[1] ? range : null);
  }
  function label() {
    const [first, final] = choice.range ?? [steps[0] ?? 1, last];
    from.value = first;
    to.value = final;
    all.disabled = choice.range === null;
  }
  label();
  const unfollow = followView(() => (from.isConnected ? label() : unfollow()));
  return h(
    "div",
    { class: "choices", role: "group", "aria-label": "how the charts are shown" },
    h("label", {}, "smoothing ", smoothing),
    h("span", {}, "steps ", from, " to ", to, " ", all),
    h("span", { class: "soft" }, hint(usual > 1)),
  );
}

function hint(smoothed) {
  const pale = smoothed ? " The pale line is what was measured." : "";
  return `Drag in a chart to zoom, double click to see all.${pale} Click, or use the arrows, to choose a step.`;
}
