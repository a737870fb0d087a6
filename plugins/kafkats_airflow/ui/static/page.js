// Every page: ages that grow, links that leave the frame, refreshing, the mark `data-ready`.

const SPANS = [[1, 60, "s"], [60, 120, "min"], [3600, 72, "h"]];

/** Mark the page: the last visible row and plot have their data. Pages with scripts of their own have
 * `data-waits` on <html> and call this themselves. */
export function ready() {
  document.documentElement.dataset.ready = "true";
}

/** A span of time rounded to its unit: 59 s, 95 min, 39 h, 5.9 d. The twin of of_duration in words.py. */
export function lasting(ms) {
  const seconds = Math.abs(ms) / 1000;
  for (const [length, most, unit] of SPANS) {
    const amount = Math.floor(seconds / length + 0.5);
    if (amount <= most) return `${amount}\u00a0${unit}`;
  }
  const tenths = Math.floor(seconds / 8640 + 0.5);
  const days = tenths < 100 ? (tenths / 10).toFixed(1).replace(/\.0$/, "") : Math.floor(seconds / 86400 + 0.5);
  return `${days}\u00a0d`;
}

function ages(root = document) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[data-ms]")) {
    const ms = Number(time.dataset.ms);
    if (Math.abs(now - ms) < 500) time.textContent = "just now";
    else time.textContent = ms > now ? `in ${lasting(ms - now)}` : `${lasting(now - ms)} ago`;
  }
}

/** Airflow's frame is sandboxed: a link out of it works only as a click in the page around it. */
function leave(event) {
  const link = event.target.closest("a[data-out]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (window.parent === window) return;
  event.preventDefault();
  const outer = window.parent.document.createElement("a");
  outer.href = link.href;
  window.parent.document.body.append(outer);
  outer.click();
  outer.remove();
}

/** The address of this view: in Airflow's frame if it has one of its own for it. */
function address() {
  const here = location.pathname + location.search + location.hash;
  if (window.parent === window) return location.href;
  const prefix = location.pathname.replace(/\/kafkats\/[^/]*$/, "");
  return `${location.origin}${prefix}/plugin/kafkats${here}`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

/** Read the page again every few seconds, and replace what it shows, while it is looked at. What a
 * button has said is not overwritten: it has `data-hold`. */
function refresh() {
  const seconds = Number(document.getElementById("main").dataset.refresh);
  if (!seconds) return;
  setTimeout(async () => {
    try {
      const main = document.getElementById("main");
      if (!document.hidden && !main.contains(document.activeElement) && !main.querySelector("[data-hold]")) {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        const read = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = read.getElementById("main");
        if (answer.ok && fresh) main.replaceWith(document.adoptNode(fresh));
        ages();
      }
    } finally {
      refresh();
    }
  }, seconds * 1000);
}

ages();
setInterval(ages, 10_000);
addEventListener("click", leave);
refresh();
document.getElementById("copy-link").addEventListener("click", async () => {
  await copy(address());
  document.getElementById("copied").textContent = "Copied";
});
// The scripts of the page, after this one, have run then: a button that is clicked has its handler.
if (!("waits" in document.documentElement.dataset)) document.addEventListener("DOMContentLoaded", ready);
