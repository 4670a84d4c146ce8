// Pixels: one channel from below over nothing to above; three channels as colours around grey.
function drawImage(spec, width, choice, host) {
  const { height: h, width: w, channels: c, values, limit } = spec;
  const canvas = element("canvas", { width: w, height: h });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(w, h);
  const ramp = rampOf(host, spec.tone);
  for (let i = 0; i < h * w; i++) {
    const own = values.slice(i * c, i * c + c);
    const colour = c === 3 ? own.map((v) => 127.5 * (1 + Math.max(-1, Math.min(1, v / limit)))) : ramp(own[0] / limit);
    pixels.data.set([...colour, 255], 4 * i);
  }
  context.putImageData(pixels, 0, 0);
  const node = svg("svg", {
    viewBox: `0 0 ${w} ${h}`,
    width,
    height: (width * h) / w,
    "aria-hidden": "true",
    class: "pixels",
  });
  node.append(
    svg("image", {
      href: canvas.toDataURL(),
      width: w,
      height: h,
      preserveAspectRatio: "none",
      style: "image-rendering: pixelated",
    }),
  );
  node.append(svg("rect", { width: w, height: h, fill: "none", stroke: "var(--rule)", "stroke-width": w / 150 }));
  const stops = d3.range(h * w).map((i) => ({
    x: ((i % w) + 0.5) * (width / w),
    y: (Math.floor(i / w) + 0.5) * (width / w),
    title: `row ${Math.floor(i / w) + 1}, column ${(i % w) + 1}`,
    rows: values
      .slice(i * c, i * c + c)
      .map((value, k) => ({ label: c === 3 ? ["red", "green", "blue"][k] : "value", value: digits(value, 3) })),
  }));
  return { node, stops, stride: w };
}

// [-1, 1] -> [r, g, b] in the colours of the theme; nothing is the ground of the figure.
function rampOf(host, tone) {
  const names = tone === "ink" ? ["--ink", "--surface", "--ink"] : ["--below", "--surface", "--above"];
  const [below, nothing, above] = names.map((name) => resolved(name, host));
  const sides = [d3.interpolateLab(nothing, below), d3.interpolateLab(nothing, above)];
  return (value) => {
    const { r, g, b } = d3.rgb(sides[value < 0 ? 0 : 1](Math.min(Math.abs(value), 1)));
    return [r, g, b];
  };
}
