// A quantity against a strength or a step: a line for each defence, with markers and bands of spread.
function drawLine(spec, width) {
  const lines = spec.lines.filter(isShown);
  if (!lines.length) return noMarks(width);
  const places = [...new Set(spec.lines.flatMap((line) => line.points.map(([x]) => x)))].sort(d3.ascending);
  const [low, high] = spec.domain ?? [-Infinity, Infinity];
  const clamp = (y) => Math.min(Math.max(y, low), high);
  const marks = [Plot.gridY({ ...thin, ticks: 5 })];
  if (spec.domain?.[0] === 0 || spec.from_zero) marks.push(Plot.ruleY([0], { stroke: "var(--muted)" }));
  if (spec.diagonal)
    marks.push(Plot.line([spec.domain, spec.domain].map((ends, i) => [ends[i], ends[i]]), { stroke: "var(--muted)", strokeDasharray: "4 4" }));
  for (const { series: key, points } of lines) {
    const spread = points.filter((point) => point[2] !== null);
    if (spread.length > 1) {
      marks.push(
        Plot.areaY(spread, {
          x: "0",
          y1: (d) => clamp(d[1] - d[2]),
          y2: (d) => clamp(d[1] + d[2]),
          fill: colourOf(key),
          fillOpacity: 0.13,
          ...named(key),
        }),
      );
    }
  }
  for (const { series: key, points } of lines) {
    const { dash = "", ours = false } = series.get(key) ?? {};
    const stroke = colourOf(key);
    const limits = points.filter((point) => point.length > 4); // of the value: [x, y, spread, count, low, high]
    if (limits.length) {
      const most = d3.max(limits, (point) => point[3]);
      const size = (point) => 2.5 + 5 * Math.sqrt(point[3] / most); // points of many samples are large, and none are joined
      marks.push(
        Plot.ruleX(limits, { x: "0", y1: "4", y2: "5", stroke, strokeOpacity: 0.55, strokeWidth: 2, ...named(key) }),
        Plot.dot(limits, { x: "0", y: "1", r: size, strokeWidth: 1.5, ...markerOf(key), ...named(key) }),
      );
      continue;
    }
    marks.push(
      Plot.lineY(points, {
        x: "0",
        y: "1",
        stroke,
        strokeWidth: ours ? 2.2 : 1.8,
        strokeDasharray: dash || undefined,
        ...named(key),
      }),
    );
    if (spec.markers)
      marks.push(Plot.dot(points, { x: "0", y: "1", r: 3.4, strokeWidth: 1.5, ...markerOf(key), ...named(key) }));
  }
  const node = Plot.plot({
    ...base,
    width,
    height: heightOf(width),
    marginTop: spec.y_label ? 26 : 12,
    marginLeft: 46,
    marginRight: 14,
    marginBottom: 38,
    x: {
      label: spec.x_label,
      domain: spec.x_domain,
      type: spec.log_x ? "log" : "linear",
      labelAnchor: "right",
      ticks: spec.x_domain ? 5 : spec.log_x ? places : ticksFor(places, width),
      tickFormat: d3.format(".4~g"),
      tickSize: 4,
    },
    y: {
      label: spec.y_label ?? null,
      domain: spec.domain,
      type: spec.log ? "log" : "linear",
      nice: !spec.domain,
      zero: Boolean(spec.from_zero),
      ticks: 5,
      tickSize: 0,
      tickFormat: spec.log ? "~g" : undefined,
    },
    marks,
  });
  const [x, y] = [node.scale("x"), node.scale("y")];
  const stops = places.flatMap((place) => {
    const rows = lines.flatMap(({ series: key, points }) => {
      const point = points.find((candidate) => candidate[0] === place);
      return point && point[1] !== null
        ? [{ key, at: point[1], value: valueAt(spec, point) }]
        : [];
    });
    rows.sort((a, b) => b.at - a.at);
    return rows.length
      ? [{ x: x.apply(place), y: y.apply(rows[0].at), title: `${spec.x_label}: ${digits(place)}`, rows }]
      : [];
  });
  return { node, stops, cross: [y.range[0], y.range[1]] };
}

const valueAt = (spec, [, y, spread, count, low, high]) =>
  low === undefined
    ? spec.domain
      ? withSpread(y, spread)
      : digits(y)
    : `${y.toFixed(1)} (${low.toFixed(1)} to ${high.toFixed(1)}), ${count} samples`;

const heightOf = (width) => Math.round(Math.min(Math.max(width * 0.66, 210), 380));

// The measured strengths themselves where they are few and far enough apart, else round numbers.
function ticksFor(places, width) {
  const extent = places.at(-1) - places[0];
  const gap = d3.min(d3.pairs(places), ([a, b]) => b - a) ?? extent;
  return places.length <= 9 && gap * (width - 60) >= 26 * extent ? places : Math.max(3, Math.round(width / 80));
}
