"""The report: one HTML page, a pure function of the result files in a folder.

`build(folder)` reads what it knows and shows what it finds; every file is optional, but one of the
first four must be there. docs/report.md has the columns and keys.

    results.csv         a row per measurement: defence, attack, strength (or case), seed, accuracy, ...
    log.jsonl           a line per training step: t, loss, mean_norm, lam, measure, validation(_loss); defence, seed
    perturbations.json  what the adversary does: images, named bars, singular values
    timing.csv          defence, seconds; what, seed
    chosen.csv          the rows of results.csv that the selection rule takes; the curves are drawn from them
    differences.csv     paired differences: ours, baseline, case, difference, low, high
    config.json         title, command, protocol, notes, names, report (hints for the curves), and any settings
    *.csv, *.png, ...   further tables and pictures

A folder without results of its own, whose sub-folders have some, becomes one page with a section for each; those that
its config.json lists as `sections` come first, in that order.
"""

from gsat.report.building import build, is_report

__all__ = ["build", "is_report"]
