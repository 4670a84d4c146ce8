// Small pieces that several figures share. Text from files only ever becomes text nodes and attributes.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function svg(name, attributes = {}) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function symbolOf(name) {
  return d3["symbol" + name[0].toUpperCase() + name.slice(1)] ?? d3.symbolCircle;
}

// A defence's line and marker, as in the figures.
function swatch(key) {
  const { dash = "", symbol = "circle", ours = false } = series.get(key) ?? {};
  const node = svg("svg", { class: "swatch", viewBox: "0 0 30 14", "aria-hidden": "true" });
  const stroke = colourOf(key);
  node.append(
    svg("line", { x1: 1, x2: 29, y1: 7, y2: 7, stroke, "stroke-width": 2, "stroke-dasharray": dash }),
    svg("path", {
      d: d3.symbol(symbolOf(symbol), 38)(),
      transform: "translate(15,7)",
      stroke,
      "stroke-width": 1.5,
      fill: ours ? stroke : "var(--surface)",
    }),
  );
  return node;
}

// The colour that a custom property has for a node, as "rgb(...)": canvases know no custom properties.
function resolved(name, node) {
  const probe = node.appendChild(element("i", { style: `color: var(${name}); display: none` }));
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return d3.rgb(colour);
}

const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

function digits(value, most = 4) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en-GB", { maximumSignificantDigits: most }).replace("-", "−");
}

function secondsText(value) {
  if (value >= 100) return `${Math.round(value)} s`;
  if (value >= 1) return `${digits(value, 3)} s`;
  return value >= 1e-3 ? `${digits(value * 1e3, 3)} ms` : `${digits(value * 1e6, 3)} µs`;
}

const withSpread = (value, spread) =>
  spread === null ? value.toFixed(1) : `${value.toFixed(1)} ± ${spread.toFixed(1)}`;

// Plot's option that marks the drawn group with the defence it shows.
function named(key) {
  return {
    render(index, scales, values, dimensions, context, next) {
      const group = next(index, scales, values, dimensions, context);
      group?.setAttribute("data-series", key);
      return group;
    },
  };
}

function noMarks(width) {
  const node = svg("svg", { viewBox: `0 0 ${width} 60`, width, height: 60 });
  const text = node.appendChild(
    svg("text", { x: width / 2, y: 34, "text-anchor": "middle", fill: "var(--muted)", "font-size": 13 }),
  );
  text.textContent = "Every defence of this figure is hidden.";
  return { node, stops: [] };
}

// A figure is drawn by a function (spec, width, choice, host) -> {node, stops, ...}. A stop is a place to read: where it
// is in the drawing, a title, and rows of {key, label, value}.
const base = { style: { fontSize: "12px", background: "none", overflow: "visible" } };
const thin = { stroke: "var(--rule)", strokeOpacity: 1 };
const markerOf = (key) => ({
  symbol: symbolOf(series.get(key)?.symbol ?? "circle"),
  stroke: colourOf(key),
  fill: series.get(key)?.ours ? colourOf(key) : "var(--surface)",
});

// The margin that names of at most so many characters need.
const roomFor = (names, most) =>
  15 +
  6.7 *
    Math.min(
      most,
      d3.max(names, (name) => name.length),
    );
