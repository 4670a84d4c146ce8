// Tables sort by a press on a header: numbers as numbers, the other way round at the second press, gaps always last.
function sortable(table) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const numeric = !header.classList.contains("text");
      const first = numeric ? "descending" : "ascending";
      const order = header.ariaSort === first ? (first === "ascending" ? "descending" : "ascending") : first;
      for (const other of headers) other.ariaSort = "none";
      header.ariaSort = order;
      const direction = order === "ascending" ? 1 : -1;
      const keyed = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column], numeric), row]);
      keyed.sort(([a], [b]) =>
        a === null || b === null
          ? (a === null) - (b === null)
          : direction * (numeric ? a - b : a.localeCompare(b, "en", { numeric: true })),
      );
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  });
}

function valueOf(cell, numeric) {
  const text = cell.dataset.value ?? cell.textContent;
  if (text === "" || text === "–") return null;
  return numeric ? Number(text.replace("−", "-").replace("∞", "Infinity")) : text;
}
