"""The totals of `make campaign`: what was tried, what ended cleanly, what failed, by kind and by part.

python benchmarks/campaign.py campaign.jsonl
"""

import json
import sys
from collections import Counter
from pathlib import Path

COLUMNS = ("tried", "clean", "failed")


def totals(lines):
    """The sums of the counts: of each kind ("kind: part") with its parts in the order of their names; then of all."""
    parts, kinds, whole = {}, {}, Counter()
    for line in lines:
        found = json.loads(line)
        counts = {column: found[column] for column in COLUMNS}
        kind, _, part = found["part"].partition(": ")
        for sums in (parts.setdefault((kind, part), Counter()), kinds.setdefault(kind, Counter()), whole):
            sums.update(counts)
    rows = []
    for kind in sorted(kinds):
        rows.append((kind, kinds[kind]))
        rows += [(f"  {part}", sums) for (of, part), sums in sorted(parts.items()) if of == kind and part]
    return [*rows, ("all", whole)]


def main(path):
    rows = totals(Path(path).read_text(encoding="utf-8").splitlines())
    width = max(len(part) for part, _ in rows)
    print(f"{'part':<{width}}  " + "  ".join(f"{column:>7}" for column in COLUMNS))
    for part, counts in rows:
        print(f"{part:<{width}}  " + "  ".join(f"{counts[column]:>7}" for column in COLUMNS))
    return 1 if rows[-1][1]["failed"] or not rows[-1][1]["tried"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
