"use strict";
// Charts are zoomed by buttons, and a box that is clicked says below what it is. A value of a graph that is clicked lights up wherever it is.

function zoom(chart, factor) {
  const view = chart.querySelector(".scroll"), drawing = view.firstElementChild;
  const middle = (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
  const width = Math.min(64, Math.max(1, factor * (parseFloat(drawing.style.width) || 100) / 100));
  drawing.style.width = `${width * 100}%`;
  view.scrollLeft = middle * view.scrollWidth - view.clientWidth / 2;
}

function choose(chart, box) {
  for (const other of chart.querySelectorAll(".chosen")) other.classList.remove("chosen");
  box.classList.add("chosen");
  chart.querySelector("output").textContent = box.querySelector("title").textContent;
}

function light(value) {
  for (const e of document.querySelectorAll(`[data-value="${value}"]`)) {
    e.style.setProperty("--hue", value * 137 % 360);
    e.classList.toggle("lit");
  }
}

document.addEventListener("click", event => {
  const target = selector => event.target.closest(selector);
  const chart = target(".chart"), button = target("[data-zoom]"), box = target("svg svg"), value = target("[data-value]");
  if (button) zoom(chart, button.dataset.zoom);
  else if (chart && box) choose(chart, box);
  else if (value) light(value.dataset.value);
});
