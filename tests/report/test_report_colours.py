"""The colours of the defences: seen against their ground, and told apart also without one kind of cone."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import gsat.report
from gsat.report.series import PALETTE

# Machado, Oliveira and Fernandes 2009: what is seen of linear RGB where one kind of cone is missing
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
OKLAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
         [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb):
    return 100 * np.array(OKLAB) @ np.cbrt(np.array(CONES) @ np.clip(rgb, 0, 1))


def custom_property(name):
    """Its value on a light and on a dark ground."""
    style = (Path(gsat.report.__file__).parent / "assets" / "theme.css").read_text()
    return re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", style).groups()


def test_the_measures_are_right():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert oklab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.01)
    assert np.linalg.norm(oklab(linear("#ff0000")) - oklab(linear("#00ff00"))) > 40


@pytest.mark.parametrize("theme", [0, 1])
def test_every_colour_stands_out_from_its_ground(theme):
    for name in ("ground", "surface"):
        ground = custom_property(name)[theme]
        assert {
            colours[theme]: contrast(colours[theme], ground)
            for colours in PALETTE
            if contrast(colours[theme], ground) < 3
        } == {}
        assert contrast(custom_property("ink")[theme], ground) > 10
        assert contrast(custom_property("muted")[theme], ground) > 4.5
        assert contrast(custom_property("accent")[theme], ground) > 4.5


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("sight", SIGHT)
def test_any_two_colours_can_be_told_apart(theme, sight):
    seen = {colours[theme]: oklab(np.array(SIGHT[sight]) @ linear(colours[theme])) for colours in PALETTE}
    near = {(a, b): d for a, b in combinations(seen, 2) if (d := np.linalg.norm(seen[a] - seen[b])) < 6.5}
    assert near == {}  # 2 is about the least difference that is seen side by side
