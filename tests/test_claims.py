"""The page of the paper's claims: an entry for each, whole, whose commands, files and links exist."""

import re
from pathlib import Path

import pytest

from gsat.experiments.paper import EXPERIMENTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "claims.md"
LABELLED = (  # what has a number in the paper
    *(f"Theorem {number}" for number in (1, 2, 3)),
    *(f"Lemma {number}" for number in (1, 2)),
    *(f"Algorithm {number}" for number in (1, 2)),
    *(f"Figure {number}" for number in (1, 2, 3, 4)),
)
IN_PROSE = (  # what it says beside them, by words of the entry's title
    "suboptimal", "special case", "Batch effects", "three costs", "concave inside", "generalises from a group",
    "closed forms", "rule λ", "λ and α", "λ and E‖X‖", "attacks of the evaluation", "norm of GSAT", "97.6 and 75.2",
    "Seconds of an iteration", "HapMap and TCGA data", "94.5, 92.0, 92.5", "LASSO does not apply", "84.33",
    "other TCGA data", "significantly better", "features that an adversary", "basis that an adversary",
)  # fmt: skip
PARTS = ("Claim", "Found", "Why")


@pytest.fixture(scope="module")
def entries():
    """Title and text of each entry."""
    _, *found = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: text for title, _, text in (part.partition("\n") for part in found)}


def test_every_claim_has_one_entry(entries):
    for name in (*LABELLED, *IN_PROSE):
        found = [title for title in entries if re.search(rf"{re.escape(name)}(?!\d)", title)]
        assert len(found) == 1, name
    assert len(entries) == len(LABELLED) + len(IN_PROSE)


def test_every_entry_is_whole(entries):
    for title, text in entries.items():
        bullets = re.findall(r"^- \*(\w+)\.\* \S", text, flags=re.MULTILINE)
        assert tuple(bullets) == PARTS, title


def test_what_the_page_names_exists(entries):
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"`gsat reproduce ([^`]+)`", text)
    named = {word for command in commands for word in command.split(" --")[0].split() if not word.startswith("--")}
    assert named <= set(EXPERIMENTS)
    assert set(EXPERIMENTS) - named == set(), "experiments that no claim is judged by"
    files = re.findall(r"`(?:python )?((?:results|tests|benchmarks)/[^` ]+)`", text)
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
