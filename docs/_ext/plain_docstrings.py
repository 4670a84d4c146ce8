"""Docstrings are plain text with formulas: what reStructuredText would take for its marks is literal."""

import re
from typing import Any

from sphinx.application import Sphinx

# `lam_` would be a link, `**module` and `*features` emphasis, `|δ|` a substitution.
MARKS = re.compile(r"(``.*?``|`.*?`)|(\b[\w.]*\w_)(?![\w`])|(\*{1,2}|\|)")


def escaped(line: str) -> str:
    """The line with those marks escaped, outside of what is literal already."""

    def change(found: re.Match[str]) -> str:
        literal, name, mark = found.groups()
        if literal:
            return literal
        return f"{name[:-1]}\\_" if name else "".join(f"\\{sign}" for sign in mark)

    return MARKS.sub(change, line)


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Escape the lines of a docstring; examples (`>>>`) and rules (`----`) hold none of the marks."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else escaped(line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before numpydoc, which has 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
