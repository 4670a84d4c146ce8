"""Counts of the campaign against bad inputs: how much was tried, what ended cleanly, what failed."""

import json
import os
from pathlib import Path

FULL = os.environ.get("GSAT_CAMPAIGN") == "full"


def count(part: str, tried: int, clean: int, failed: int) -> None:
    """Append the counts of one part to the file that GSAT_CAMPAIGN_REPORT names, if it names one."""
    report = os.environ.get("GSAT_CAMPAIGN_REPORT")
    if report:
        line = json.dumps({"part": part, "tried": tried, "clean": clean, "failed": failed})
        with Path(report).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
