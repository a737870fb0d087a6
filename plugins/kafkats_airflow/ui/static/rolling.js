// Segments per day and per topic: as they are, and as the settings of the topics would roll them.

import { ready } from "./page.js";
import { draw, plain, shorten } from "./plots.js";
import { asked, count, csv, data, download, fill, keep, plural, say, size, span } from "./view.js";

const BARS = 40, DAY = 8.64e7;
const byId = (id) => document.getElementById(id);
const topic = byId("topic");
/** Name -> the figure, its colour on a light and on a dark page, its pattern. */
const LOOKS = { "as is": ["segments", "#bdbdbd", "#bdbdbd", ""], simulated: ["simulated", "#0072b2", "#56b4e9", "/"] };
let topics, shown, latest = 0;

const date = (ms) => new Date(ms).toISOString().slice(0, 10);
const reasons = (one) => Object.entries(one.rolled_by).map(([why, times]) => `${why} ${count(times)}`).join(", ") || "nothing rolls";

const words = (one) => `${span(one.segment_ms)} or ${size(one.segment_bytes)}${one.segment_jitter_ms ? `, jitter ${span(one.segment_jitter_ms)}` : ""}`;

const topicColumns = [
  { name: "Topic", of: (one) => one.topic },
  { name: "Partitions", of: (one) => one.partitions, number: true },
  { name: "Segments", of: (one) => one.segments, number: true },
  { name: "Simulated", of: (one) => one.simulated, number: true },
  { name: "Rolled by", of: reasons },
  { name: "Open files", of: (one) => one.open_files, number: true },
  { name: "After retention", of: (one) => one.simulated_open_files, number: true },
  { name: "Largest simulated", of: (one) => size(one.largest_bytes), raw: (one) => one.largest_bytes, number: true },
  { name: "Longest kept", of: (one) => (one.longest_kept_ms === null ? "never deleted by time" : span(one.longest_kept_ms)), raw: (one) => one.longest_kept_ms },
  { name: "Settings", of: (one) => `segment.ms=${one.segment_ms} segment.bytes=${one.segment_bytes} segment.jitter.ms=${one.segment_jitter_ms}`, cell: words },
];
const dayColumns = [
  { name: "Day, UTC", of: (one) => date(one.day_ms) },
  { name: "Segments that begin", of: (one) => one.segments, number: true },
  { name: "Simulated", of: (one) => one.simulated, number: true },
];

const trace = (name, isDark, more) => ({
  type: "bar", name, ...more,
  marker: { color: isDark ? LOOKS[name][2] : LOOKS[name][1], line: { color: "#5b5b66", width: 0.5 }, pattern: { shape: LOOKS[name][3], solidity: 0.5 } },
});

function topicsPlot() {
  const rows = topics.slice(0, BARS), names = rows.map((one) => plain(shorten(one.topic)));
  byId("topics-plot").style.height = `${150 + 34 * rows.length}px`;
  return draw("topics-plot", (isDark) => ({
    traces: Object.entries(LOOKS).map(([name, [key]]) => trace(name, isDark, { orientation: "h", y: names, x: rows.map((one) => one[key]), hovertemplate: `%{y}<br>${name}: %{x} segments<extra></extra>` })),
    layout: { barmode: "group", xaxis: { title: { text: "segments" }, rangemode: "tozero", tickformat: ",d" }, yaxis: { type: "category", autorange: "reversed" } }, // the first on top
  }));
}

function daysPlot() {
  const { days } = shown, x = days.map((one) => date(one.day_ms));
  const first = days[0]?.day_ms, last = days.at(-1)?.day_ms;
  const sparse = days.length && (last - first) / DAY > 4 * days.length; // bars of single days would be too thin to see
  byId("sparse").hidden = !sparse;
  const range = days.length && !sparse ? [first - DAY, last + DAY].map((ms) => new Date(ms).toISOString()) : undefined;
  const most = Math.max(1, ...days.flatMap((one) => [one.segments, one.simulated]));
  return draw("days-plot", (isDark) => ({
    traces: Object.entries(LOOKS).map(([name, [key]]) => trace(name, isDark, { x, y: days.map((one) => one[key]), hovertemplate: `%{x}<br>${name}: %{y} segments<extra></extra>` })),
    layout: { barmode: "group", xaxis: { type: sparse ? "category" : "date", range, ...(!sparse && days.length < 15 ? { dtick: DAY, tickformat: "%Y-%m-%d" } : {}) }, yaxis: { title: { text: "segments" }, rangemode: "tozero", ...(most < 8 ? { dtick: 1 } : {}), tickformat: ",d" } },
  }));
}

function settings() {
  const one = topics.find((some) => some.topic === topic.value);
  if (!one) return "All topics; each by its own settings.";
  const jitter = one.segment_jitter_ms ? `segment.jitter.ms=${one.segment_jitter_ms} (${span(one.segment_jitter_ms)})` : "no jitter";
  return `${plural(one.segments, "segment")} would be ${count(one.simulated)} with segment.ms=${one.segment_ms} (${span(one.segment_ms)}), segment.bytes=${one.segment_bytes} (${size(one.segment_bytes)}), ${jitter}.`;
}

async function choose() {
  const mine = ++latest;
  keep({ topic: topic.value });
  try {
    const found = await data("rolling-days", { topic: topic.value });
    if (mine !== latest) return;
    shown = found;
    byId("settings").textContent = settings();
    byId("days").dataset.caption = `The newest day first.${shown.left_out ? ` ${plural(shown.left_out, "earlier day")} not loaded.` : ""}`;
    fill(byId("days"), dayColumns, [...shown.days].reverse(), 60);
    await daysPlot();
  } catch (error) {
    if (mine === latest) say("days-plot", error);
  }
}

topic.addEventListener("change", choose);
byId("topics-csv").addEventListener("click", () => download("rolling-topics.csv", csv(topicColumns, topics)));
byId("days-csv").addEventListener("click", () => download("rolling-days.csv", csv(dayColumns, shown.days)));

try {
  ({ topics } = await data("rolling"));
  byId("topics").dataset.caption = "All topics, those first whose number of segments differs most.";
  fill(byId("topics"), topicColumns, topics, 50);
  if ([...topic.options].some((one) => one.value === asked("topic"))) topic.value = asked("topic");
  await Promise.all([choose(), topics.length ? topicsPlot() : null]);
} catch (error) {
  say("topics-plot", error);
}
ready();
