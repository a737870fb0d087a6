// Bytes by topic, segments in time, and another retention.ms, which the server decides by the rule of plans.

import { copy, ready } from "./page.js";
import { bytesAxis, draw, plain, shorten } from "./plots.js";
import { asked, count, csv, data, download, fill, keep, moment, plural, say, size, span } from "./view.js";

const BARS = 40, SEGMENTS = 600, SPAN = [3.6e6, 10 * 365 * 8.64e7]; // the slider: an hour to ten years
const byId = (id) => document.getElementById(id);
const topic = byId("topic"), slider = byId("slider"), field = byId("ms"), tried = byId("tried");
let read, asIs = null, shown = null, latest = 0;

const timed = (ms) => `${ms} (${ms < 0 ? "never" : span(ms)})`;
const toMs = (place) => Math.round(SPAN[0] * (SPAN[1] / SPAN[0]) ** (place / 1000));
const toPlace = (ms) => Math.round((1000 * Math.log(Math.max(ms, SPAN[0]) / SPAN[0])) / Math.log(SPAN[1] / SPAN[0]));

function topicsPlot() {
  const rows = read.topics.filter((one) => read.by_state[one.topic]).slice(0, BARS).reverse();
  const names = rows.map((one) => plain(shorten(one.topic)));
  const traces = Object.entries(read.states).map(([state, colour]) => ({
    type: "bar", orientation: "h", name: read.labels[state], y: names, x: rows.map((one) => read.by_state[one.topic][state] ?? 0),
    marker: { color: colour, line: { color: "#5b5b66", width: 0.5 } },
    text: rows.map((one) => size(read.by_state[one.topic][state] ?? 0)), textposition: "none",
    hovertemplate: `%{y}<br>${read.labels[state]}: %{text}<extra></extra>`,
  })).filter((trace) => trace.x.some(Boolean));
  const box = byId("topics-plot"), most = Math.max(...rows.map((one) => one.bytes), 1);
  box.style.height = `${140 + 22 * rows.length}px`;
  return draw("topics-plot", () => ({ traces, layout: { barmode: "stack", xaxis: bytesAxis(most), yaxis: { type: "category" } } }));
}

/** The limits of a topic, with their values. */
function limits(one) {
  const found = read.limits[one.topic];
  if (!found) return "–";
  const given = [found.retention_ms >= 0 && `retention.ms ${timed(found.retention_ms)}`, found.retention_bytes >= 0 && `retention.bytes ${size(found.retention_bytes)}`];
  return given.filter(Boolean).join(", ") || "no limit";
}

const topicColumns = [
  { name: "Topic", of: (one) => one.topic },
  { name: "Partitions", of: (one) => one.partitions, number: true },
  ...[["Bytes", "bytes"], ["Can be deleted now", "now_bytes"], ["By tomorrow", "day_bytes"], ["In a week", "week_bytes"], ["Expired, pinned", "pinned_bytes"], ["Expired, kept", "vetoed_bytes"]]
    .map(([name, key]) => ({ name, of: (one) => size(one[key]), raw: (one) => one[key], number: true })),
  { name: "Limits", of: limits },
  { name: "Decided by", of: (one) => read.reasons[one.topic] ?? "" },
];
const segmentColumns = [
  { name: "Partition", of: (one) => one.partition },
  { name: "Base offset", of: (one) => one.base_offset, number: true },
  { name: "Bytes", of: (one) => size(one.bytes), raw: (one) => one.bytes, number: true },
  { name: "First record", of: (one) => (one.weak ? "–" : moment(one.first_ms)), raw: (one) => (one.weak ? "" : one.first_ms) },
  { name: "Largest timestamp", of: (one) => (one.weak ? `none; mtime ${moment(one.last_ms)}` : moment(one.last_ms)), raw: (one) => (one.weak ? "" : one.last_ms) },
  { name: "State", of: (one) => read.labels[one.state] },
  { name: "Why", of: (one) => one.why },
  { name: "Deletable from", of: (one) => moment(one.from_ms), raw: (one) => one.from_ms },
];

