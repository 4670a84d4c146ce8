// Samples on a plane: a colour and a marker for each group, a legend below, and arrows to where some of them are moved.
function drawMap(spec, width) {
  const { groups, points, arrows } = spec;
  const look = (i) => `var(--s${groups[i].slot})`;
  const xs = [...points.map((p) => p[0]), ...arrows.map((a) => a[2])];
  const ys = [...points.map((p) => p[1]), ...arrows.map((a) => a[3])];
  const ticks = Math.max(3, Math.round(width / 110));
  const r = points.length > 400 ? 2 : 3;
  const marks = [Plot.gridX({ ...thin, ticks }), Plot.gridY({ ...thin, ticks: 5 })];
  groups.forEach((group, i) => {
    const own = points.filter((p) => p[2] === i);
    const style = { x: "0", y: "1", r, symbol: symbolOf(group.symbol), stroke: look(i), strokeWidth: 1.2 };
    marks.push(Plot.dot(own, { ...style, strokeOpacity: spec.faint ? 0.35 : 0.85, ...named(group.title) }));
  });
  if (arrows.length)
    marks.push(
      Plot.arrow(arrows, { x1: "0", y1: "1", x2: "2", y2: "3", stroke: "var(--ink)", strokeWidth: 1, headLength: 4, insetStart: 0 }),
    );
  const legend = legendRows(groups, width);
  const node = Plot.plot({
    ...base,
    width,
    height: heightOf(width),
    marginTop: 22,
    marginLeft: 46,
    marginRight: 14,
    marginBottom: 42,
    x: { label: spec.x_label, labelAnchor: "right", domain: withMargin(xs), ticks, tickSize: 4 },
    y: { label: spec.y_label, domain: withMargin(ys), ticks: 5, tickSize: 0 },
    marks,
  });
  const top = Number(node.getAttribute("height")) + 12;
  const height = top + 18 * legend.length;
  node.setAttribute("height", height);
  node.setAttribute("viewBox", `0 0 ${width} ${height}`);
  legend.flat().forEach(({ i, text, left, row }) => {
    const at = svg("g", { transform: `translate(${left},${top + 18 * row})` });
    at.append(
      svg("path", { d: d3.symbol(symbolOf(groups[i].symbol), 30)(), transform: "translate(5,0)", fill: "none", stroke: look(i), "stroke-width": 1.6 }),
    );
    const name = at.appendChild(svg("text", { x: 14, dy: "0.35em", fill: "var(--ink)", "font-size": 12, "text-anchor": "start" }));
    name.textContent = text;
    node.append(at);
  });
  const [x, y] = [node.scale("x"), node.scale("y")];
  const stops = d3
    .sort(points, (p) => p[0])
    .map(([px, py, , id, text]) => ({ x: x.apply(px), y: y.apply(py), title: id, rows: [{ label: text, value: "" }] }));
  return { node, stops };
}

function withMargin(values) {
  const [low, high] = d3.extent(values);
  const margin = (high - low || 1) * 0.04;
  return [low - margin, high + margin];
}

// The names of the groups in rows that fit the width.
function legendRows(groups, width) {
  const rows = [[]];
  let left = 8;
  groups.forEach((group, i) => {
    const text = short(group.title, 28);
    const needed = 30 + 6.9 * text.length;
    if (left + needed > width && rows.at(-1).length) {
      rows.push([]);
      left = 8;
    }
    rows.at(-1).push({ i, text, left, row: rows.length - 1 });
    left += needed;
  });
  return rows;
}
