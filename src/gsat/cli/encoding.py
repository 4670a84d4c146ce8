"""Output to terminals and pipes that cannot show every sign: λ is then spelt lambda, ± is +-, and so on."""

from __future__ import annotations

import codecs
import io
import sys

SPELT = {
    "λ": "lambda", "α": "alpha", "δ": "delta", "Δ": "Delta", "ε": "eps", "σ": "sigma", "Σ": "sum", "ℓ": "l", "∞": "inf",
    "‖": "||", "±": "+-", "−": "-", "–": "-", "—": "-", "·": "*", "×": "x", "≤": "<=", "≥": ">=", "→": "->",
    "½": "1/2", "²": "^2", "₂": "_2", "…": "...", "’": "'", "•": "*",
}  # fmt: skip
ERRORS, ASCII = "gsat-spelt", "gsat-ascii"


def spell_signs() -> None:
    """From now on, what stdout and stderr cannot encode is spelt, or escaped, instead of ending the command."""
    codecs.register_error(ERRORS, _spell)
    codecs.register(_find)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # click takes a stream in ASCII for a wrong setting and writes UTF-8 into it, so it gets another name
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=ASCII if is_ascii else None, errors=ERRORS)


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    spelt = "".join(SPELT.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii") for sign in signs)
    return spelt, error.end


def _find(name: str) -> codecs.CodecInfo | None:
    """ASCII by another name."""
    if name not in (ASCII, ASCII.replace("-", "_")):
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=ASCII,
        encode=plain.encode,
        decode=plain.decode,
        incrementalencoder=plain.incrementalencoder,
        incrementaldecoder=plain.incrementaldecoder,
        streamwriter=plain.streamwriter,
        streamreader=plain.streamreader,
    )
