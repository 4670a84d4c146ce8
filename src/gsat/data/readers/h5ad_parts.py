"""The parts of an .h5ad file that make a table, read by h5py alone, in a process of its own (see `apart`).

Every part must lie in the file itself: links, and data kept in other files, could name any file of the reader's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.data.memory import fits, stays_on_disk
from gsat.data.readers.turned import SCANNED, once, place_of, turn
from gsat.data.rows import odd_numbers
from gsat.data.rules import among, extra, listed

BLOCK = 2**18  # numbers in a block of rows
RAW = "raw"  # what --layer calls .raw
TEXT = 100  # bytes of a name in memory
Parts = Iterator[tuple[str, Any]]


def parts(
    path: Path, *, columns: dict[str, str], layer: str | None, stream: bool | None, prepared: Callable[[], None]
) -> Parts:
    """The names of .obs and .var, the columns of .obs by option, the shape of the matrix and its blocks of rows.

    Where samples stay in the file, where the matrix is in it takes the place of shape and blocks (`_stored`).
    """
    h5py = extra("h5py", "anndata", ".h5ad")
    prepared()
    with h5py.File(path, "r") as file:
        yield from parts_of(path, file, h5py, columns=columns, layer=layer, stream=stream)


def parts_of(
    path: Path, file: Any, h5py: Any, *, columns: dict[str, str], layer: str | None, stream: bool | None
) -> Parts:
    """The same of an opened file; h5py: the module, or what has its names for another kind of store."""
    inside = _inside(path, file, layer, h5py)
    obs, var = _frame(path, file, "obs", h5py), _frame(path, inside, "var", h5py)
    names, feature_names = _names(path, obs, h5py), _names(path, var, h5py)
    yield "names", names
    yield "feature_names", feature_names
    keys = [key for key in obs if key not in (_index(obs), "__categories")]
    for option, key in columns.items():
        yield option, _column(path, obs, among(path, option, key, keys, "key of .obs"), h5py)
    found, name = _matrix(path, inside, None if inside is not file else layer, h5py)
    if isinstance(found, h5py.Dataset):
        yield from _dense(path, name, found, (len(names), len(feature_names)), stream)
    else:
        yield from _sparse(path, name, found, (len(names), len(feature_names)), stream, h5py)


def _inside(path: Path, file: Any, layer: str | None, h5py: Any) -> Any:
    """Where matrix and features are: in .raw for the layer "raw", unless there is a layer of that name, else the file.

    .raw has genes of its own, often more than X.
    """
    layers = _item(path, file, "layers", h5py) if "layers" in [*file] else {}
    if layer != RAW or RAW in [*layers] or RAW not in [*file]:
        return file
    found = _item(path, file, RAW, h5py)
    if not isinstance(found, h5py.Group):
        raise ValueError(f"{path} must hold a matrix and genes in raw, got {type(found).__name__}")
    return found


def _item(path: Path, group: Any, name: str, h5py: Any) -> Any:
    """The member of a group, which must be in the file itself."""
    if name not in [*group]:
        raise KeyError(f"{group.name} has no {name}")
    place = f"{group.name.rstrip('/')}/{name}".lstrip("/")
    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        target = ":".join(filter(None, (getattr(link, "filename", ""), getattr(link, "path", ""))))
        raise ValueError(f"{path} must hold its data itself, got {place}, a link to {target}")
    item = group[name]
    if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
        raise ValueError(f"{path} must hold its data itself, got {place}, whose numbers are in other files")
    return item


def _frame(path: Path, file: Any, key: str, h5py: Any) -> Any:
    if key not in [*file]:
        raise ValueError(f"{path} must be written by anndata, got a file without .{key}; it has {listed([*file])}")
    frame = _item(path, file, key, h5py)
    if "encoding-type" not in frame.attrs or not isinstance(frame, h5py.Group):
        raise ValueError(f"{path} must be written by anndata 0.7 or later, got an older .{key}; read and write it anew")
    return frame


def _index(frame: Any) -> str:
    name = frame.attrs.get("_index", "_index")
    return name.decode() if isinstance(name, bytes) else str(name)


def _names(path: Path, frame: Any, h5py: Any) -> list[str]:
    return [str(name) for name in _listed(_column(path, frame, _index(frame), h5py))]


def _column(path: Path, frame: Any, key: str, h5py: Any) -> Any:
    """A column of a frame: numbers as an array, text as a list with None where it is missing."""
    item = _item(path, frame, key, h5py)
    if isinstance(item, h5py.Dataset):
        if "categories" not in item.attrs:
            return _values(path, item, h5py)
        stored = _item(path, frame, "__categories", h5py)  # as anndata 0.7 kept them
        return _categories(_values(path, item, h5py), _values(path, _item(path, stored, key, h5py), h5py))
    if "codes" in item:
        codes, names = (_values(path, _item(path, item, part, h5py), h5py) for part in ("codes", "categories"))
        return _categories(codes, names)
    if "mask" in item:
        values, mask = (_values(path, _item(path, item, part, h5py), h5py) for part in ("values", "mask"))
        if len(values) != len(mask):
            raise ValueError(f"{path} must have a mask of {len(values)} in {item.name}, got {len(mask)}")
        if not np.any(mask):
            return values
        return [None if missing else value for value, missing in zip(_listed(values), mask, strict=True)]
    raise ValueError(f"{path} must hold text, numbers or categories in {item.name}, got {listed([*item])}")


def _categories(codes: Any, names: Any) -> Any:
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu":
        raise ValueError("categories must have whole numbers as codes")
    if len(codes) and not -1 <= codes.min() <= codes.max() < len(names):
        raise ValueError(f"codes of {len(names)} categories must be between -1 and {len(names) - 1}")
    if isinstance(names, np.ndarray) and not (codes == -1).any():
        return names[codes]
    values = _listed(names)
    return [None if code == -1 else values[code] for code in codes.tolist()]


def _listed(values: Any) -> list[Any]:
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def _values(path: Path, data: Any, h5py: Any) -> Any:
    """One column's numbers as an array, or its text as a list."""
    if not isinstance(data, h5py.Dataset) or data.ndim != 1:
        raise ValueError(f"{path} must hold one value per row in {data.name}, got shape {getattr(data, 'shape', None)}")
    text = h5py.check_string_dtype(data.dtype) is not None
    fits(
        path, f"{data.name} {data.shape}", len(data) * (max(TEXT, data.dtype.itemsize) if text else data.dtype.itemsize)
    )
    if text:
        return list(data.asstr()[...].tolist())
    if data.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold text or numbers in {data.name}, got {data.dtype}")
    return data[...]


