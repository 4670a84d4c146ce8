"""HTML from Python values: whatever is not markup already is escaped."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")  # of a command
PROSE = ("p", "li", "code", "strong", "td")  # what may name options


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | float | bool | None) -> Markup:
    """An element; `class_` and `data_x` mean class and data-x; True is a bare attribute, None and False are none.

    Where lines are broken, options stay whole: a browser would break them after a hyphen.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escape(str(value), quote=True)}"')
    opening = f"<{' '.join(parts)}>"
    if name in ("meta", "img", "br", "link"):
        return Markup(opening)
    content = join(*(_whole_options(c) if name in PROSE else c for c in children))
    return Markup(f"{opening}{content}</{name}>")


def join(*children: str | None) -> Markup:
    """The children one after the other, None left out."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children if c is not None))


def _whole_options(text: str | None) -> str | None:
    if text is None or isinstance(text, Markup):
        return text
    return Markup(OPTION.sub(r'<span class="option">\g<0></span>', escape(text, quote=False)))


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever the strings in it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
