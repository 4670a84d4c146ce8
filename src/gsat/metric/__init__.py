"""The geometry in which a cost is taken: along which directions real batches differ, so that moving there is cheap.

Others use `Metric` (the map A of feature space), `fitting` (the metric that fits a group), and from `spread.py` how the
training samples differ, of which several metrics can be made.
"""

from gsat.metric.metric import Metric, fitting

__all__ = ["Metric", "fitting"]
