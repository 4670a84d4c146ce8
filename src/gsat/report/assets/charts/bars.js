// Named bars: scores of features, or seconds of defences.
function drawBars(spec, width) {
  const bars = spec.bars.filter(isShown);
  if (!bars.length) return noMarks(width);
  const nameOf = (bar) => bar.name ?? titleOf(bar.series);
  const keyOf = (bar) => bar.series ?? spec.series;
  const valueOf = (bar) =>
    spec.seconds
      ? secondsText(bar.value) + (bar.ratio === null ? "" : `  (${bar.ratio.toFixed(2)} ×)`)
      : digits(bar.value, 3) + (bar.beside ? `   ${bar.beside}` : "");
  const most = Math.max(10, Math.floor(width * 0.06));
  const marginLeft = roomFor(bars.map(nameOf), most);
  const domain = d3.extent([0, ...spec.bars.map((bar) => bar.value)]);
  const order = d3.range(bars.length);
  const marks = [];
  for (const key of new Set(bars.map(keyOf))) {
    const own = order.filter((i) => keyOf(bars[i]) === key);
    const look = { fill: colourOf(key), fillOpacity: 0.85, rx: 2, insetTop: 2, insetBottom: 2 };
    marks.push(Plot.barX(own, { x: (i) => bars[i].value, y: (i) => i, ...look, ...named(key ?? "") }));
  }
  marks.push(
    Plot.text(order, {
      x: (i) => Math.max(bars[i].value, 0),
      y: (i) => i,
      text: (i) => valueOf(bars[i]),
      textAnchor: "start",
      dx: 6,
      fill: "var(--ink)",
      fontVariant: "tabular-nums",
    }),
  );
  marks.push(Plot.ruleX([0], { stroke: "var(--muted)" }));
  const node = Plot.plot({
    ...base,
    width,
    height: 42 + 21 * bars.length,
    marginLeft,
    marginRight: spec.seconds || spec.bars.some((bar) => bar.beside) ? 110 : 52,
    marginTop: 4,
    marginBottom: 36,
    x: {
      domain,
      label: spec.x_label,
      labelAnchor: "right",
      ticks: Math.max(2, Math.round((width - marginLeft) / 110)),
      tickSize: 4,
    },
    y: {
      type: "band",
      padding: 0,
      domain: order,
      label: null,
      tickFormat: (i) => short(nameOf(bars[i]), most),
      tickSize: 0,
    },
    marks,
  });
  const [x, y] = [node.scale("x"), node.scale("y")];
  const stops = order.map((i) => ({
    x: x.apply(Math.max(bars[i].value, 0)),
    y: y.apply(i) + y.bandwidth / 2,
    title: nameOf(bars[i]),
    rows: [
      { label: spec.x_label, value: spec.seconds ? secondsText(bars[i].value) : digits(bars[i].value) },
      ...(bars[i].beside ? [{ label: "in how many of the halves", value: bars[i].beside }] : []),
      ...(bars[i].ratio ? [{ label: `times ${titleOf(spec.reference)}`, value: bars[i].ratio.toFixed(2) }] : []),
    ],
  }));
  return { node, stops };
}
