// Plots by Plotly, in the colours of the page, with buttons for the keyboard.

import { dark, element, onTheme, shorten, size } from "./view.js";

export { shorten };

const drawn = new Map();
let loaded = null;

/** Plotly's script, from the package that is installed beside Airflow. */
function library() {
  loaded ??= new Promise((resolve, reject) => {
    const script = element("script", "", { src: document.querySelector("link[data-plotly]").href });
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("The script of the plots could not be loaded. The table has the same data.")));
    document.head.append(script);
  });
  return loaded;
}

/** Text as Plotly shows it as it is: it takes < for a tag. */
export const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themed(layout) {
  const axis = { gridcolor: colour("--line"), linecolor: colour("--soft"), zerolinecolor: colour("--line"), automargin: true };
  const all = {
    paper_bgcolor: colour("--bg"), plot_bgcolor: colour("--bg"),
    font: { color: colour("--fg"), family: "system-ui, sans-serif", size: 12 },
    margin: { l: 60, r: 24, t: 24, b: 24 }, hovermode: "closest",
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", traceorder: "normal" }, ...layout,
  };
  for (const name of ["xaxis", "yaxis"]) all[name] = { ...axis, ...layout[name] };
  return all;
}

/** Draw into the element with this id. `make(isDark)` returns {traces, layout}; it is called again when the theme changes. */
export async function draw(id, make) {
  const Plotly = await library();
  const box = document.getElementById(id);
  const { traces, layout } = make(dark());
  await Plotly.react(box, traces, themed(layout), { displayModeBar: false, responsive: true, doubleClick: "reset" });
  if (!drawn.has(id)) box.before(buttons(id));
  drawn.set(id, make);
  box.dataset.drawn = "true";
  return box;
}

/** An axis of bytes with ticks at round binary sizes. */
export function bytesAxis(most) {
  let step = 1;
  while (most / step > 6) step *= 2;
  const ticks = Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => n * step);
  return { tickmode: "array", tickvals: ticks, ticktext: ticks.map(size), rangemode: "tozero" };
}

/** Zoom and move along the time axis without a pointer. */
function buttons(id) {
  const bar = element("p", "", { class: "filters zoom", role: "group", "aria-label": "Zoom of the plot" });
  const steps = { "−": [1.5, 0, "Zoom out"], "+": [1 / 1.5, 0, "Zoom in"], "←": [1, -0.25, "Earlier"], "→": [1, 0.25, "Later"] };
  for (const [word, [scale, shift, label]] of Object.entries(steps)) {
    const button = bar.appendChild(element("button", word, { type: "button", "aria-label": label, title: label }));
    button.addEventListener("click", () => move(id, scale, shift));
  }
  const whole = bar.appendChild(element("button", "Whole", { type: "button" }));
  whole.addEventListener("click", () => window.Plotly.relayout(id, { "xaxis.autorange": true, "yaxis.autorange": drawn.get(id)(dark()).layout.yaxis?.autorange ?? true }));
  return bar;
}

function move(id, scale, shift) {
  const axis = document.getElementById(id)._fullLayout.xaxis;
  const isDate = axis.type === "date";
  const [low, high] = axis.range.map((end) => (isDate ? axis.r2l(end) : end));
  const middle = (low + high) / 2 + (high - low) * shift, half = ((high - low) / 2) * scale;
  const range = [middle - half, middle + half].map((end) => (isDate ? axis.l2r(end) : end));
  window.Plotly.relayout(id, { "xaxis.range": range });
}

library().catch(() => {}); // while the data of the page come; draw() tells why it fails

onTheme(() => {
  for (const [id, make] of drawn) draw(id, make);
});
