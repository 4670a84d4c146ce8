"""Objects that show themselves: one line of text, HTML in which everything is escaped, and axes of their own."""

import json
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import gsat
from gsat._show import COLUMNS, ROWS, Card, Shown, drawing, words
from gsat.data import Table
from gsat.estimators.matching import Alignment
from gsat.training import History, Step

EVIL = "<script>alert('x')</script>&"


@pytest.fixture(scope="module")
def diagnosis():
    table = gsat.data.make_shift(120, 8, shift="universal", strength=1.0)
    return gsat.diagnose(table.X, table.batch, table.y, n_splits=3)


@pytest.fixture(scope="module")
def objects(diagnosis):
    """One of each kind, with its repr."""
    table = Table(np.eye(4), y=np.array(["a", "b", "a", EVIL]), batch=np.array([1, 1, 2, 2]), source=EVIL)
    certified = pd.DataFrame({"radius": [0.0, 0.1], "high": [0.5, 0.75], "rigorous": [True, True]})
    bounds = certified.assign(lam=1.0, mean_estimate=0.5, low=0.4, gap=0.0, interval="betting")
    attacks = pd.DataFrame({"attack": [EVIL], "radius": [0.05], "risk": [0.55]})
    return {
        "Table(4 samples of 4 features, 3 classes, 2 batches)": table,
        "History(2 steps, loss 1.25 to 0.5, λ = 3)": History([Step(0, 1.25), Step(7, 0.5, lam=2.0)], lam=3.0),
        "Metric(1 directions of 2 features, stretch up to 3, 1 elsewhere)": gsat.Metric(
            torch.tensor([[1.0, 0.0]]), torch.tensor([3.0])
        ),
        f"Alignment(features: 2 of 3 matched by name, 1 missing (ACTB), 1 extra left out ({EVIL}))": Alignment(
            np.array([2, -1, 0]), ("ACTB",), (EVIL,)
        ),
        "Certificate(risk 0.5; at most 0.75 within radius 0.1, at level 0.95)": gsat.Certificate(
            bounds, attacks, 2.0, 1.5, 0.5, 0.95, 20, 10
        ),
        f"Diagnosis(universal, size {diagnosis.size:.2g}·E‖X‖, p = 0.0025; 2 batches, 8 features)": diagnosis,
    }


