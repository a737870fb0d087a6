// The explorer: a time is picked on a partition's steps, and all partitions answer.

import { copy, lasting, ready } from "./page.js";
import { draw, plain } from "./plots.js";
import { asked, count, csv, data, download, element, fill, keep, moment, plural, say } from "./view.js";

const byId = (id) => document.getElementById(id);
const source = byId("source"), partition = byId("partition"), time = byId("time"), field = byId("ms"), said = byId("said");
const LATEST = 253402300799999, FAR = 24 * 3600 * 1000;
let read, stairs, answers = [], at = null, latest = 0, listening = false;

const iso = (ms) => new Date(ms).toISOString();
const chosen = () => read.partitions[partition.selectedIndex] ?? null;

/** How far the record of an answer lies from the time that was asked, in ms; null without one. */
const away = (one) => (one.offset === null || one.timestamp === null || at === null ? null : one.timestamp - at);
const far = (one) => Math.abs(away(one) ?? 0) > FAR;

function distance(one) {
  const ms = away(one);
  if (ms === null) return "–";
  return ms ? `${lasting(ms)} ${ms < 0 ? "before it" : "after it"}` : "at it";
}

const columns = [
  { name: "Topic", of: (one) => one.topic },
  { name: "Partition", of: (one) => one.partition, number: true },
  { name: "Offset", of: (one) => (one.offset === null ? "none" : count(one.offset)), raw: (one) => one.offset, number: true },
  { name: "Time of its record", of: (one) => moment(one.timestamp, true), raw: (one) => one.timestamp },
  { name: "From the time asked", of: distance, raw: away, cell: (one) => (far(one) ? [element("span", "far", { class: "state state-far" }), ` ${distance(one)}`] : distance(one)) },
  { name: "Reason", of: (one) => one.reason, cell: (one) => `${one.reason}: ${one.means}` },
  { name: "Log start", of: (one) => (one.log_start === null ? "–" : count(one.log_start)), raw: (one) => one.log_start, number: true },
  { name: "Log end", of: (one) => (one.log_end === null ? "–" : count(one.log_end)), raw: (one) => one.log_end, number: true },
];

/** Steps with a gap where cells are missing. */
function steps() {
  const x = [], y = [];
  stairs.begins.forEach((begin, n) => {
    if (n && stairs.ends[n - 1] !== begin) (x.push(iso(begin)), y.push(null));
    x.push(iso(begin), iso(stairs.ends[n]));
    y.push(stairs.offsets[n], stairs.offsets[n]);
  });
  return { x, y };
}

/** The answer of this partition, at the line of the time that was picked. */
function answer() {
  if (at === null || at < 0 || at > LATEST) return [];
  const [topic, number] = chosen(), one = answers.find((some) => some.topic === topic && some.partition === number);
  if (!one) return [];
  const early = at < (stairs.begins[0] + stairs.ends.at(-1)) / 2;
  const text = `${moment(at, true)} → ${one.offset === null ? `none, ${plain(one.reason)}` : `offset ${count(one.offset)}`}`;
  return [{ x: iso(at), xanchor: early ? "left" : "right", y: 1, yref: "paper", yanchor: "bottom", text, showarrow: false }];
}

async function plot() {
  const { x, y } = steps(), name = plain(partition.value), points = stairs.points;
  const box = await draw("stairs", (isDark) => ({
    traces: [
      { type: "scatter", mode: "lines", name: `answers of ${name}`, x, y, line: { color: isDark ? "#56b4e9" : "#0072b2", width: 2 }, hovertemplate: "%{x}<br>offset %{y}<extra></extra>" },
      { type: "scatter", mode: "markers", name: "records", x: points.map(([ms]) => iso(ms)), y: points.map(([, offset]) => offset), marker: { color: "#e69f00", size: 5, line: { color: "#5b5b66", width: 0.5 } }, hovertemplate: "%{x}<br>record %{y}<extra></extra>" },
    ],
    layout: {
      annotations: answer(),
      hovermode: "x", hoverdistance: -1, xaxis: { type: "date" }, yaxis: { title: { text: "offset" }, tickformat: "d", rangemode: "nonnegative", ...(y.length || points.length ? {} : { range: [0, 1], dtick: 1 }) },
      shapes: at === null || at < 0 || at > LATEST ? [] : [{ type: "line", x0: iso(at), x1: iso(at), y0: 0, y1: 1, yref: "paper", line: { color: isDark ? "#ececf1" : "#1b1b1f", width: 2, dash: "dash" } }],
    },
  }));
  if (listening) return;
  listening = true;
  // anywhere in the plot: the time is that below the pointer, not that of the nearest point
  box.on("plotly_click", ({ event }) => {
    const axis = box._fullLayout.xaxis;
    pick(Math.round(axis.p2l(event.clientX - box.getBoundingClientRect().left - axis._offset)));
  });
}

