"""What a file of scores says about its systems, gathered piece by piece in bounded memory."""

from collections import Counter

import numpy as np

from dre.scoring import compare

#: columns whose means are given
MEASURES = ("score", "score_slm", "s_d", "s_p", "score_llm", "s_inf")
#: up to so many contexts are kept one by one; more are pooled by hash into so many groups
MOST_CONTEXTS, GROUPS = 4000, 2000


class Tally:
    """Sums and counts by system and context.

    The unit of resampling is the context. With more than 4,000 of them, memory would grow with the file, so they are
    pooled into 2,000 groups (by the context's hash, so a context stays whole) and groups are resampled: an interval
    then has a standard error of its own of under 2 %, and a mean is what it was.
    """

    def __init__(self):
        self.units, self.pooled = {}, False
        self.statuses, self.cut, self.rows, self.accepted = {}, 0, 0, {}

    def add(self, table):
        """Take in a table of scores."""
        self.rows += len(table)
        self.cut += int(table["reason"].str.startswith("the response is cut").sum())
        for (system, status), count in table.groupby(["system", "status"]).size().items():
            self.statuses.setdefault(system, Counter())[status] += int(count)
        if "accepted" in table:
            for system, count in table.groupby("system")["accepted"].sum().items():
                self.accepted[system] = self.accepted.get(system, 0) + int(count)
        grouped = table.groupby(["system", "context_id"], sort=False)[list(MEASURES)]
        sums, counts = grouped.sum(), grouped.count()
        for (system, context), row in zip(sums.index, np.hstack([sums, counts])):
            self._add(context, system, row)
        if not self.pooled and len(self.units) > MOST_CONTEXTS:
            self._pool()

    def _add(self, context, system, row):
        unit = int(context, 16) % GROUPS if self.pooled else context
        systems = self.units.setdefault(unit, {})
        systems[system] = systems[system] + row if system in systems else row

    def _pool(self):
        self.pooled, known = True, self.units
        self.units = {}
        for context, systems in known.items():
            for system, row in systems.items():
                self._add(context, system, row)

    def summary(self):
        """Return the summary as JSON types.

        Returns
        -------
        dict
            ``rows``; ``contexts`` (None where they were pooled); ``groups`` resampled; ``cut`` responses; ``systems``:
            one dict a system with ``system, n`` (scored), ``n_missing, statuses``, ``score, score_low, score_high`` and
            the same of the other measures that have values, ``rank, rank_last``; ``comparisons``: see
            `dre.scoring.compare.pairs`.
        """
        names = sorted(self.statuses)
        sums = {name: self._matrix(name) for name in names}
        width = len(MEASURES)
        systems = []
        for name in names:
            row = {"system": name, "n": self.statuses[name]["ok"]}
            row |= {"n_missing": self.statuses[name].total() - row["n"], "statuses": dict(self.statuses[name])}
            if name in self.accepted:
                row["accepted"] = self.accepted[name] / self.statuses[name].total()
            for i, measure in enumerate(MEASURES):
                if sums[name][:, width + i].any():
                    values = compare.mean_interval(sums[name][:, i], sums[name][:, width + i])
                    row |= {f"{measure}{ending}": value for ending, value in zip(("", "_low", "_high"), values)}
            systems.append(row)
        means = {name: _ratio(sums[name][:, 0], sums[name][:, width]) for name in names}
        comparisons = compare.pairs(means)
        compare.rank(systems, comparisons)
        contexts = None if self.pooled else len(self.units)
        return {
            "rows": self.rows,
            "contexts": contexts,
            "groups": len(self.units),
            "cut": self.cut,
            "systems": systems,
            "comparisons": comparisons,
        }

    def _matrix(self, system):
        """(units, sums and counts of the measures) of one system; zeros where it has no row."""
        empty = np.zeros(2 * len(MEASURES))
        return np.array([systems.get(system, empty) for systems in self.units.values()])


def _ratio(sums, counts):
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)
