// Blocking, in <head>: the page has Airflow's theme before its first paint.
(() => {
  const root = document.documentElement;
  const parent = (() => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // another origin frames the page
    }
  })();
  const asked = new URLSearchParams(location.search).get("theme");
  const wanted = () => {
    if (asked === "light" || asked === "dark") return asked;
    if (parent && parent.classList.contains("dark")) return "dark";
    if (parent && parent.classList.contains("light")) return "light";
    const stored = localStorage.getItem("theme");
    if (stored === "light" || stored === "dark") return stored;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  };
  const set = () => {
    const theme = wanted();
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    root.dispatchEvent(new CustomEvent("themechange", { detail: theme }));
  };
  set();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", set);
  if (parent) new MutationObserver(set).observe(parent, { attributeFilter: ["class"] });
})();
