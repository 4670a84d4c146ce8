"""The tables of the documentation: made of the files, with the figures that the experiments themselves report."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from gsat.experiments import digest
from gsat.experiments.digest_tables import TABLES, markdown
from gsat.experiments.paper import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results"
KEPT = sorted(name for name in TABLES if (RESULTS / name / "config.json").exists())


def cells(text):
    """The cells of a table, row by row."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "---" not in line]


def tables_of(name, folder):
    return [cells(text) for text in TABLES[name](folder) if text.startswith("|")]


def test_every_experiment_has_a_table_or_is_a_figure():
    assert set(EXPERIMENTS) - set(TABLES) - set(digest.FIGURES) == {"shifts"}


@pytest.mark.parametrize("name", KEPT)
def test_the_tables_have_the_figures_that_the_experiment_reports(name):
    """config.json has them in a line, which the experiment wrote by itself; the tables may have a digit less."""
    reported = json.loads((RESULTS / name / "config.json").read_text(encoding="utf-8"))["headline"]
    wanted, found = (
        [float(number) for number in re.findall(r"(?<![\w.,])[+-]?\d+\.\d+", text)]
        for text in (reported, " ".join(TABLES[name](RESULTS / name)))
    )
    assert wanted
    assert [number for number in wanted if min(abs(number - one) for one in found) > 0.0501] == []


@pytest.mark.parametrize("name", KEPT)
def test_tables_are_whole_and_narrow(name):
    found = tables_of(name, RESULTS / name)
    assert found
    for table in found:
        assert {len(row) for row in table} == {len(table[0])}
        assert len(table[0]) <= 7
        assert max(len(" | ".join(row)) for row in table) <= digest.WIDTH


def test_selection_has_the_lead_over_all_numbers_and_the_lasso_by_itself(tmp_path):
    rows = [
        {"label": "continent", "counted": "SNPs", "seed": seed, "method": method, "k": k, "accuracy": accuracy}
        for seed in (0, 1)
        for method, values in {"GroupSparseSelector": (0.5, 0.9), "LASSO": (0.4, 0.8 + 0.1 * seed)}.items()
        for k, accuracy in zip((5, 100), values, strict=True)
    ]
    alone = [{**rows[0], "method": "LASSO, its own number", "k": k, "accuracy": 0.95} for k in (140, 160)]
    whole = [{**rows[0], "method": "all", "k": 0, "accuracy": 1.0}]
    gaps = [
        {"ours": "group-sparse", "baseline": "LASSO", "difference": gap, "case": f"continent, {k} SNPs"}
        for k, gap in ((5, 10.0), (100, 5.0))
    ]
    for name, frame in (("results", rows + alone + whole), ("own_number", alone), ("differences", gaps)):
        pd.DataFrame(frame).to_csv(tmp_path / f"{name}.csv", index=False)
    said, table = TABLES["selection"](tmp_path)
    assert "the mean over 5 and 100 features" in said
    assert cells(table) == [
        ["continents", "100 SNPs", "lead"],
        ["GroupSparseSelector", "90.0", ""],
        ["LASSO", "85.0", "+7.5"],
        ["LASSO, its own number: 150", "95.0", ""],
        ["all features", "100.0", ""],
    ]


def test_the_solvers_are_shown_at_the_largest_eps_and_by_what_they_reach(tmp_path):
    about = {"data": "mnist", "model": "elu", "cost": "low-rank"}
    pd.DataFrame(
        {**about, "way": way, "seed": seed, "eps": eps, "accuracy": value + 0.01 * seed - eps}
        for way, value in (("ADMM, budget", 0.7), ("proximal, budget", 0.8)) for seed in (0, 2) for eps in (0.1, 0.2)
    ).to_csv(tmp_path / "results.csv", index=False)  # fmt: skip
    pd.DataFrame(
        {**about, "way": way, "solver": solver, "share": share}
        for way, one in (("ADMM, budget", 0.25), ("proximal, budget", 0.5))
        for solver, share in (("proximal", 2 * one), ("admm", one))
    ).to_csv(tmp_path / "inner_means.csv", index=False)
    assert tables_of("algorithm", tmp_path) == [
        [
            ["", "cost", "eps", "ADMM, budget", "proximal, budget"],
            ["MNIST, ELU net", "low-rank", "0.2", "51.0", "61.0"],
        ],
        [["", "cost", "proximal", "admm"], ["MNIST, ELU net", "low-rank", "50.0", "25.0"]],
    ]


def test_attacks_are_named_in_words_in_the_heads_of_tables():
    page = digest.paper_sections(RESULTS)
    assert "| ELU net, one shift for all samples | MNIST, eps 0.05 |" in page
    assert "universal-all" not in page


def test_a_table_in_markdown():
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"
