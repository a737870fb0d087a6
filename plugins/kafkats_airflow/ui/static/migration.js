// The burn-down of a migration: the bytes of each magic over time.

import { ready } from "./page.js";
import { bytesAxis, draw } from "./plots.js";
import { csv, data, download, fill, moment, say, size } from "./view.js";

const LOOKS = [["#d55e00", "circle", "solid"], ["#e69f00", "square", "dash"], ["#0072b2", "diamond", "dot"]];
const LIGHT = ["#d55e00", "#e69f00", "#56b4e9"]; // on a dark page
const columns = [
  { name: "Time of the census", of: (one) => moment(one.at_ms), raw: (one) => one.at_ms },
  ...[0, 1, 2].map((magic) => ({ name: `Magic ${magic}`, of: (one) => size(one.bytes[magic]), raw: (one) => one.bytes[magic], number: true })),
];

try {
  const { points } = await data("migration");
  const table = document.getElementById("points");
  table.dataset.caption = "The newest census first.";
  fill(table, columns, [...points].reverse(), 50);
  document.getElementById("csv").addEventListener("click", () => download("burn-down.csv", csv(columns, points)));
  const most = Math.max(1, ...points.flatMap((one) => one.bytes));
  if (points.length) await draw("burn-down", (isDark) => ({
    traces: LOOKS.map(([colour, symbol, dash], magic) => ({
      type: "scatter", mode: "lines+markers", name: `magic ${magic}`, x: points.map((one) => new Date(one.at_ms).toISOString()), y: points.map((one) => one.bytes[magic]),
      line: { color: isDark ? LIGHT[magic] : colour, width: 2, dash, shape: "hv" }, marker: { symbol, size: 8, line: { color: "#5b5b66", width: 0.5 } },
      text: points.map((one) => size(one.bytes[magic])), hovertemplate: `%{x}<br>magic ${magic}: %{text}<extra></extra>`,
    })),
    layout: { xaxis: { type: "date" }, yaxis: bytesAxis(most) },
  }));
} catch (error) {
  say("burn-down", error);
}
ready();