class Balanced(HTMLParser):
    """Collects the names of the elements, and fails where they do not nest."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_reprs_are_one_line_and_html_is_escaped(objects):
    for text, shown in objects.items():
        assert repr(shown) == text
        html = shown._repr_html_()
        parser = Balanced()
        parser.feed(html)
        assert parser.open == []
        assert parser.seen <= {"div", "strong", "table", "tr", "th", "td", "details", "summary", "p"}
        assert type(shown).__name__ in html
        assert "<script" not in html
    kinds = {type(shown).__name__: shown._repr_html_() for shown in objects.values()}
    for kind in ("Table", "Alignment", "Certificate"):
        assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;" in kinds[kind]


def test_plots_draw_what_they_say_and_pyplot_keeps_nothing(objects):
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    before = pyplot.get_fignums()
    for shown in objects.values():
        ax = shown.plot()
        assert all(isinstance(each, Axes) and each.figure is not None for each in np.atleast_1d(ax))
        given = Figure().subplots()
        assert shown.plot(ax=given) is given
        assert given.has_data()
    assert pyplot.get_fignums() == before
    table, history, metric, alignment, _, _ = objects.values()
    assert [bar.get_height() for bar in table.plot().patches] == [0, 1, 1, 1, 1, 0]  # class by class, in both batches
    assert history.plot("lam").lines[0].get_xydata().tolist() == [[7.0, 2.0]]
    assert metric.plot().lines[0].get_ydata().tolist() == [3.0]
    assert [bar.get_width() for bar in alignment.plot().patches] == [2, 1, 1]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: History([Step(0, 1.0)]).plot("lam"),
            r"measure must be one that was recorded \(loss, mean_norm\), got 'lam'",
        ),
        (lambda: History().plot(), r"measure must be one that was recorded \(there is none\), got 'loss'"),
        (lambda: History().plot("speed"), r"measure must be one of loss, mean_norm, .*got 'speed'"),
        (
            lambda: Table(np.eye(3)).plot(),
            r"y or batch must be given to draw how many samples there are of each, got neither",
        ),
    ],
)
def test_what_cannot_be_drawn_is_told(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_tables_of_every_kind():
    rng = np.random.default_rng(0)
    assert repr(Table(np.eye(3))) == "Table(3 samples of 3 features)"
    assert repr(Table(np.zeros((2, 4, 5)), y=np.array([0, 1]))) == "Table(2 samples of 4 x 5 features, 2 classes)"
    targets = Table(np.eye(40), y=rng.normal(size=40))
    assert repr(targets) == "Table(40 samples of 40 features)"
    assert sum(bar.get_height() for bar in targets.plot().patches) == 40
    mixed = Table(np.eye(3), y=np.array(["a", None, 2], dtype=object))
    assert repr(mixed) == "Table(3 samples of 3 features, 3 classes)"
    many = Table(np.zeros((500, 1)), y=np.arange(500) % 20, batch=np.arange(500) // 10, feature_names=("<b>",))
    assert repr(many) == "Table(500 samples of 1 features, 20 classes, 50 batches)"
    html = many._repr_html_()
    assert f"and {50 - ROWS} more rows, {21 - COLUMNS} more columns" in html  # beside the classes the name of the batch
    assert "&lt;b&gt;" in html
    ax = many.plot()
    assert ax.get_xlabel() == "batch, the 30 largest of 50"
    assert len(ax.get_xticks()) == 30
    assert ax.get_legend().get_texts()[-1].get_text() == "9 others"
    assert sum(bar.get_height() for bar in ax.patches) == 300
    assert "3 train, 1 test" in Table(np.eye(4)).split_where([0, 0, 0, 1])._repr_html_()


def test_an_empty_history_and_a_certificate_without_a_bound_show_themselves():
    assert repr(History()) == "History(no steps)"
    frame = pd.DataFrame({"radius": [0.1], "rigorous": [False], "high": [1.0]})
    nothing = gsat.Certificate(frame, frame.iloc[:0], None, float("inf"), 0.25, 0.95, 5, 5)
    assert repr(nothing) == "Certificate(risk 0.25; no rigorous bound)"
    assert "curvature" not in nothing._repr_html_()


def test_a_diagnosis_comes_back_from_json(diagnosis):
    again = gsat.Diagnosis.from_dict(json.loads(json.dumps(diagnosis.to_dict())))
    assert str(again) == str(diagnosis)
    assert again.to_dict() == diagnosis.to_dict()
    table = gsat.data.make_shift(120, 8, shift="none")
    nothing = gsat.diagnose(table.X, table.batch, table.y, n_splits=3)
    assert repr(nothing).startswith("Diagnosis(no shift beyond chance, p = ")
    assert str(gsat.Diagnosis.from_dict(json.loads(json.dumps(nothing.to_dict())))) == str(nothing)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.1235"), (None, ""), (float("nan"), ""), (3, "3"), (np.float32(0.5), "0.5"), ((1.0, "a"), "1, a")],
)
def test_values_as_words(value, text):
    assert words(value) == text


def test_a_card_is_all_that_a_class_writes():
    class Point(Shown):
        def _card(self):
            return Card("at <0>", {"x": 1.0, "y": None})

    assert repr(Point()) == "Point(at <0>)"
    assert "at &lt;0&gt;" in Point()._repr_html_()
    assert "y" not in Point()._repr_html_().replace("style", "").replace("opacity", "")


@pytest.fixture
def kernel(monkeypatch):
    """What IPython shows, as in a kernel of Jupyter."""
    pictures = []
    display = SimpleNamespace(Image=lambda data: data, display=pictures.append)
    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None), display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return pictures


def test_a_notebook_shows_new_figures_and_no_others(kernel):
    from matplotlib.figure import Figure

    history = History([Step(0, 1.0), Step(1, 0.5)])
    history.plot()
    assert [picture[:4] for picture in kernel] == [b"\x89PNG"]
    history.plot(show=False)
    history.plot(ax=Figure().subplots())
    assert len(kernel) == 1
    history.plot(ax=Figure().subplots(), show=True)
    assert len(kernel) == 2


def test_elsewhere_show_opens_a_window_and_leaves_nothing_behind(monkeypatch):
    from matplotlib import pyplot

    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())))
    before = len(pyplot.get_fignums())
    History([Step(0, 1.0)]).plot(show=True)
    assert shown == [before + 1]
    History([Step(0, 1.0)]).plot()
    assert shown == [before + 1]
    with pytest.raises(KeyError), drawing(None, True):
        raise KeyError
    assert len(pyplot.get_fignums()) == before