def _matrix(path: Path, file: Any, layer: str | None, h5py: Any) -> tuple[Any, str]:
    """The matrix, a data set or the group of a sparse one, and what it is called in messages."""
    layers = _item(path, file, "layers", h5py) if "layers" in [*file] else {}
    if layer is None and "X" not in [*file]:
        raise ValueError(f"{path} must have a matrix .X, or layer= must name one of its layers: {listed([*layers])}")
    if layer is not None:
        among(path, "layer", layer, [*layers], "layer")
    name = "X" if layer is None else f"layers/{layer}"
    found = _item(path, *((file, "X") if layer is None else (layers, layer)), h5py)
    if isinstance(found, h5py.Dataset):
        if found.dtype.kind not in "biuf" or found.ndim != 2:
            raise ValueError(f"{path} must hold a matrix of real numbers in {name}, got {found.dtype} {found.shape}")
        return found, name
    encoding = str(found.attrs.get("encoding-type", "none"))
    if encoding not in ("csr_matrix", "csc_matrix"):
        raise ValueError(f"{path} must hold a dense, CSR or CSC matrix in {name}, got encoding {encoding}")
    return found, name


def _announced(path: Path, name: str, shape: tuple[int, ...], besides: int = 0) -> tuple[str, list[int]]:
    """The shape, once a float32 matrix of it fits into memory."""
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"{path} must hold a matrix in {name}, got shape {shape}")
    fits(path, f"{name} {shape} as float32", 4 * shape[0] * shape[1] + besides)
    return "shape", list(shape)


