// Bytes that a start reads, and those that it cuts off or drops, by log directory.

import { ready } from "./page.js";
import { bytesAxis, draw, plain, shorten } from "./plots.js";
import { data, say, size } from "./view.js";

const BARS = 40;

try {
  const { starts } = await data("restart");
  const rows = starts.slice(0, BARS), names = rows.map((one) => plain(shorten(one.log_dir)));
  const bar = (name, colour, of) => ({
    type: "bar", orientation: "h", name, y: names, x: rows.map(of), marker: { color: colour, line: { color: "#5b5b66", width: 0.5 } },
    text: rows.map((one) => size(of(one))), textposition: "none", hovertemplate: `%{y}<br>${name}: %{text}<extra></extra>`,
  });
  document.getElementById("starts").style.height = `${150 + 32 * rows.length}px`;
  const most = Math.max(1, ...rows.map((one) => Math.max(one.bytes, one.lost_bytes)));
  if (rows.length) await draw("starts", (isDark) => ({
    traces: [bar("read", isDark ? "#56b4e9" : "#0072b2", (one) => one.bytes), bar("cut off or dropped", isDark ? "#ff8a80" : "#b2182b", (one) => one.lost_bytes)],
    layout: { barmode: "group", xaxis: bytesAxis(most), yaxis: { type: "category", autorange: "reversed" } }, // the first on top
  }));
} catch (error) {
  say("starts", error);
}
ready();