/** As many whole partitions, the first ones, as are drawn in a moment. */
function drawable(partitions) {
  const segments = new Map();
  for (const one of shown.segments) segments.set(one.partition, (segments.get(one.partition) ?? 0) + 1);
  let sum = 0;
  return partitions.slice(0, BARS).filter((name, n) => (sum += segments.get(name)) <= SEGMENTS || !n);
}

/** One bar per segment; a time that no axis can hold is cut off a week from now. */
function segmentsPlot() {
  const latestMs = read.now_ms + 7 * 8.64e7, partitions = [...new Set(shown.segments.map((one) => one.partition))];
  const names = drawable(partitions), drawn = new Set(names), rows = shown.segments.filter((one) => drawn.has(one.partition));
  byId("drawn").textContent = names.length < partitions.length ? `Drawn: ${plural(names.length, "partition")} of ${count(partitions.length)}, those with the most pinned bytes; the table has all.` : "";
  const least = rows.length ? (Math.min(Math.max(...rows.map((one) => one.last_ms)), latestMs) - Math.min(...rows.map((one) => one.first_ms))) / 300 : 1;
  const traces = Object.entries(read.states).map(([state, colour]) => {
    const some = rows.filter((one) => one.state === state);
    const begin = some.map((one) => Math.min(one.first_ms, latestMs));
    return {
      type: "bar", orientation: "h", name: read.labels[state], y: some.map((one) => plain(shorten(one.partition))), base: begin.map((ms) => new Date(ms).toISOString()),
      x: some.map((one, n) => Math.max(Math.min(one.last_ms, latestMs) - begin[n], least, 1)),
      marker: { color: colour, line: { color: "#5b5b66", width: 0.5 }, pattern: { shape: some.map((one) => (one.weak ? "/" : "")) } },
      text: some.map((one) => `base offset ${one.base_offset}, ${size(one.bytes)}<br>${plain(moment(one.first_ms, true))} to ${plain(moment(one.last_ms, true))}<br>${plain(one.why)}`),
      textposition: "none", hovertemplate: `%{y}<br>${read.labels[state]}<br>%{text}<extra></extra>`,
    };
  }).filter((trace) => trace.y.length);
  const { range, words } = rows.length ? reach(rows, latestMs) : { range: undefined, words: [] };
  byId("segments-plot").style.height = `${150 + 26 * drawn.size}px`;
  return draw("segments-plot", (dark) => ({ traces, layout: { barmode: "overlay", xaxis: { type: "date", range }, yaxis: { type: "category", categoryorder: "array", categoryarray: names.map((name) => plain(shorten(name))).reverse() }, shapes: line(shown.line_ms, dark), annotations: words } }));
}

const calendar = (ms) => ms !== null && ms >= -62135596800000 && ms <= 253402300799999;
const line = (ms, dark) => (calendar(ms) ? [{ type: "line", x0: new Date(ms).toISOString(), x1: new Date(ms).toISOString(), y0: 0, y1: 1, yref: "paper", line: { color: dark ? "#ececf1" : "#1b1b1f", width: 2, dash: "dash" } }] : []);

/** The time of the segments, and the retention line if it is near; else a word at the edge says where it lies. */
function reach(rows, latestMs) {
  const ends = rows.flatMap((one) => [Math.min(one.first_ms, latestMs), Math.min(one.last_ms, latestMs)]);
  let low = Math.min(...ends), high = Math.max(...ends);
  const ms = shown.line_ms, far = 4 * Math.max(high - low, 60_000);
  const near = calendar(ms) && ms >= low - far && ms <= high + far;
  if (near) [low, high] = [Math.min(low, ms), Math.max(high, ms)];
  const pad = Math.max((high - low) / 25, 500);
  const place = near ? { x: new Date(ms).toISOString(), xanchor: ms > (low + high) / 2 ? "right" : "left" } : ms < low ? { x: 0, xref: "paper", xanchor: "left" } : { x: 1, xref: "paper", xanchor: "right" };
  const arrow = near ? "" : ms < low ? "← " : "→ ";
  const word = { ...place, y: 1, yref: "paper", yanchor: "bottom", text: `${arrow}retention line ${moment(ms)}`, showarrow: false };
  return { range: [low - pad, high + pad].map((end) => new Date(end).toISOString()), words: ms === null ? [] : [word] };
}

