"""The names and numbers that users meet before anything heavy is imported; nothing of them is computed here.

The command line and the estimators take their defaults from here, so that the same words give the same model. The
names are those of the tables in `gsat.registry`; a test keeps both alike.
"""

STRUCTURES = ("universal", "universal-one", "group-sparse", "low-rank", "unstructured")
BASELINES = ("erm", "fgm", "fgsm", "pgd", "universal-at")
ATTACKED = ("universal", "universal-one", "group-sparse", "low-rank")  # structures that have an attack
DEFENCES = (*BASELINES, *STRUCTURES, *(f"structured-{name}" for name in ATTACKED))
ATTACKS = (*ATTACKED, "pgd", "fgm")

LINEAR, LDA = "linear", "lda"  # what `gsat train` calls logistic regression in a metric, and shrinkage LDA
SOLVED = (LINEAR, LDA)  # linear models, which are solved for without an adversary

STRUCTURE = "low-rank"  # of an estimator or a command that is given none
LAM = "auto"
BUDGET = 0.05  # wanted mean ‖δ_i‖₂ of GSAT, as a fraction of E‖X‖₂
ALPHA = 0.2  # weight of the structure in the cost of GSAT in training; the bare costs have the paper's 0.5
ALPHA_GROUP_SPARSE = 0.1  # of that structure, whose norm over many columns weighs more to begin with
METRICS = ("auto", "batches", "within", "between")  # what an estimator can learn a metric from
METRIC = "auto"  # of an estimator: "batches" where it is given two batches or more, else all directions alike
GAMMA = 10.0  # how much cheaper a perturbation is along which batches differ, in `gsat.Metric`
METRIC_RANK = 100  # directions of a metric, at the most
EPS = 0.05  # norm bound of the other defences and of the attacks, likewise
SOLVER = "proximal"
SOLVERS = ("proximal", "admm", "admm-paper", "linearised")  # those of gsat.solvers by name
N_OUTER = 1000  # groups to train on
N_INNER = 20  # gradients of an inner maximisation, and of the attacks that the baselines train with
N_INNER_GSAT = 5  # of GSAT in training: as robust as with 20, in half the time or less (docs/guide/estimators.md)
GROUP_SIZE = 200
ETA0 = 1e-3  # learning rate of Adam, in `gsat.gdadmm`, the estimators and on the command line; the paper's is 1e-4
SCHEDULE = "constant"
HIDDEN = 100  # units of the network that is taken where none is given
PREPARATIONS = ("none", "centre", "zscore")  # what is done to samples before their columns are standardised
PREPARE = "none"
COMBINATIONS = ("best", "average")  # what predicts after a choice: the best candidate, or the best quarter together
COMBINE = "average"
NORMALISATIONS = ("none", "log1p-cpm", "zscore-samples")  # of each sample by itself, before that
NORMALISE = "none"
STEPS = 100  # gradients of an attack
STRENGTHS = ("fast", "standard", "strong")  # how hard an attack searches
STRENGTH = "standard"  # of the attacks of commands
VALIDATION_FRACTION = 0.1  # of the training rows, held out for early stopping and calibration
N_ITER_NO_CHANGE = 10  # measurements of the robust validation loss without a gain, after which training stops
