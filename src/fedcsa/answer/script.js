"use strict";
const tip = document.getElementById("tip");
const show = (mark) => {
  const box = mark.getBoundingClientRect();
  tip.textContent = mark.getAttribute("aria-label");
  tip.hidden = false;
  const left = box.left + box.width / 2 - tip.offsetWidth / 2;
  const above = box.top - tip.offsetHeight - 8;
  const widest = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(left, widest)) + "px";
  tip.style.top = (above > 8 ? above : box.bottom + 8) + "px";
};
const hide = () => { tip.hidden = true; };
const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
for (const chart of document.querySelectorAll("svg.chart")) {
  const marks = [...chart.querySelectorAll(".mark")];
  for (const mark of marks) {
    mark.querySelector("title").remove(); // shown at once instead
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("pointerleave", hide);
    mark.addEventListener("focus", () => show(mark));
    mark.addEventListener("blur", hide);
  }
  chart.addEventListener("keydown", (event) => {
    const here = marks.indexOf(document.activeElement);
    const next = marks[here + steps[event.key]];
    if (here < 0 || !next) return;
    event.preventDefault();
    marks[here].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
const folded = document.querySelectorAll("details:not(.quiet):not([open])");
addEventListener("beforeprint", () => folded.forEach((part) => { part.open = true; }));
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
