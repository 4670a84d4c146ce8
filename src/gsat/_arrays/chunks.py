"""A few rows at a time: what is made of them stays small, and in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator


def at_a_time(d: int) -> int:
    """How many samples of d entries are worked on at a time where X must not be copied whole: 2 to 8 MB in float64."""
    return 1024 if d <= 1024 else max(1, 2**18 // d)


def pieces(n: int, d: int, times: int = 1) -> Iterator[slice]:
    """The rows of an (n, d) matrix as slices of a few megabytes each, or some times that."""
    step = times * at_a_time(d)
    return (slice(begin, min(begin + step, n)) for begin in range(0, n, step))
