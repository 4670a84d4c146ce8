"""The named data sets, a module each, from their files to a `Table`, with the traps of `PROVENANCE.md` handled.

`BUNDLED` and `FROM_FILES` have them by name.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gsat.data.lazy import LazyFunction

if TYPE_CHECKING:
    from gsat.data.table import Table

__all__ = ["BUNDLED", "FROM_FILES"]

BUNDLED: dict[str, "Callable[[], Table]"] = {  # they come with the packages that gsat needs anyway
    "digits": LazyFunction("gsat.data.sets.digits", "digits"),
}
# The largest batch of at most 30 % of the rows whose classes are all in other batches too, the first by name of equal
# ones; of wifi-floors the one that was published for validation.
TESTED = {
    "gas-drift": "03",
    "spoken-digits": "george",
    "covertype-areas": "Rawah",
    "wifi-floors": "later",
    "ibd-genera": "RISK",
    "emg-myo": "p56912",
    "bbbc021-moa": "Week3",
}
FROM_FILES: dict[str, "Callable[..., Table]"] = {  # name: function(folder, *, options), where the options have defaults
    "mnist": LazyFunction("gsat.data.sets.mnist", "mnist"),
    "cifar10": LazyFunction("gsat.data.sets.cifar10", "cifar10"),
    "hapmap": LazyFunction("gsat.data.sets.hapmap", "hapmap"),
    "hapmap-paper": LazyFunction("gsat.data.sets.hapmap_paper", "hapmap_paper"),
    "hapmap-1kg": LazyFunction("gsat.data.sets.hapmap", "hapmap_1kg"),
    "tcga": LazyFunction("gsat.data.sets.tcga", "tcga"),
    "tcga-11types": LazyFunction("gsat.data.sets.tcga", "tcga_11types"),
    "tcga-tumour-normal": LazyFunction("gsat.data.sets.tcga", "tcga_tumour_normal"),
    "tcga-uci": LazyFunction("gsat.data.sets.tcga_uci", "tcga_uci"),
    "tcga-luad-coadread": LazyFunction("gsat.data.sets.tcga", "tcga_luad_coadread"),
    "tcga-luad": LazyFunction("gsat.data.sets.tcga", "tcga_luad"),
    "tcga-coadread": LazyFunction("gsat.data.sets.tcga", "tcga_coadread"),
    "sc-mixology": LazyFunction("gsat.data.sets.sc_mixology", "sc_mixology"),
    "stemcells": LazyFunction("gsat.data.sets.stemcells", "stemcells"),
    "bladderbatch": LazyFunction("gsat.data.sets.bladderbatch", "bladderbatch"),
    **{name: partial(LazyFunction("gsat.data.sets.shifts", "shift"), name, tested) for name, tested in TESTED.items()},
}