async function look() {
  if (!read.partitions.length) return;
  const [topic, number] = chosen(), mine = ++latest;
  keep({ source: source.selectedIndex ? source.value : "", partition: `${topic}-${number}` });
  const found = await data("offsets-stairs", { source: source.value, topic, partition: number });
  if (mine !== latest) return;
  stairs = found;
  await plot();
}

/** Ask all partitions for this time (ms). */
async function pick(ms) {
  at = ms;
  keep({ at: ms });
  field.value = ms;
  time.value = ms >= 0 && ms <= LATEST ? iso(ms).slice(0, 19) : "";
  forget();
  try {
    answers = (await data("offsets-at", { source: source.value, at: ms })).answers;
    if (at !== ms) return;
    const none = answers.filter((one) => one.offset === null).length;
    said.textContent = `${moment(ms, true)}: ${plural(answers.length - none, "partition")} of ${count(answers.length)} have an offset${none ? `; ${plural(none, "has", "have")} none, see the reasons` : ""}.${answers.some(far) ? ` Marked far: ${plural(answers.filter(far).length, "record")} more than a day from the time: a replay begins there.` : ""}`;
    byId("answers").dataset.caption = "The first record of this time or later, by topic and partition.";
    fill(byId("answers"), columns, answers);
    if (stairs) await plot();
  } catch (error) {
    said.textContent = error.message;
    byId("answers").replaceChildren();
  }
}

/** An export is of one time and one format: another one needs another. */
function forget() {
  byId("exported").hidden = true;
  copyable("Copy is grey until Show has made the text.");
}

/** Let the text be copied, or say why there is none. */
function copyable(why = "") {
  byId("copy-export").disabled = why !== "";
  byId("why-copy").textContent = why;
}

async function choose() {
  read = await data("offsets", { source: source.value });
  partition.replaceChildren(...read.partitions.map(([topic, number]) => new Option(`${topic}-${number}`)));
  const wanted = read.partitions.findIndex(([topic, number]) => `${topic}-${number}` === asked("partition"));
  partition.selectedIndex = Math.max(wanted, read.partitions.length ? 0 : -1);
  if (!read.partitions.length) {
    said.textContent = "This table has no row.";
    return;
  }
  const kept = /^-?\d{1,18}$/.test(asked("at")) ? Number(asked("at")) : null;
  await look();
  await pick(kept ?? stairs.begins[Math.floor(stairs.begins.length / 2)] ?? Math.round((read.from_ms + read.to_ms) / 2));
}

const failed = (error) => (said.textContent = error.message);
source.addEventListener("change", () => choose().catch(failed));
partition.addEventListener("change", () => look().catch(failed));
time.addEventListener("change", () => time.value && pick(Date.parse(`${time.value}Z`)));
field.addEventListener("change", () => /^-?\d{1,18}$/.test(field.value) && pick(Number(field.value)));
for (const id of ["to", "missing"]) byId(id).addEventListener("change", forget);
byId("csv").addEventListener("click", () => download("offsets.csv", csv(columns, answers)));
byId("export").addEventListener("click", async () => {
  const box = byId("exported");
  try {
    const found = await data("offsets-export", { source: source.value, at, to: byId("to").value, missing: byId("missing").value });
    box.textContent = found.text;
    said.textContent = `${plural(found.partitions, "partition")} exported.${found.notes.length ? ` ${found.notes.slice(0, 20).join(". ")}.` : ""}`;
    copyable();
    box.hidden = false;
  } catch (error) {
    said.textContent = error.message;
    box.hidden = true;
    copyable("Copy is grey, as this was not exported: the sentence above says why.");
  }
});
byId("copy-export").addEventListener("click", async () => {
  await copy(byId("exported").textContent);
  said.textContent = "Copied.";
});

try {
  if ([...source.options].some((one) => one.value === asked("source"))) source.value = asked("source");
  await choose();
} catch (error) {
  say("stairs", error);
}
ready();
