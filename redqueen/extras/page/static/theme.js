// Dark and light: as the system has it, unless the reader chose. A classic script in the head, so that a page never
// flashes in the other colours before it is drawn.
"use strict";
(() => {
  const ORDER = ["system", "light", "dark"];
  const root = document.documentElement;

  function stored() {
    try {
      const value = localStorage.getItem("theme");
      return ORDER.includes(value) ? value : "system";
    } catch {
      return "system"; // a browser may forbid storage
    }
  }

  function apply(choice) {
    if (choice === "system") delete root.dataset.theme;
    else root.dataset.theme = choice;
    // Canvases do not follow the style sheet by themselves.
    document.dispatchEvent(new Event("themechange"));
  }

  apply(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(stored()));
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = `colours: ${stored()}`;
    };
    label();
    button.addEventListener("click", () => {
      const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
      try {
        localStorage.setItem("theme", next);
      } catch {
        return;
      }
      apply(next);
      label();
    });
  });
})();
