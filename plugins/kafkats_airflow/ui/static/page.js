// Every page: ages that grow, links that leave the frame, refreshing, the mark `data-ready`.

const SPANS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Mark the page: the last visible row and plot have their data. Pages with scripts of their own have
 * `data-waits` on <html> and call this themselves. */
export function ready() {
  document.documentElement.dataset.ready = "true";
}

function lasting(ms) {
  const seconds = Math.floor(Math.abs(ms) / 1000);
  for (const [length, unit] of SPANS)
    if (seconds >= length) return `${Math.floor(seconds / length)}\u00a0${unit}`;
  return "0\u00a0s";
}

function ages(root = document) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[data-ms]")) {
    const ms = Number(time.dataset.ms);
    time.textContent = ms > now ? `in ${lasting(ms - now)}` : `${lasting(now - ms)} ago`;
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
if (!("waits" in document.documentElement.dataset)) ready();
