"""Time the bootstrap of a 60-row table of 900 items against scipy.stats.bootstrap, one row at a time.

Run ``python benchmarks/bench_stats.py``; it prints a table and writes results/bench/stats.json. scipy is
timed on one row (plain: and a tenth of the resamples) and scaled up linearly, as the columns' names say.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from scipy import stats

from dre.pipeline.preflight import cpu
from dre.stats import correlate

ITEMS, CONTEXTS, ROWS = 900, 100, 60


def table(seed=0):
    """Half of the score columns continuous, half on steps of 0.1 like a judge's; ratings are thirds, 1-5."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(CONTEXTS), ITEMS // CONTEXTS)
    human = rng.integers(3, 16, ITEMS) / 3
    scores = human[:, None] * rng.uniform(0, 1, ROWS) + rng.normal(size=(ITEMS, ROWS))
    scores[:, ::2] = np.round(scores[:, ::2], 1)
    return scores, human, clusters


def ours(scores, human, clusters, statistic, resamples):
    frame = pd.DataFrame(scores, columns=[f"row {j}" for j in range(scores.shape[1])])
    return correlate(frame, human, clusters, (statistic,), resamples=resamples)


def scipy_contexts(x, human, clusters, function, resamples):
    """The same bootstrap over contexts, each resample rebuilt and handed to scipy's correlation."""
    items = np.arange(len(x)).reshape(CONTEXTS, -1)

    def statistic(contexts):
        rows = items[contexts].ravel()
        return function(x[rows], human[rows]).statistic

    options = {"n_resamples": resamples, "method": "percentile", "vectorized": False, "rng": 0}
    return stats.bootstrap((np.arange(CONTEXTS),), statistic, **options)


def scipy_vectorized(x, human, clusters, function, resamples):
    """The same with scipy's own vectorisation over resamples."""
    items = np.arange(len(x)).reshape(CONTEXTS, -1)

    def statistic(contexts, axis):
        rows = items[np.atleast_2d(contexts)].reshape(-1, len(x))
        a, b = x[rows], human[rows]
        if function is stats.spearmanr:
            a, b = stats.rankdata(a, axis=-1), stats.rankdata(b, axis=-1)
        return stats.pearsonr(a, b, axis=-1).statistic.reshape(np.shape(contexts)[:-1])

    options = {"n_resamples": resamples, "method": "percentile", "vectorized": True, "batch": 500, "rng": 0}
    return stats.bootstrap((np.arange(CONTEXTS),), statistic, **options)


def timed(function, *arguments, repeats=1):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times), result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("results/bench/stats.json"))
    arguments = parser.parse_args()
    scores, human, clusters = table()
    few = max(100, arguments.resamples // 10)
    rows = []
    for name, function in [("pearson", stats.pearsonr), ("spearman", stats.spearmanr)]:
        seconds, got = timed(ours, scores, human, clusters, name, arguments.resamples, repeats=3)
        first = scores[:, 0], human, clusters, function
        plain, reference = timed(scipy_contexts, *first, few)
        plain *= ROWS * arguments.resamples / few
        vectorized = timed(scipy_vectorized, *first, arguments.resamples)[0] * ROWS
        low, high = reference.confidence_interval
        apart = max(abs(low - got["low"][0]), abs(high - got["high"][0]))
        row = {"statistic": name, "seconds": seconds, "scipy_scaled_seconds": plain, "ratio": plain / seconds}
        row |= {"scipy_vectorized_scaled_seconds": vectorized, "ratio_vectorized": vectorized / seconds}
        rows.append(row | {"interval_difference": apart})
    kendall, _ = timed(ours, scores, human, clusters, "kendall", arguments.resamples)
    rows.append({"statistic": "kendall", "seconds": kendall})
    result = {
        "what": f"{arguments.resamples} resamples over {CONTEXTS} contexts, {ROWS} rows, {ITEMS} items",
        "hardware": {"cpu": cpu(), "cores": len(os.sched_getaffinity(0)), "system": platform.system()},
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(result["what"], "|", result["hardware"]["cpu"], f"| {result['hardware']['cores']} cores")
    print(pd.DataFrame(rows).round(3).to_string(index=False, na_rep="-"))


if __name__ == "__main__":
    main()
