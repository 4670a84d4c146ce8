"""The names and numbers that users meet before anything heavy is imported; nothing of them is computed here.

The command line and the estimators take their defaults from here, so that the same words give the same model. The
names are those of the tables in `gsat.registry`; a test keeps both alike.
"""

STRUCTURES = ("universal", "group-sparse", "low-rank", "unstructured")
BASELINES = ("erm", "fgm", "fgsm", "pgd", "universal-at")
DEFENCES = (*BASELINES, *STRUCTURES, "structured-universal", "structured-group-sparse", "structured-low-rank")
ATTACKS = ("universal", "group-sparse", "low-rank", "pgd", "fgm")

STRUCTURE = "low-rank"  # of an estimator or a command that is given none
LAM = "auto"
BUDGET = 0.05  # wanted mean ‖δ_i‖₂ of GSAT, as a fraction of E‖X‖₂
EPS = 0.05  # norm bound of the other defences and of the attacks, likewise
SOLVER = "proximal"
N_OUTER = 1000  # groups to train on
N_INNER = 20  # gradients of the inner maximisation
GROUP_SIZE = 200
ETA0 = 1e-3  # learning rate of Adam, in the estimators and on the command line
PAPER_ETA0 = 1e-4  # in `gsat.gdadmm`, which has the paper's numbers
SCHEDULE = "constant"
HIDDEN = 100  # units of the network that is taken where none is given
STEPS = 100  # gradients of an attack
STRENGTHS = ("fast", "standard", "strong")  # how hard an attack searches
STRENGTH = "standard"  # of the attacks of commands
