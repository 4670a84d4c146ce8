// Saving a figure: as an SVG file that stands on its own, or its data as CSV.
const INLINED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "opacity",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
];

const fullTitle = (spec) =>
  spec.context && spec.context !== spec.title ? `${spec.context}: ${spec.title}` : spec.title;

function asSvg(chart) {
  const width = 640,
    pad = 14;
  const host = document.body.appendChild(
    element("div", { style: "position: absolute; left: -9999px; color-scheme: light; color: #333" }),
  );
  try {
    const { node } = kinds[chart.spec.kind](chart.spec, width, chart.choice, host);
    const keys = keysOf(chart.spec, chart.choice).filter((key) => !hidden.has(key));
    const columns = Math.max(1, Math.floor(width / 170)),
      rows = Math.ceil(keys.length / columns);
    const top = 34 + 20 * rows,
      height = Number(node.getAttribute("height"));
    const whole = svg("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width: width + 2 * pad,
      height: height + top + 2 * pad,
      viewBox: `0 0 ${width + 2 * pad} ${height + top + 2 * pad}`,
    });
    whole.append(svg("rect", { width: "100%", height: "100%", fill: "#fff" }));
    const title = whole.appendChild(
      svg("text", {
        x: pad,
        y: pad + 14,
        "font-size": 15,
        "font-weight": 600,
        "font-family": "sans-serif",
        fill: "#1b2027",
      }),
    );
    title.textContent = fullTitle(chart.spec);
    keys.forEach((key, i) => {
      const mark = swatch(key);
      const x = pad + (i % columns) * 170,
        y = pad + 26 + 20 * Math.floor(i / columns);
      for (const [name, value] of Object.entries({ x, y, width: 30, height: 14 })) mark.setAttribute(name, value);
      const text = svg("text", { x: x + 36, y: y + 11, "font-size": 12, "font-family": "sans-serif", fill: "#1b2027" });
      text.textContent = titleOf(key);
      whole.append(mark, text);
    });
    const place = whole.appendChild(svg("g", { transform: `translate(${pad},${pad + top})` }));
    place.append(node);
    host.append(whole);
    for (const inner of whole.querySelectorAll("*")) inline(inner);
    for (const style of whole.querySelectorAll("style")) style.remove();
    return new XMLSerializer().serializeToString(whole);
  } finally {
    host.remove();
  }
}

function inline(node) {
  const style = getComputedStyle(node);
  for (const name of INLINED) {
    const value = style.getPropertyValue(name);
    if (value) node.setAttribute(name, name === "font-family" ? "sans-serif" : value);
  }
  for (const name of ["class", "style"]) if (node.localName !== "image") node.removeAttribute(name);
}

const keysOf = (spec, choice) => [
  ...new Set(
    [...(spec.lines ?? []), ...(spec.bars ?? []), ...(spec.choices?.[choice]?.points ?? [])]
      .map((entry) => entry.series)
      .filter((key) => key !== undefined && key !== null),
  ),
];

function rowsOf(spec) {
  if (spec.lines)
    return [
      ["defence", spec.x_label, spec.y_label, ...(spec.columns ?? ["standard deviation", "seeds"])],
      ...spec.lines.flatMap((line) => line.points.map((point) => [line.series, ...point])),
    ];
  if (spec.bars) {
    const more = spec.bars.some((bar) => bar.beside) ? (bar) => [bar.beside] : () => [];
    return [
      ["name", spec.x_label, ...more({ beside: spec.beside })],
      ...spec.bars.map((bar) => [bar.name ?? bar.series, bar.value, ...more(bar)]),
    ];
  }
  if (spec.kind === "map")
    return [
      ["id", spec.title, spec.x_label, spec.y_label],
      ...spec.points.map(([x, y, group, id]) => [id, spec.groups[group].title, x, y]),
    ];
  if (spec.kind === "forest" && spec.percent)
    return [
      ["model", "row", spec.x_label, "low", "high"],
      ...spec.choices.flatMap((choice) => choice.points.map((p) => [p.series, p.row, p.x, p.low, p.high])),
    ];
  if (spec.kind === "scatter") {
    return [
      ["case", "defence", spec.x_label, "standard deviation", spec.y_label, "standard deviation"],
      ...spec.choices.flatMap((choice) =>
        choice.points.map((p) => [choice.label, p.series, p.x, p.x_spread, p.y, p.y_spread]),
      ),
    ];
  }
  if (spec.kind === "forest")
    return [
      ["ours", "baseline", "case", "difference", spec.reach],
      ...spec.choices.flatMap((choice) => choice.points.map((p) => [p.series, choice.label, p.row, p.x, p.reach])),
    ];
  return [
    ["row", "column", "channel", "value"],
    ...spec.values.map((value, i) => [
      Math.floor(i / spec.channels / spec.width) + 1,
      (Math.floor(i / spec.channels) % spec.width) + 1,
      (i % spec.channels) + 1,
      value,
    ]),
  ];
}

// A text that a spreadsheet would take for a formula gets an apostrophe in front.
function field(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const asCsv = (spec) =>
  rowsOf(spec)
    .map((row) => row.map(field).join(","))
    .join("\n") + "\n";

function save(chart, kind) {
  const [text, type] = kind === "svg" ? [asSvg(chart), "image/svg+xml"] : [asCsv(chart.spec), "text/csv"];
  const url = URL.createObjectURL(new Blob([text], { type }));
  const name =
    fullTitle(chart.spec)
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "") || "figure";
  element("a", { href: url, download: `${name}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
