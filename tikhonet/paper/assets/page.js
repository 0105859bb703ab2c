"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.hidden = false; };
  // A page from disk may have no storage; the choice then lasts as long as the page.
  try { const kept = localStorage.getItem("theme"); if (kept) root.dataset.theme = kept; } catch { /* no storage */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* no storage */ }
    name();
  });
  prefersDark.addEventListener("change", name);
  name();
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
