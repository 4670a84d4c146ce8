"""The parts of an AnnData store of zarr, a folder, as `h5ad_parts` finds them in an .h5ad file.

Groups and arrays of zarr are given the few names of h5py that `h5ad_parts` uses. What the store says of its arrays is
checked first, before zarr sees it: numbers may be packed by known means alone, none of which runs code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat._files import read_json
from gsat.data.folders import files_of
from gsat.data.memory import fits
from gsat.data.readers import h5ad_parts
from gsat.data.rules import extra

Parts = Iterator[tuple[str, Any]]
PACKED = {"blosc", "zlib", "gzip", "zstd", "lz4", "bz2", "lzma", "shuffle"}  # means that turn bytes into bytes
PACKED |= {"bytes", "transpose", "crc32c", "sharding_indexed", "vlen-utf8"}  # of format 3, and text
WIDEST = 8  # bytes of a number of format 3, at the most


def parts(
    path: Path, *, columns: dict[str, str], layer: str | None, stream: bool | None, prepared: Callable[[], None]
) -> Parts:
    """As `h5ad_parts.parts`, of the folder of a store."""
    zarr, h5py = (extra(module, "anndata", ".zarr") for module in ("zarr", "h5py"))
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})  # each thread takes addresses of its own
    prepared()
    if not path.is_dir():
        raise ValueError(f"{path} must be a folder, as anndata writes zarr stores, got a file; unpack it")
    for place in files_of(path):
        if place.name in (".zarray", "zarr.json"):
            _refuse_odd(path, place)
    names = SimpleNamespace(
        File=h5py.File,
        HardLink=h5py.HardLink,
        Dataset=(Array, h5py.Dataset),
        Group=(Group, h5py.Group),
        check_string_dtype=lambda dtype: dtype if dtype.kind in "OUT" else None,
    )
    # not what the store says of all its arrays in one place, which was not checked
    found = zarr.open_group(str(path), mode="r", use_consolidated=False)
    yield from h5ad_parts.parts_of(
        path, Group(found, h5py.HardLink), names, columns=columns, layer=layer, stream=stream
    )


class Group:
    """A group of zarr with the names of one of h5py."""

    def __init__(self, found: Any, link: Callable[[], Any]) -> None:
        self.found, self.link = found, link
        self.name, self.attrs = f"/{found.path}", dict(found.attrs)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.found.keys()))

    def __contains__(self, name: object) -> bool:
        return name in self.found

    def __getitem__(self, name: str) -> Group | Array:
        inside = self.found[name]
        return Group(inside, self.link) if hasattr(inside, "keys") else Array(inside)

    def get(self, name: str, getlink: bool = False) -> Any:
        """What kind of link a member is: zarr has none to other places."""
        return self.link()


class Array:
    """An array of zarr with the names of a data set of h5py."""

    external, is_virtual = None, False

    def __init__(self, found: Any) -> None:
        self.found, self.name, self.attrs = found, f"/{found.path}", dict(found.attrs)
        self.shape, self.ndim, self.chunks = tuple(found.shape), len(found.shape), tuple(found.chunks)
        self.dtype = np.dtype(found.dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, part: Any) -> NDArray[Any]:
        return np.asarray(self.found[part])

    def asstr(self) -> Array:
        """Itself: text is read as text."""
        return self

    @property
    def missing(self) -> int:
        """How many chunks are not there; they would be read as zeros."""
        return int(self.found.nchunks - self.found.nchunks_initialized)


def _refuse_odd(path: Path, place: Path) -> None:
    """Raise unless what a store says of an array names known means of packing, and a chunk fits into memory."""
    about = read_json(place)
    inside = place.parent.relative_to(path)
    if not isinstance(about, dict):
        raise ValueError(f"{path} must say of {inside} what it is, got {type(about).__name__} in {place.name}")
    if place.name == "zarr.json" and about.get("node_type") != "array":
        return
    means = [*_means(about.get("codecs")), *_means(about.get("filters")), *_means([about.get("compressor")])]
    if odd := next((one for one in means if one not in PACKED), None):
        raise ValueError(f"{path} must be packed by {', '.join(sorted(PACKED))}, got {odd!r} in {inside}")
    if about.get("storage_transformers"):
        raise ValueError(f"{path} must hold its arrays as they are, got storage transformers in {inside}")
    grid = about.get("chunk_grid") or {}
    chunk = about.get("chunks") or (grid.get("configuration") or {}).get("chunk_shape") or ()
    if not all(isinstance(size, int) and size > 0 for size in chunk):
        raise ValueError(f"{path} must have chunks of at least one number in {inside}, got {chunk}")
    wide = np.dtype(about["dtype"]).itemsize if isinstance(about.get("dtype"), str) else WIDEST
    fits(path, f"a chunk of {inside} {tuple(chunk)}", math.prod(chunk) * wide)


def _means(found: Any) -> Iterator[str]:
    """The names of the means of packing, those inside others too."""
    for one in found or ():
        if one is None:
            continue
        name = one.get("name", one.get("id")) if isinstance(one, dict) else one
        yield str(name)
        settings = one.get("configuration") if isinstance(one, dict) else None
        if isinstance(settings, dict):
            yield from _means(settings.get("codecs"))
            yield from _means(settings.get("index_codecs"))
