// A row for each case, a point with its interval for each defence: paired differences around zero, or shares in percent.
function drawForest(spec, width, choice) {
  const every = spec.choices[choice].points;
  const points = every.filter(isShown);
  if (!points.length) return noMarks(width);
  const rows = [...new Set(every.map((p) => p.row))];
  const keys = [...new Set(points.map((p) => p.series))];
  const place = (p) => rows.indexOf(p.row) + ((keys.indexOf(p.series) + 0.5) / keys.length - 0.5) * 0.66;
  const lowOf = (p) => p.low ?? p.x - (p.reach ?? 0);
  const highOf = (p) => p.high ?? p.x + (p.reach ?? 0);
  const most = Math.max(spec.percent ? 26 : 0, Math.floor(width * 0.055));
  const marginLeft = roomFor(rows, most);
  const ticks = spec.percent ? Math.max(2, Math.round((width - marginLeft) / 65)) : Math.round(width / 90);
  const marks = [
    Plot.gridX({ ...thin, ticks }),
    Plot.ruleY(d3.range(rows.length - 1), { y: (i) => i + 0.5, stroke: "var(--rule)" }),
    Plot.ruleX([0], { stroke: spec.percent ? "var(--muted)" : "var(--ink)" }),
  ];
  for (const key of keys) {
    const own = points.filter((p) => p.series === key);
    marks.push(
      Plot.ruleY(own, {
        y: place,
        x1: lowOf,
        x2: highOf,
        stroke: colourOf(key),
        strokeWidth: 2,
        ...named(key ?? ""),
      }),
    );
    marks.push(Plot.dot(own, { x: "x", y: place, r: 4, strokeWidth: 1.5, ...markerOf(key), ...named(key ?? "") }));
  }
  const node = Plot.plot({
    ...base,
    width,
    height: 60 + rows.length * Math.max(26, 12 * keys.length + 8),
    marginLeft,
    marginRight: 16,
    marginBottom: 40,
    x: {
      label: spec.x_label,
      labelAnchor: "right",
      domain: spec.domain ?? (spec.percent ? [0, 100] : padded(every.flatMap((p) => [lowOf(p), highOf(p), 0]))),
      ticks,
      tickFormat: (value) => (value && !spec.percent ? d3.format("+~g")(value) : String(value)),
    },
    y: {
      domain: [-0.5, rows.length - 0.5],
      reverse: true,
      label: null,
      ticks: d3.range(rows.length),
      tickFormat: (i) => short(rows[i] ?? "", most),
      tickSize: 0,
    },
    marks,
  });
  const [x, y] = [node.scale("x"), node.scale("y")];
  const stops = points.map((p) => ({
    x: x.apply(p.x),
    y: y.apply(place(p)),
    title: p.row,
    rows: [
      {
        key: p.series,
        label: spec.percent ? (p.series ? titleOf(p.series) : "share") : `${titleOf(p.series)} − ${spec.choices[choice].label}`,
        value: spec.percent
          ? `${p.x.toFixed(1)} (${lowOf(p).toFixed(1)} to ${highOf(p).toFixed(1)})`
          : signed(p.x) + (p.reach === null ? "" : ` ± ${p.reach.toFixed(1)}`),
      },
    ],
  }));
  return { node, stops };
}

const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(1);

function padded(values) {
  const [low, high] = d3.extent(values);
  const margin = (high - low || 1) * 0.05;
  return [low < 0 ? low - margin : 0, high > 0 ? high + margin : 0];
}
