"""Correlations, intervals, tests and agreement over plain tables; knows nothing of models or judges."""

from dre.stats.agreement import agreement, cohen_kappa, human_ceiling, krippendorff_alpha
from dre.stats.bootstrap import cluster_mean_interval
from dre.stats.compare import compare, permutation_test, steiger_test, williams_test
from dre.stats.correlation import correlate, correlation_draws
from dre.stats.multiple import benjamini_hochberg, holm, verdicts

__all__ = [
    "agreement",
    "benjamini_hochberg",
    "cluster_mean_interval",
    "cohen_kappa",
    "compare",
    "correlate",
    "correlation_draws",
    "holm",
    "human_ceiling",
    "krippendorff_alpha",
    "permutation_test",
    "steiger_test",
    "verdicts",
    "williams_test",
]