def _dense(path: Path, name: str, found: Any, named: tuple[int, int], stream: bool | None) -> Parts:
    stored = found.shape == named and min(named) > 0 and stays_on_disk(named, stream)
    if not stored:
        yield _announced(path, name, found.shape)
    odd = (0, 0, 0)
    # whole chunks: what is compressed together is read once
    rows = max(BLOCK // max(found.shape[1], 1), 1)
    rows += -rows % (found.chunks or (1,))[0]
    for start in range(0, found.shape[0], rows):
        block = _float32(found[start : start + rows])
        if stored:
            odd = odd_numbers(odd, block, start)
            yield "alive", None
        else:
            yield "X", block
    if stored:
        yield "stored", {"kind": "dense", "name": found.name, "odd": odd}


def _sparse(path: Path, name: str, found: Any, named: tuple[int, int], stream: bool | None, h5py: Any) -> Parts:
    """Blocks of rows of a CSR matrix; a CSC matrix is in memory before its rows are."""
    from scipy.sparse import csc_array, csr_array

    by_row = found.attrs["encoding-type"] == "csr_matrix"
    shape = tuple(int(size) for size in np.ravel(found.attrs["shape"]))
    data, indices, indptr = (_item(path, found, part, h5py) for part in ("data", "indices", "indptr"))
    for part, kinds in ((data, "biuf"), (indices, "iu"), (indptr, "iu")):
        if not isinstance(part, h5py.Dataset) or part.ndim != 1:
            raise ValueError(f"{path} must hold a list of numbers in {part.name}")
        if part.dtype.kind not in kinds:
            raise ValueError(
                f"{path} must hold {'real' if part is data else 'whole'} numbers in {name}, got {part.dtype}"
            )
        if len(data) and (gone := getattr(part, "missing", 0)):
            raise ValueError(f"{path} must have all chunks of {part.name}, of which {gone} are missing")
    stored = shape == named and stays_on_disk(named, stream)
    announced = None if stored else _announced(path, name, shape, 0 if by_row else 20 * len(data))
    fits(path, f"{indptr.name} {indptr.shape}", 16 * len(indptr))
    ends = indptr[...].astype(np.int64)
    if len(data) != len(indices) or len(ends) != shape[0 if by_row else 1] + 1:
        raise ValueError(f"data, indices and indptr of {name} must agree with its shape {shape}")
    if ends[0] != 0 or ends[-1] != len(data) or (np.diff(ends) < 0).any():
        raise ValueError(f"indptr of {name} must rise from 0 to {len(data)}")
    if announced is None and by_row:
        yield from _stored(name, found.name, data, indices, ends, shape[1])
        return
    if announced is None:
        yield from _turned(path, name, found, named, h5py)
        return
    yield announced
    if by_row:
        for rows in _row_blocks(ends, shape[1]):
            part = slice(ends[rows.start], ends[rows.stop])
            made = csr_array(
                (_float32(data[part]), indices[part], ends[rows.start : rows.stop + 1] - ends[rows.start]),
                shape=(rows.stop - rows.start, shape[1]),
            )
            made.check_format(full_check=True)  # an index out of range would write outside the dense matrix
            yield "X", made.toarray(order="C")
        return
    values, places = np.empty(len(data), np.float32), np.empty(len(data), indices.dtype)
    for start in range(0, len(data), BLOCK):
        part = slice(start, start + BLOCK)
        values[part], places[part] = _float32(data[part]), indices[part]
        yield "alive", None
    whole = csc_array((values, places, ends), shape=shape)
    whole.check_format(full_check=True)
    turned = whole.tocsr()
    for rows in _row_blocks(turned.indptr, shape[1]):
        yield "X", turned[rows].toarray(order="C")


def _turned(path: Path, name: str, found: Any, named: tuple[int, int], h5py: Any) -> Parts:
    """As `_stored`, of the rows of a CSC matrix in a file beside this one, which is made where there is none."""
    place = place_of(path, found.name)
    told = f"{path} has {name} by columns (CSC); it is written by rows to {place}, once"
    yield from once(path, place, h5py, told, lambda: turn(path, place, found, named, h5py))
    with h5py.File(place, "r") as file:
        for part, value in _sparse(place, name, _item(place, file, "X", h5py), named, True, h5py):
            yield part, {**value, "path": str(place)} if part == "stored" else value


def _stored(name: str, place: str, data: Any, indices: Any, ends: NDArray[np.int64], d: int) -> Parts:
    """Where a CSR matrix is, the ends of its rows, and how many of its numbers are not finite, with the first's place.

    All of it is read once, so that what is wrong with a file is told before anything is trained on it.
    """
    odd = [0, 0, 0]
    for start in range(0, len(data), SCANNED):
        part = slice(start, start + SCANNED)
        values, columns = _float32(data[part]), indices[part]
        if not 0 <= columns.min() <= columns.max() < d:
            raise ValueError(f"indices of {name} must be from 0 to {d - 1}, got {columns.min()} to {columns.max()}")
        if (bad := np.flatnonzero(~np.isfinite(values))).size:
            first = [int(np.searchsorted(ends, start + bad[0], side="right")) - 1, int(columns[bad[0]])]
            odd = [odd[0] + len(bad), *(odd[1:] if odd[0] else first)]
        yield "alive", None
    yield "stored", {"kind": "csr", "name": place, "odd": odd}
    yield "ends", ends


def _row_blocks(ends: NDArray[Any], width: int) -> Iterator[slice]:
    """Slices of rows, of about BLOCK numbers each when they are dense, or stored."""
    start = 0
    while start < len(ends) - 1:
        by_stored = int(np.searchsorted(ends, ends[start] + BLOCK, side="right")) - 1
        stop = min(max(by_stored, start + 1), start + max(BLOCK // max(width, 1), 1), len(ends) - 1)
        yield slice(start, stop)
        start = stop


def _float32(values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which is told with its place
        return values.astype(np.float32)
