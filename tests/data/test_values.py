"""What numbers look like, and whether new ones look the same."""

import numpy as np
import pytest

from gsat.data.values import in_words, kind, looks, of_new

RNG = np.random.default_rng(0)
GENOTYPES = RNG.integers(0, 3, (40, 30)).astype(np.float32)
COUNTS = RNG.poisson(20.0, (40, 30)).astype(np.float32) * 2


def filled():
    """Genotypes of which a few were missing, with the mean of the SNP in their place."""
    made = GENOTYPES.copy()
    made[3, 4], made[7, 9] = made[:, 4].mean(), made[:, 9].mean()
    return made


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (GENOTYPES, "genotypes"),
        (filled(), "genotypes"),
        (COUNTS, "counts"),
        (np.log1p(COUNTS), "logarithms"),
        (np.log1p(np.minimum(GENOTYPES, 1.0)), "logarithms"),
        (COUNTS - 20, "signed"),
        (COUNTS[:, :3], "other"),
    ],
)
def test_what_numbers_look_like(X, said):
    assert kind(looks(X)) == said


def test_genotypes_without_missing_ones_are_as_those_with_means_in_their_place():
    assert of_new(looks(GENOTYPES), looks(filled()), "none") == []
    assert of_new(looks(filled()), looks(GENOTYPES), "none") == []
    assert in_words(looks(filled())) == "genotypes or other small numbers (most of them whole, 0 to 2)"


def test_counts_are_told_from_their_logarithms():
    (said,) = of_new(looks(COUNTS), looks(np.log1p(COUNTS)), "none")
    assert "the new samples look like raw counts" in said
    assert "the predictions cannot be trusted before they are alike" in said
