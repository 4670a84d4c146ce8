"""Plots of what gsat.tl wrote: what stands in the axes, which state they leave, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import gsat
from cells import QUICK, TYPES, plainly


@pytest.fixture(scope="module")
def cells():
    adata = plainly()
    gsat.tl.diagnose(adata, "donor", "true", n_splits=3)
    classifier = gsat.tl.fit(adata, "type", "donor", **QUICK)
    return adata, classifier


def entries(ax):
    """The numbers written into the squares, by (row, column)."""
    return {(round(t.get_position()[1]), round(t.get_position()[0])): int(t.get_text()) for t in ax.texts}


def test_the_confusion_matrix_counts_cells(cells):
    adata, _ = cells
    adata = adata.copy()
    said = adata.obs["true"].to_numpy().copy()
    wrong = np.flatnonzero(said == TYPES[0])[:5]
    said[wrong] = TYPES[2]
    adata.obs["gsat_prediction"] = said
    ax = gsat.pl.confusion(adata, "true", normalise=False)
    n = pd.Series(adata.obs["true"]).value_counts()
    assert entries(ax) == {(0, 0): n[TYPES[0]] - 5, (0, 2): 5, (1, 1): n[TYPES[1]], (2, 2): n[TYPES[2]]}
    assert [text.get_text() for text in ax.get_yticklabels()] == TYPES.tolist()
    balanced = 100 * (2 + (n[TYPES[0]] - 5) / n[TYPES[0]]) / 3
    assert ax.get_title() == (
        f"150 cells, 120 of them trained on\naccuracy {100 * 145 / 150:.0f} %, balanced {balanced:.0f} %"
    )
    assert gsat.pl.confusion(adata, "true", only_new=True).get_title().startswith("30 cells\n")
    assert gsat.pl.confusion(adata).get_title().startswith("120 cells, 120 of them trained on\n")
    assert gsat.pl.confusion(adata).get_ylabel() == "type, % of its cells"


def test_scores_shift_and_history_show_what_was_written(cells):
    adata, classifier = cells
    ax = gsat.pl.scores(adata, n=4)
    first = adata.var["gsat_score"].nlargest(4)
    assert [text.get_text() for text in ax.get_yticklabels()] == first.index.tolist()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx((100 * first).tolist())
    panels = gsat.pl.shift(adata)
    assert len(panels) == 3
    assert panels[0].figure.get_suptitle().startswith(adata.uns["gsat_shift"]["structure"])
    losses = [step.loss for step in classifier.history_]
    for source in (adata, classifier, classifier.history_):
        line = gsat.pl.history(source).lines[0]
        assert line.get_xdata().tolist() == list(range(len(losses)))
        assert line.get_ydata() == pytest.approx(losses)


def test_plots_draw_on_axes_that_are_given_and_leave_pyplot_alone(cells):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    adata, _ = cells
    before = pyplot.get_fignums()
    for draw in (gsat.pl.confusion, gsat.pl.scores, gsat.pl.shift, gsat.pl.history):
        ax = Figure().subplots()
        assert draw(adata, ax=ax) is ax
        assert ax.has_data()
        new = draw(adata)
        assert (new[0] if draw is gsat.pl.shift else new).figure is not ax.figure
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda a: gsat.pl.confusion(a), r"labels_key must name the column of .obs with the true labels, got None"),
        (
            lambda a: gsat.pl.confusion(a, "type"),
            r"adata.obs must have 'gsat_prediction', which gsat.tl.predict writes",
        ),
        (
            lambda a: gsat.pl.confusion(a, "kind"),
            r"labels_key must be a column of .obs \(type, donor, true\), got 'kind'",
        ),
        (lambda a: gsat.pl.scores(a), r"adata.var must have 'gsat_score', which gsat.tl.fit writes"),
        (lambda a: gsat.pl.scores(a, n=0), r"n must be >= 1, got 0"),
        (lambda a: gsat.pl.shift(a), r"adata.uns must have 'gsat_shift', which gsat.tl.diagnose writes"),
        (lambda a: gsat.pl.history(a), r"adata.uns\['gsat'\] must have a history, which gsat.tl.fit writes"),
    ],
)
def test_what_was_not_written_is_named(draw, message):
    with pytest.raises(ValueError, match=message):
        draw(plainly())


def test_other_things_are_refused():
    for draw in (gsat.pl.confusion, gsat.pl.scores, gsat.pl.shift, gsat.pl.history):
        with pytest.raises(TypeError, match=r"adata must be an AnnData object, got dict"):
            draw({})


def test_all_missing_labels_and_old_cells_alone_are_told(cells):
    adata = cells[0].copy()
    with pytest.raises(ValueError, match=r"got 'type', where all are missing or were trained on"):
        gsat.pl.confusion(adata, only_new=True)
    adata.obs["none"] = np.nan
    with pytest.raises(ValueError, match=r"got 'none', where all are missing$"):
        gsat.pl.confusion(adata, "none")
