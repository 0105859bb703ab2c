"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const tip = document.getElementById("tip");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  // A page from disk may have no storage; the choice then lasts as long as the page.
  try { const kept = localStorage.getItem("theme"); if (kept) root.dataset.theme = kept; } catch { /* no storage */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* no storage */ }
    name();
  });
  prefersDark.addEventListener("change", name);
  name();

  // Where the tip belongs is asked again when the page scrolls: focus scrolls after it has fired.
  let anchor = null;
  function place() {
    const [x, y] = anchor();
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(12, x - box.width / 2), innerWidth - box.width - 12);
    const above = y - box.height - 16;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(above > 8 ? above : y + 20)}px)`;
  }
  function show(text, where) {
    anchor = where;
    tip.textContent = text;
    tip.hidden = false;
    place();
  }
  // Only what shows the tip may hide it: a pointer that rests elsewhere does not end what the keyboard opened.
  const hide = (where) => { if (!where || where === anchor) { anchor = null; tip.hidden = true; } };

  for (const script of document.querySelectorAll('figure script[type="application/json"]')) {
    const svg = script.previousElementSibling;
    const cursor = svg.querySelector(".cursor");
    const series = JSON.parse(script.textContent).filter((line) => line.length);
    let at = null, where = null;
    const select = (line, index) => {
      at = [line, index];
      const [x, y, text] = series[line][index];
      cursor.setAttribute("cx", x);
      cursor.setAttribute("cy", y);
      svg.classList.add("active");
      where = () => {
        const point = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        return [point.x, point.y];
      };
      show(text, where);
      svg.setAttribute("aria-description", text);
    };
    const leave = () => { at = null; svg.classList.remove("active"); if (where) hide(where); };
    svg.addEventListener("pointermove", (event) => {
      const here = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let best = null, least = 60 * 60;
      series.forEach((line, i) => line.forEach(([x, y], j) => {
        const distance = (x - here.x) ** 2 + (y - here.y) ** 2;
        if (distance < least) { least = distance; best = [i, j]; }
      }));
      if (best) select(...best); else leave();
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible") && !at) select(0, series[0].length - 1); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Escape") leave();
      if (!step || !series.length) return;
      event.preventDefault();
      const [line, index] = at || [0, series[0].length];
      const next = (line + step[0] + series.length) % series.length;
      const last = series[next].length - 1;
      select(next, Math.min(last, Math.max(0, Math.min(index, last + 1) + step[1])));
    });
  }

  for (const mark of document.querySelectorAll("[data-tip]")) {
    const top = () => { const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y]; };
    const open = () => show(mark.dataset.tip, top);
    for (const kind of ["pointerenter", "focus", "click"]) mark.addEventListener(kind, open);
    for (const kind of ["pointerleave", "blur"]) mark.addEventListener(kind, () => hide(top));
  }
  addEventListener("scroll", () => { if (anchor) place(); }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(null); });
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
