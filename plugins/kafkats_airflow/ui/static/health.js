// The map of index health: a row per partition, a cell per segment, on a canvas.

import { ready } from "./page.js";
import { asked, count, csv, dark, data, download, element, fill, keep, onTheme, plural, say, shorten } from "./view.js";

const ROW = 14, TALLEST = 560, LEAST = 12, TABLE_ROWS = 50;
const canvas = document.getElementById("map"), note = document.getElementById("note");
const only = document.getElementById("only"), find = document.getElementById("find");
let read, cells, rows = [], view, cursor = { y: 0, x: 0 };

const kind = (number) => read.kinds[number];
const words = (number) => (kind(number).word ? `${kind(number).name} (${kind(number).word})` : kind(number).name);
const cell = (row, x) => cells[read.starts[row] + x] ?? 0;
const length = (row) => read.starts[row + 1] - read.starts[row];
const name = (row) => (read.log_dirs.length > 1 ? `${read.log_dirs[read.log_dir[row]]}/${read.names[row]}` : read.names[row]);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function rgb(text) {
  const number = parseInt(text.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** Bytes that were deflated and written in base64. */
function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(whole).arrayBuffer().then((buffer) => new Uint8Array(buffer));
}

/** The rows that fit the filters, in the order of damage. */
function choose() {
  const text = find.value.toLowerCase();
  rows = [];
  for (let row = 0; row < read.names.length; row++)
    if ((!only.checked || read.defects[row]) && (!text || name(row).toLowerCase().includes(text))) rows.push(row);
  const widest = rows.reduce((most, row) => Math.max(most, length(row)), 1);
  view = { top: 0, bottom: Math.max(rows.length, 1), left: 0, right: widest, widest };
  const kept = asked("zoom").match(/^(\d+)-(\d+),(\d+)-(\d+)$/)?.map(Number);
  if (kept && kept[2] <= view.bottom && kept[4] <= widest && kept[1] < kept[2] && kept[3] < kept[4])
    view = { ...view, top: kept[1], bottom: kept[2], left: kept[3], right: kept[4] };
  cursor = { y: clamp(cursor.y, 0, Math.max(rows.length - 1, 0)), x: clamp(cursor.x, 0, widest - 1) };
  const hidden = read.names.length - rows.length;
  const hiding = only.checked && !text ? `${plural(hidden, "row")} without a defect hidden` : `${plural(hidden, "row")} hidden by the filters`;
  document.getElementById("hidden").textContent = `${plural(rows.length, "row")} of ${count(read.names.length)}; ${hiding}.${read.left_out ? ` ${plural(read.left_out, "row")} with the least damage not loaded: the map holds a million segments.` : ""}`;
}

/** The worst number of each block of cells: h × w of them. */
function blocks(h, w) {
  const found = new Uint8Array(h * w), tall = view.bottom - view.top, wide = view.right - view.left;
  for (let y = view.top; y < view.bottom && y < rows.length; y++) {
    const row = rows[y], begin = read.starts[row], end = Math.min(length(row), view.right);
    const line = Math.floor(((y - view.top) * h) / tall) * w;
    for (let x = view.left; x < end; x++) {
      const at = line + Math.floor(((x - view.left) * w) / wide);
      if (cells[begin + x] > found[at]) found[at] = cells[begin + x];
    }
  }
  return found;
}

function draw() {
  const tall = view.bottom - view.top, wide = view.right - view.left;
  const width = canvas.clientWidth;
  if (!width) return void requestAnimationFrame(draw); // the frame is hidden
  const height = clamp(tall * ROW, 4 * ROW, TALLEST);
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const h = clamp(tall, 1, height), w = clamp(wide, 1, width), found = blocks(h, w);
  const picture = new ImageData(w, h), pixels = new Uint32Array(picture.data.buffer);
  const colours = read.kinds.map((one) => rgb(dark() ? one.dark : one.colour)).map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  for (let at = 0; at < found.length; at++) pixels[at] = found[at] ? colours[found[at]] : 0;
  const small = new OffscreenCanvas(w, h);
  small.getContext("2d").putImageData(picture, 0, 0);
  const paper = canvas.getContext("2d");
  paper.scale(ratio, ratio);
  paper.imageSmoothingEnabled = false;
  paper.drawImage(small, 0, 0, width, height);
  const lettered = letters(paper, width / wide, height / tall);
  labels(height, ratio, tall);
  axis(width, ratio, wide);
  frame(paper, width / wide, height / tall);
  const bands = [tall > h && `${Math.ceil(tall / h)} rows`, wide > w && `${Math.ceil(wide / w)} segments`].filter(Boolean);
  document.getElementById("lettered").hidden = !lettered;
  document.getElementById("bands").textContent = bands.length ? `Each point stands for up to ${bands.join(" × ")} and has the colour of the worst of them. Zoom in for single ones.` : "";
}

/** A canvas for words beside the map, in its size on the page. */
function margin(box, width, height, ratio) {
  box.width = Math.round(width * ratio);
  box.height = Math.round(height * ratio);
  const paper = box.getContext("2d");
  paper.scale(ratio, ratio);
  paper.font = "11px system-ui, sans-serif";
  paper.fillStyle = getComputedStyle(box).color;
  return paper;
}

/** Numbers of segments below the map, at round steps where cells are too narrow for each. */
function axis(width, ratio, wide) {
  const box = document.getElementById("axis"), narrow = width / wide, paper = margin(box, width, box.clientHeight, ratio);
  let step = 1;
  while (step * narrow < 8 * String(view.right).length + 12) step *= String(step).startsWith("2") ? 2.5 : 2;
  paper.textAlign = "center";
  paper.textBaseline = "top";
  for (let n = Math.ceil((view.left + 1) / step) * step; n <= view.right; n += step) {
    const middle = (n - view.left - 0.5) * narrow;
    paper.fillRect(middle, 0, 1, 4);
    paper.fillText(count(n), clamp(middle, 12, width - 12), 6);
  }
}

/** Names of rows beside the map; of every n-th row where rows are too low. */
function labels(height, ratio, tall) {
  const box = document.getElementById("labels"), width = box.clientWidth, low = height / tall;
  box.style.height = `${height}px`;
  const paper = margin(box, width, height, ratio);
  paper.textAlign = "right";
  paper.textBaseline = "middle";
  for (let y = view.top; y < Math.min(view.bottom, rows.length); y += Math.max(Math.ceil(LEAST / low), 1))
    paper.fillText(shorten(read.names[rows[y]], 34), width - 6, (y - view.top + 0.5) * low, width - 8);
}

/** The defect by its kind and severity, where cells are wide enough; else the severity by a letter.
 * Returns whether there are letters. */
function letters(paper, wide, tall) {
  let lettered = false;
  if (wide < LEAST || tall < LEAST) return lettered;
  paper.font = "10px system-ui, sans-serif";
  paper.textAlign = "center";
  paper.textBaseline = "middle";
  for (let y = view.top; y < view.bottom && y < rows.length; y++)
    for (let x = view.left; x < Math.min(view.right, length(rows[y])); x++) {
      const { severity, colour, dark: other } = kind(cell(rows[y], x));
      if (severity !== "damage" && severity !== "danger") continue;
      const [r, g, b] = rgb(dark() ? other : colour);
      paper.fillStyle = r * 0.3 + g * 0.6 + b * 0.1 > 128 ? "#000" : "#fff";
      const whole = words(cell(rows[y], x)), fits = paper.measureText(whole).width + 8 < wide;
      lettered ||= !fits;
      paper.fillText(fits ? whole : severity === "danger" ? "X" : "D", (x - view.left + 0.5) * wide, (y - view.top + 0.5) * tall);
    }
  return lettered;
}

function frame(paper, wide, tall) {
  const { x, y } = cursor;
  if (!rows.length || x < view.left || x >= view.right || y < view.top || y >= view.bottom) return;
  paper.strokeStyle = getComputedStyle(canvas).color;
  paper.lineWidth = 2;
  paper.strokeRect((x - view.left) * wide, (y - view.top) * tall, Math.max(wide, 3), Math.max(tall, 3));
}

function tell() {
  if (!rows.length) return (note.textContent = "");
  const row = rows[cursor.y], number = cell(row, cursor.x);
  note.textContent = number ? `${name(row)}, segment ${cursor.x + 1} of ${length(row)}: ${words(number)}` : `${name(row)} has ${plural(length(row), "segment")}`;
}

const columns = [
  {
    name: "Partition", of: name,
    cell: (row) => {
      const button = element("button", name(row), { type: "button", class: "as-link" });
      button.addEventListener("click", () => open(row));
      return button;
    },
  },
  { name: "Segments", of: length, number: true },
  { name: "With a defect", of: (row) => read.defects[row], number: true },
  { name: "Worst", of: (row) => words(read.worst[row]) },
];

function show() {
  const shown = rows.slice(view.top, view.bottom);
  const table = document.getElementById("rows");
  table.dataset.caption = `The rows in view, the most damaged first: ${count(Math.min(shown.length, TABLE_ROWS))} of ${count(shown.length)}.`;
  fill(table, columns, shown.slice(0, TABLE_ROWS));
  const whole = view.top === 0 && view.bottom >= rows.length && view.left === 0 && view.right >= view.widest;
  keep({ zoom: whole ? "" : `${view.top}-${view.bottom},${view.left}-${view.right}`, all: only.checked ? "" : "1", find: find.value });
  draw();
  tell();
}

/** Zoom around a place: `scale` below 1 zooms in. */
function zoom(scale, y, x) {
  const part = (low, high, at, least, most) => {
    const span = clamp(Math.round((high - low) * scale), Math.min(least, most), most);
    const begin = clamp(Math.round(at - ((at - low) / Math.max(high - low, 1)) * span), 0, most - span);
    return [begin, begin + span];
  };
  [view.top, view.bottom] = part(view.top, view.bottom, y, 4, Math.max(rows.length, 1));
  [view.left, view.right] = part(view.left, view.right, x, 4, view.widest);
  show();
}

/** Keep the cursor in view: move the window, not its size. */
function follow() {
  for (const [low, high, at, most] of [["top", "bottom", cursor.y, rows.length], ["left", "right", cursor.x, view.widest]]) {
    const span = view[high] - view[low];
    if (at < view[low]) view[low] = at;
    else if (at >= view[high]) view[low] = at - span + 1;
    view[low] = clamp(view[low], 0, Math.max(most - span, 0));
    view[high] = view[low] + span;
  }
  show();
}

function place(event) {
  const box = canvas.getBoundingClientRect();
  return {
    y: clamp(view.top + Math.floor(((event.clientY - box.top) / box.height) * (view.bottom - view.top)), 0, Math.max(rows.length - 1, 0)),
    x: clamp(view.left + Math.floor(((event.clientX - box.left) / box.width) * (view.right - view.left)), 0, view.widest - 1),
  };
}

async function open(row) {
  keep({ partition: read.names[row], of: read.log_dirs[read.log_dir[row]] });
  await details();
  document.getElementById("partition").scrollIntoView({ block: "nearest" });
}

async function details() {
  const partition = asked("partition"), of = asked("of"), place = document.getElementById("partition");
  if (!partition) return place.replaceChildren();
  try {
    const found = await data("health-partition", { partition, log_dir: of, at: read.at });
    place.replaceChildren(element("h2", `${of}/${partition}`), element("p", found.said));
    const table = place.appendChild(element("table", "", { class: "rows", "data-caption": "Findings, in order of base offset." }));
    fill(table, [
      { name: "Base offset", of: (one) => one.base_offset },
      { name: "Finding", of: (one) => `${one.kind} (${one.severity})` },
      { name: "File", of: (one) => one.file },
      { name: "Reason", of: (one) => one.reason },
    ], found.findings);
  } catch (error) {
    say("partition", error);
  }
}

const SEVERITIES = { "": "no defect", state: "note: normal while a broker runs or after it was killed", remark: "remark: harmless", damage: "damage: a file contradicts the log", danger: "danger: possible loss of records" };

const ORDER = Object.keys(SEVERITIES);

function legend() {
  const box = document.getElementById("legend");
  box.replaceChildren();
  const counts = new Uint32Array(256);
  for (let at = 0; at < cells.length; at++) counts[cells[at]]++;
  const found = read.kinds.map((one, number) => ({ ...one, cells: counts[number] })).filter((one, number) => number && (one.cells || one.count));
  for (const severity of ORDER) {
    const one = found.find((some) => some.severity === severity && some.cells);
    if (!one) continue;
    const item = box.appendChild(element("span", ""));
    const patch = item.appendChild(element("canvas", "", { width: 12, height: 12, "aria-hidden": "true" }));
    const paper = patch.getContext("2d");
    paper.fillStyle = dark() ? one.dark : one.colour;
    paper.fillRect(0, 0, 12, 12);
    item.append(` ${SEVERITIES[severity]}`);
  }
  const table = document.getElementById("kinds"), findings = found.filter((one) => one.count).reverse();
  findings.sort((one, other) => ORDER.indexOf(other.severity) - ORDER.indexOf(one.severity));
  table.hidden = !findings.length;
  table.dataset.caption = "All findings, danger first, counted as Volumes counts them. A segment may have several: its cell shows the worst.";
  fill(table, kindColumns, findings);
}

const kindColumns = [
  { name: "Finding", of: (one) => one.name },
  { name: "Severity", of: (one) => one.word },
  { name: "Findings", of: (one) => one.count, number: true },
  { name: "Meaning", of: (one) => one.means },
  { name: "If nothing is done", of: (one) => one.consequence || "no harm" },
  { name: "Next step", of: (one) => one.step || "nothing" },
];

canvas.addEventListener("mousemove", (event) => {
  cursor = place(event);
  draw();
  tell();
});
canvas.addEventListener("click", () => rows.length && open(rows[cursor.y]));
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.shiftKey) return; // a plain wheel scrolls the page
  event.preventDefault();
  const { y, x } = place(event);
  zoom(event.deltaY < 0 ? 0.7 : 1.4, y, x);
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-20, 0], PageDown: [20, 0] };
  const step = steps[event.key];
  if (step) {
    cursor = { y: clamp(cursor.y + step[0], 0, Math.max(rows.length - 1, 0)), x: clamp(cursor.x + step[1], 0, view.widest - 1) };
    follow();
  } else if (event.key === "+" || event.key === "=") zoom(0.6, cursor.y, cursor.x);
  else if (event.key === "-") zoom(1.6, cursor.y, cursor.x);
  else if (event.key === "0" || event.key === "Home") zoom(Infinity, 0, 0);
  else if (event.key === "Enter" && rows.length) open(rows[cursor.y]);
  else return;
  event.preventDefault();
});
for (const [id, scale] of [["zoom-in", 0.6], ["zoom-out", 1.6], ["zoom-whole", Infinity]])
  document.getElementById(id).addEventListener("click", () => zoom(scale, cursor.y, cursor.x));
only.addEventListener("change", () => (keep({ zoom: "" }), choose(), show()));
find.addEventListener("input", () => (keep({ zoom: "" }), choose(), show()));
document.getElementById("csv").addEventListener("click", () => download("index-health.csv", csv(columns, rows)));
addEventListener("resize", () => read && draw());
onTheme(() => read && (legend(), draw()));

try {
  read = await data("health", { at: asked("at", "now") });
  cells = await inflated(read.cells);
  only.checked = asked("all") !== "1" && read.defects.some(Boolean);
  find.value = asked("find");
  choose();
  legend();
  show();
  await details();
} catch (error) {
  say("health", error);
}
ready();
