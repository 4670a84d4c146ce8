// What the page knows: the figures, the defences and how they look, and which of them are hidden.
const data = JSON.parse(document.getElementById("data").textContent);
const series = new Map(data.series.map((entry) => [entry.key, entry]));
const hidden = new Set();
const charts = []; // one {spec, figure, plot, choice, drawn} for each figure, filled by page.js

const titleOf = (key) => series.get(key)?.title ?? key;
const colourOf = (key) => (series.has(key) ? `var(--s${series.get(key).slot})` : "var(--accent)");
const isShown = (entry) => !hidden.has(entry.series);
