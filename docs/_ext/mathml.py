"""Formulas of the pages as MathML, by the translator of docutils: no script, no font, no network."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

BARS = ("<mo>‖</mo>", '<mo stretchy="false">‖</mo>')  # else a bar with an exponent is longer than the other


def mathml(formula: str, *, block: bool) -> str:
    """The formula as MathML."""
    try:
        return tex2mathml(formula, as_block=block).replace(*BARS)
    except MathError as error:
        raise ExtensionError(f"the formula {formula.strip()!r} cannot be drawn: {error}") from error


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own, with its number where it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(mathml(node.astext(), block=True))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
