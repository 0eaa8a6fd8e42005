// Elements from data. Text becomes text nodes only: nothing here, or anywhere in the page, parses markup, so what a
// model wrote is shown and never run.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element: h("a", {href: "/"}, "text", node, [more]). null, undefined and false make nothing. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** A table that scrolls by itself on a narrow screen. Columns: [title, class]; rows: arrays of children. */
export function table(columns, rows, caption) {
  const head = columns.map(([title, kind]) => h(title ? "th" : "td", { scope: title ? "col" : null, class: kind }, title));
  const body = rows.map((row) =>
    h(
      "tr",
      { class: row.className },
      row.cells.map((cell, i) =>
        i ? h("td", { class: columns[i][1] }, cell) : h("th", { scope: "row", class: `stay ${columns[i][1]}` }, cell),
      ),
    ),
  );
  return wide(caption, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

/** Something that may be wider than the screen: it scrolls by itself, can be scrolled by keys, and says so. */
export function wide(caption, content) {
  const box = h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": caption }, content);
  const hint = h("p", { class: "more", "aria-hidden": "true", hidden: true }, "more to the right \u2192");
  const look = () => {
    hint.hidden = box.scrollWidth <= box.clientWidth + 1;
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    hint.textContent = left > 1 ? "more to the right \u2192" : "\u2190 more to the left";
    box.classList.toggle("cut", left > 1);
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  return h("div", {}, box, hint);
}

/** Names and values in two columns. A line that is no list is left out. */
export function factList(lines) {
  const parts = lines.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  return h("dl", { class: "facts" }, parts);
}

/** A text in which a command or a setting stands between back quotes. */
export function worded(text) {
  return String(text).split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** A command to type, with a button that copies it. */
export function command(text) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      // A browser may forbid it; what is selected can be copied by hand.
      getSelection().selectAllChildren(code);
    }
  };
  const code = h("code", {}, text);
  const button = h("button", { type: "button", class: "copy", "aria-label": `copy ${text}`, click: copy }, "copy");
  return h("div", { class: "command" }, code, button);
}

/** A remark in a paler colour. */
export function soft(...words) {
  return h("p", { class: "soft" }, words);
}

/**
 * The boxes of a view, which stay when it is drawn again. Returns what finds each by its name.
 * Somebody may be using what is in a box: `keep(name, make)` leaves that alone, and else puts what `make()` gives there.
 */
export function boxes(root, title, view, names) {
  if (!root.querySelector(`.${view}`)) {
    const made = names.map((name) => h("div", { class: name }));
    root.replaceChildren(h("h1", {}, title), h("div", { class: view }, made));
  }
  const part = (name) => root.querySelector(`.${view} .${name}`);
  const keep = (name, make) => part(name).contains(document.activeElement) || part(name).replaceChildren(make());
  return { part, keep };
}

/** For each role that somebody has, a heading and below it what `draw(those, title)` makes. */
export function byRole(members, draw) {
  const titles = { teacher: "Teachers", student: "Students", both: "The single agent" };
  return Object.entries(titles).flatMap(([role, title]) => {
    const those = members.filter((member) => member.role === role);
    return those.length ? [h("h2", {}, title), ...draw(those, title)] : [];
  });
}

/** The name of a setting, `learning.lr`, which a narrow column may break after its dots. */
export function settingName(key) {
  const parts = key.split(".");
  return h(
    "code",
    { class: "setting" },
    parts.map((part, i) => (i < parts.length - 1 ? [`${part}.`, h("wbr")] : part)),
  );
}

/** A number as people read it; null is a dash. */
export function number(value, digits = 2) {
  return value === null || value === undefined ? "–" : value.toFixed(digits);
}

export function percent(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value * 100)}%`;
}

/** A number with its sign. */
export function signed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(digits)}`;
}

/** Seconds as 1:15, or 2:05:00. */
export function clock(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** Seconds ago, as people say it. */
export function ago(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
