// The page itself: draws the figures, and keeps them in step with the legend, the theme and the width.
const kinds = { line: drawLine, scatter: drawScatter, forest: drawForest, bars: drawBars, image: drawImage, map: drawMap };

function draw(chart) {
  const width = Math.round(chart.plot.clientWidth) || 0;
  if (!width) return; // in a folded part: drawn when it is opened
  chart.plot.querySelector(".tip")?.remove();
  const drawn = kinds[chart.spec.kind](chart.spec, width, chart.choice, chart.plot);
  drawn.node.setAttribute("aria-hidden", "true"); // the host has the name, and the values are read stop by stop
  chart.plot.querySelector(":scope > svg")?.remove();
  chart.plot.prepend(drawn.node);
  chart.drawn = { ...drawn, width };
  chart.figure.classList.toggle("away", Boolean(chart.spec.series) && hidden.has(chart.spec.series));
}

const drawAll = () => charts.forEach(draw);

for (const [id, spec] of Object.entries(data.figures)) {
  const figure = document.getElementById(id);
  const chart = {
    spec,
    figure,
    plot: figure.querySelector(".plot"),
    choice: 0,
    drawn: { node: null, stops: [], width: 0 },
  };
  charts.push(chart);
  if (spec.series) figure.style.setProperty("--own", colourOf(spec.series));
  readable(chart);
  figure.querySelector("select")?.addEventListener("change", (event) => {
    chart.choice = Number(event.target.value);
    draw(chart);
  });
  for (const button of figure.querySelectorAll("[data-save]"))
    button.addEventListener("click", () => save(chart, button.dataset.save));
}

// The legend: a press hides or shows a defence in every figure, with shift or at a double press it alone is shown.
const keys = document.querySelector(".keys");
const all = document.querySelector(".legend .all");
for (const { key, title } of data.series) {
  const button = element(
    "button",
    { type: "button", "aria-pressed": "true", title: "Press: hide or show. Shift and press: this one alone." },
    swatch(key),
    title,
  );
  button.dataset.series = key;
  button.addEventListener("click", (event) => toggle(key, event.shiftKey));
  button.addEventListener("dblclick", () => toggle(key, true));
  keys.append(button);
}
all.addEventListener("click", () => {
  hidden.clear();
  legendChanged();
  keys.querySelector("button")?.focus();
});

function toggle(key, alone) {
  if (alone) {
    hidden.clear();
    for (const other of series.keys()) if (other !== key) hidden.add(other);
  } else if (!hidden.delete(key)) hidden.add(key);
  legendChanged();
}

function legendChanged() {
  for (const button of keys.children) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.series)));
  all.hidden = hidden.size === 0;
  drawAll();
}

for (const cell of document.querySelectorAll("[data-key]"))
  if (series.has(cell.dataset.key)) cell.prepend(swatch(cell.dataset.key));
document.querySelectorAll("table.sortable").forEach(sortable);

// The theme follows the system until the switch is used; the choice is kept where the browser allows it.
const theme = document.querySelector(".theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
function themeChanged() {
  theme.setAttribute("aria-pressed", String(isDark()));
  for (const chart of charts) if (chart.spec.kind === "image") draw(chart); // pixels have their colours painted in
}
function kept(write) {
  try {
    return write === undefined ? localStorage.getItem("gsat-theme") : localStorage.setItem("gsat-theme", write);
  } catch {
    return null;
  }
}
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  kept(document.documentElement.dataset.theme);
  themeChanged();
});
system.addEventListener("change", themeChanged);
if (["light", "dark"].includes(kept())) document.documentElement.dataset.theme = kept();
themeChanged();

// The contents stand open beside the page where there is room, and show which part is on the screen.
const contents = document.querySelector("nav > details");
const roomy = matchMedia("(min-width: 64rem)");
const unfold = () => {
  contents.open = roomy.matches;
};
roomy.addEventListener("change", unfold);
unfold();
const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries)
      links.get(target.id).toggleAttribute("aria-current", isIntersecting);
  },
  { rootMargin: "-15% 0px -75% 0px" },
);
for (const id of links.keys()) seen.observe(document.getElementById(id));

// A link to a folded part opens it. Settings are printed, other folded parts only if the reader has opened them.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();
let before;
addEventListener("beforeprint", () => {
  before = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  for (const part of document.querySelectorAll("details[id$=settings]")) part.open = true;
  for (const part of document.querySelectorAll(".part")) printKeys(part);
  drawAll();
});
addEventListener("afterprint", () => {
  if (before === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = before;
  for (const line of document.querySelectorAll(".printed-keys")) line.remove();
  drawAll();
});

// On paper every part has the legend of its own figures: the one at the top may be pages away.
function printKeys(part) {
  const own = charts.filter((chart) => part.contains(chart.figure));
  const shown = new Set(own.flatMap((chart) => keysOf(chart.spec, chart.choice)).filter((key) => !hidden.has(key)));
  const line = element("div", { class: "printed-keys" });
  for (const key of shown) line.append(element("span", { class: "key" }, swatch(key), titleOf(key)));
  part.querySelector("h2, h3").after(line);
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const chart = charts.find((candidate) => candidate.plot === target);
    if (Math.abs(target.clientWidth - chart.drawn.width) > 1) draw(chart);
  }
});
drawAll();
for (const chart of charts) resized.observe(chart.plot);
document.documentElement.dataset.ready = "true";