async function show(timeline) {
  shown = timeline;
  const table = byId("segments");
  table.dataset.caption = `Segments of ${shown.topic}, the partitions with the most pinned bytes first.${shown.left_out ? ` ${shown.left_out} more segments are not loaded.` : ""}`;
  fill(table, segmentColumns, shown.segments);
  const now = shown.by_state["deleted now"], before = asIs.by_state["deleted now"], kept = shown.by_state["expired, kept by kafkats"];
  if (shown.retention_ms === null) tried.textContent = `As it is: ${now ? size(now) : "nothing"} of ${shown.topic} can be deleted now${shown.line_ms === null ? "; this topic has no retention.ms" : ""}.`;
  else tried.textContent = `With retention.ms=${timed(shown.retention_ms)}: ${now ? size(now) : "nothing"} can be deleted now, instead of ${before ? size(before) : "nothing"}${kept ? `; kafkats keeps ${size(kept)} that a broker would delete` : ""}. Nothing is changed by this.`;
  if (byId("copy-line")) byId("copy-line").disabled = !shown.policy_line;
  await segmentsPlot();
}

/** Try a time; of several questions under way only the last one's answer is shown. */
async function attempt(ms) {
  const mine = ++latest;
  keep({ retention_ms: ms === null ? "" : ms });
  if (ms === null) return show(asIs);
  try {
    const found = await data("retention-what-if", { topic: topic.value, retention_ms: ms });
    if (mine === latest) await show(found);
  } catch (error) {
    if (mine === latest) tried.textContent = error.message;
  }
}

let waiting = 0;
function soon(ms) {
  clearTimeout(waiting);
  waiting = setTimeout(() => attempt(ms), 80);
}

async function choose(ms) {
  keep({ topic: topic.value });
  const mine = ++latest, found = await data("retention-topic", { topic: topic.value });
  if (mine !== latest) return;
  asIs = found;
  const now = found.line_ms === null ? null : read.now_ms - found.line_ms;
  if (slider) {
    slider.value = toPlace(ms ?? now ?? 7 * 8.64e7);
    field.value = ms ?? now ?? "";
  }
  if (ms === null) await show(asIs);
  else await attempt(ms);
}

topic.addEventListener("change", () => (keep({ retention_ms: "" }), choose(null).catch((error) => (tried.textContent = error.message))));
slider?.addEventListener("input", () => {
  field.value = toMs(Number(slider.value));
  soon(Number(field.value));
});
field?.addEventListener("input", () => {
  if (field.value === "" || !/^(-1|\d{1,18})$/.test(field.value)) return;
  slider.value = toPlace(Number(field.value));
  soon(field.value);
});
byId("as-is")?.addEventListener("click", () => choose(null));
byId("copy-line")?.addEventListener("click", async () => {
  await copy(`topics:\n  ${shown.policy_line}\n`);
  tried.textContent = `Copied. Put this line first under "topics" of the policy: ${shown.policy_line}`;
});
byId("topics-csv").addEventListener("click", () => download("retention-topics.csv", csv(topicColumns, read.topics)));
byId("segments-csv").addEventListener("click", () => download("retention-segments.csv", csv(segmentColumns, shown.segments)));

try {
  read = await data("retention");
  const weight = (one) => read.topics.indexOf(one);
  read.topics.sort((a, b) => b.now_bytes + b.pinned_bytes - a.now_bytes - a.pinned_bytes || weight(a) - weight(b));
  byId("topics").dataset.caption = "All topics, the most bytes that can be deleted or are pinned first.";
  fill(byId("topics"), topicColumns, read.topics, 50);
  if (asked("topic") && [...topic.options].some((one) => one.value === asked("topic"))) topic.value = asked("topic");
  else if (read.topics.length) topic.value = read.topics[0].topic;
  const ms = /^(-1|\d{1,18})$/.test(asked("retention_ms")) ? asked("retention_ms") : null;
  await Promise.all([Object.keys(read.by_state).length ? topicsPlot() : byId("topics-plot").replaceChildren(), topic.value ? choose(ms) : null]);
} catch (error) {
  say("segments-plot", error);
}
ready();
