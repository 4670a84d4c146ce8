"""Which structure is my shift? `gsat.diagnose` compares batches and names it."""

from gsat.diagnosis.procedure import diagnose
from gsat.diagnosis.result import Diagnosis

__all__ = ["Diagnosis", "diagnose"]
