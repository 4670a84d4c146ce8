// Clean against robust accuracy: a point for each defence, its seeds around it, its name beside the plot.
function drawScatter(spec, width, choice) {
  const every = spec.choices[choice].points;
  const points = every.filter(isShown);
  if (!points.length) return noMarks(width);
  const wide = width > 460;
  const names = points.map((p) => short(titleOf(p.series), 26));
  const span = (name) => {
    const [low, high] = d3.extent(
      every.flatMap((p) => [p[name] - (p[`${name}_spread`] ?? 0), p[name] + (p[`${name}_spread`] ?? 0)]),
    );
    const margin = Math.max((high - low) * 0.12, 1);
    return [Math.max(low - margin, 0), Math.min(high + margin, 100)];
  };
  const ticks = Math.round(width / 110);
  const marks = [Plot.gridX({ ...thin, ticks }), Plot.gridY({ ...thin, ticks: 6 })];
  for (const point of points) {
    const key = point.series;
    const stroke = colourOf(key);
    if (point.seeds.length > 1) {
      marks.push(Plot.dot(point.seeds, { x: "0", y: "1", r: 2, fill: stroke, fillOpacity: 0.45, ...named(key) }));
      const look = { stroke, strokeOpacity: 0.6, ...named(key) };
      const { x, y, x_spread: dx, y_spread: dy } = point;
      marks.push(
        Plot.ruleX([x], { y1: y - dy, y2: y + dy, ...look }),
        Plot.ruleY([y], { x1: x - dx, x2: x + dx, ...look }),
      );
    }
    marks.push(Plot.dot([point], { x: "x", y: "y", r: 5.5, strokeWidth: 2, ...markerOf(key), ...named(key) }));
  }
  const node = Plot.plot({
    ...base,
    width,
    height: Math.round(Math.min(Math.max(width * 0.55, 280), 420)),
    marginTop: 26,
    marginLeft: 46,
    marginRight: wide ? 20 + d3.max(names, (name) => name.length) * 7.6 : 14,
    marginBottom: 38,
    x: { label: spec.x_label, domain: span("x"), ticks, tickSize: 4 },
    y: { label: spec.y_label, domain: span("y"), ticks: 6, tickSize: 0 },
    marks,
  });
  const [x, y] = [node.scale("x"), node.scale("y")];
  const labels = points.map((p) => ({ key: p.series, x: x.apply(p.x), y: y.apply(p.y) }));
  if (wide) labelAtTheSide(node, labels, x.range[1] + 14);
  const stops = d3
    .sort(points, (p) => p.x)
    .map((p) => ({
      x: x.apply(p.x),
      y: y.apply(p.y),
      title: titleOf(p.series),
      rows: [
        { label: "clean", value: withSpread(p.x, p.x_spread) },
        { label: "under attack", value: withSpread(p.y, p.y_spread) },
      ],
    }));
  return { node, stops };
}

// Names beside the plot, in the order of height and never over each other, each with a thin line to its point.
function labelAtTheSide(node, labels, left) {
  const step = 17;
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, i) => {
    label.at = i ? Math.max(label.y, labels[i - 1].at + step) : label.y;
  });
  const most = Number(node.getAttribute("height")) - 46;
  for (let i = labels.length - 1, limit = most; i >= 0; i--, limit -= step)
    labels[i].at = Math.min(labels[i].at, limit);
  for (const { key, x, y, at } of labels) {
    const group = node.appendChild(svg("g", { "data-series": key }));
    group.append(
      svg("path", {
        d: `M${x + 9},${y}C${(x + left) / 2},${y} ${(x + left) / 2},${at} ${left - 4},${at}`,
        fill: "none",
        stroke: colourOf(key),
        "stroke-opacity": 0.45,
      }),
    );
    const text = group.appendChild(
      svg("text", {
        x: left,
        y: at,
        dy: "0.35em",
        fill: colourOf(key),
        "font-size": 12.5,
        "font-weight": 600,
        "text-anchor": "start",
      }),
    );
    text.textContent = short(titleOf(key), 26);
  }
}
