// The parts that pages with plots share: data, the state in the address, tables, CSV, sizes, times.

export const page = document.documentElement;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** An element with text; attributes by name. Names of topics and files come in as text only. */
export function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const count = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

export const plural = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

export function size(bytes) {
  let amount = bytes, unit = 0;
  while (Math.abs(amount) >= 1023.95 && unit < UNITS.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  return unit ? `${amount.toFixed(1)}\u00a0${UNITS[unit]}` : `${bytes}\u00a0B`;
}

const SPANS = [[31_536_000_000, "y"], [86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]];

/** The time of a setting in its two largest units, what is less cut off: 7 d, 6 y 66 d, 1 h 30 min. A year has 365 days. */
export function span(ms) {
  const first = SPANS.findIndex(([length]) => ms >= length);
  if (first < 0) return `${ms}\u00a0ms`;
  let left = ms;
  const parts = SPANS.slice(first, first + 2).map(([length, unit]) => {
    const whole = Math.floor(left / length);
    left -= whole * length;
    return whole ? `${whole}\u00a0${unit}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

export const shorten = (text, most = 40) => (text.length > most ? `${text.slice(0, most / 2 - 1)}…${text.slice(-most / 2)}` : text);

/** A time in UTC; ISO 8601 has no years above 9999 here. */
export function moment(ms, seconds = false) {
  if (ms === null || ms === undefined) return "–";
  if (!(ms >= 0 && ms <= 253402300799999)) return `${ms} ms after 1970`;
  return `${new Date(ms).toISOString().slice(0, seconds ? 19 : 16).replace("T", " ")} UTC`;
}

/** Read JSON of this run; `more` is added to the address. Throws an Error with a sentence. */
export async function data(name, more = {}) {
  const asked = new URLSearchParams();
  for (const key of ["dag_id", "run_id"]) {
    const value = new URLSearchParams(location.search).get(key);
    if (value !== null) asked.set(key, value);
  }
  for (const [key, value] of Object.entries(more)) asked.set(key, value);
  const early = page.querySelector(`link[data-early="${name}"]`); // the page has begun to load it
  early?.remove();
  const answer = await fetch(early?.href ?? `data/${name}?${asked}`);
  const read = await answer.json().catch(() => ({ detail: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(typeof read.detail === "string" ? read.detail : `The server answered ${answer.status}.`);
  return read;
}

/** The state of the view, kept in the address. */
export const asked = (key, otherwise = "") => new URLSearchParams(location.search).get(key) ?? otherwise;

export function keep(values) {
  const search = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values))
    if (value === "" || value === null || value === false) search.delete(key);
    else search.set(key, value);
  history.replaceState(history.state, "", `?${search}`);
  if (window.parent === window) return;
  try {
    const around = window.parent.location;
    const begin = around.pathname.indexOf("/plugin/kafkats/");
    if (begin < 0) return; // a tab of a DAG or a run has no address for its inner page
    const path = `${around.pathname.slice(0, begin)}/plugin/kafkats${location.pathname}${location.search}`;
    window.parent.history.replaceState(window.parent.history.state, "", path);
  } catch {
    // another origin frames the page
  }
}

/** Fill a table: `columns` are {name, of, number, link, cell}. Rows beyond `most` are said, not shown. */
export function fill(table, columns, rows, most = 200) {
  const head = element("thead"), names = head.appendChild(element("tr")), body = element("tbody");
  for (const column of columns)
    names.append(element("th", column.name, { scope: "col", ...(column.number ? { class: "number" } : {}) }));
  for (const row of rows.slice(0, most)) {
    const line = body.appendChild(element("tr"));
    columns.forEach((column, n) => {
      const cell = line.appendChild(element(n ? "td" : "th", "", n ? {} : { scope: "row" }));
      if (column.number) cell.className = "number";
      else if (!n) cell.className = "name";
      if (column.cell) cell.append(...[column.cell(row)].flat());
      else cell.textContent = column.of(row);
    });
  }
  const caption = table.querySelector("caption") ?? element("caption");
  const left = rows.length - most;
  caption.textContent = `${table.dataset.caption ?? ""}${left > 0 ? ` The first ${most} of ${count(rows.length)} rows; the CSV has all.` : ""}`;
  table.replaceChildren(caption, head, body);
}

/** What a spreadsheet would run as a formula becomes text. */
function field(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(columns, rows) {
  const raw = columns.filter((column) => column.of);
  const lines = [raw.map((column) => field(column.name)), ...rows.map((row) => raw.map((column) => field((column.raw ?? column.of)(row))))];
  return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
}

export function download(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.body.appendChild(element("a", "", { href: url, download: name }));
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Say why a part of the page cannot be shown, in its place. */
export function say(where, error) {
  const notice = element("p", error.message, { class: "notice", role: "alert" });
  document.getElementById(where).replaceChildren(notice);
}

export const onTheme = (call) => page.addEventListener("themechange", call);
export const dark = () => page.dataset.theme === "dark";
