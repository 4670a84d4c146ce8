// Reading a figure: the stop nearest to the pointer, or the next one by arrow key, in a box and for screen readers.
function readable(chart) {
  const { plot } = chart;
  let at = -1;
  const show = (index) => {
    at = index;
    const stop = chart.drawn.stops[index];
    plot.querySelector(".tip")?.remove();
    plot.querySelector(".cross")?.remove();
    if (!stop) return;
    const scale = plot.clientWidth / chart.drawn.width;
    if (chart.drawn.cross) {
      const [y1, y2] = chart.drawn.cross;
      chart.drawn.node.append(
        svg("line", {
          class: "cross",
          x1: stop.x,
          x2: stop.x,
          y1,
          y2,
          stroke: "var(--muted)",
          "stroke-dasharray": "2 2",
          "pointer-events": "none",
        }),
      );
    }
    const tip = plot.appendChild(tipOf(stop));
    const right = stop.x * scale + 14 + tip.offsetWidth > plot.clientWidth;
    const left = right ? stop.x * scale - 14 - tip.offsetWidth : stop.x * scale + 14;
    tip.style.left = `${Math.min(Math.max(left, 0), Math.max(plot.clientWidth - tip.offsetWidth, 0))}px`;
    tip.style.top = `${Math.max(0, Math.min(stop.y * scale - tip.offsetHeight / 2, plot.clientHeight - tip.offsetHeight))}px`;
  };
  const nearest = (event) => {
    const box = chart.drawn.node.getBoundingClientRect();
    const scale = chart.drawn.width / box.width;
    const x = (event.clientX - box.left) * scale,
      y = (event.clientY - box.top) * scale;
    return d3.leastIndex(chart.drawn.stops, (a, b) => away(a) - away(b));
    function away(stop) {
      return chart.drawn.cross ? Math.abs(stop.x - x) : Math.hypot(stop.x - x, stop.y - y);
    }
  };
  plot.addEventListener("pointermove", (event) => show(nearest(event)));
  plot.addEventListener("pointerdown", (event) => show(nearest(event)));
  plot.addEventListener("pointerleave", () => show(-1));
  plot.addEventListener("blur", () => show(-1));
  plot.addEventListener("keydown", (event) => {
    const stride = chart.drawn.stride ?? 1;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: stride, ArrowUp: -stride }[event.key];
    const count = chart.drawn.stops.length;
    if (event.key === "Escape") show(-1);
    if (step === undefined || !count) return;
    event.preventDefault();
    show(at < 0 ? 0 : Math.min(Math.max(at + step, 0), count - 1));
    document.querySelector(".status").textContent = spoken(chart.drawn.stops[at]);
  });
}

const labelOf = (row) => row.label ?? titleOf(row.key);
const spoken = (stop) => `${stop.title}. ${stop.rows.map((row) => `${labelOf(row)} ${row.value}`).join(", ")}`;

function tipOf(stop) {
  const tip = element("div", { class: "tip" }, element("b", {}, stop.title));
  for (const row of stop.rows) {
    tip.append(
      element(
        "div",
        {},
        ...(row.key ? [swatch(row.key)] : []),
        element("span", {}, labelOf(row)),
        element("span", {}, row.value),
      ),
    );
  }
  return tip;
}
