"""HTML from Python values: whatever is not markup already is escaped."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")  # of a command
WORD = re.compile(r"[^\s<>&]*-[^\s<>&]*")  # of a command that a browser would break
LONGEST = 30  # characters of a word that stays whole, so that it fits on a phone
PERCENT = re.compile(r"(?<=\d) %")
PROSE = ("p", "li", "code", "strong", "td")  # what may name options


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | float | bool | None) -> Markup:
    """An element; `class_` and `data_x` mean class and data-x; True is a bare attribute, None and False are none.

    Where lines are broken, options stay whole: a browser would break them after a hyphen. So does a number with its %.
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
    content = join(*(_unbroken(c, name) if name in PROSE else c for c in children))
    return Markup(f"{opening}{content}</{name}>")


def join(*children: str | None) -> Markup:
    """The children one after the other, None left out."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c, quote=False) for c in children if c is not None))


def _unbroken(text: str | None, name: str) -> str | None:
    """Options, the words of a command, and a number with its % are not broken at the end of a line."""
    if text is None or isinstance(text, Markup):
        return text
    text = escape(text, quote=False)
    if name != "code":
        text = PERCENT.sub("\u00a0%", text)
    words = WORD if name == "code" else OPTION
    return Markup(
        words.sub(lambda word: f'<span class="option">{word[0]}</span>' if len(word[0]) <= LONGEST else word[0], text)
    )


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever the strings in it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
