"""Is the SLM that comes with the package better than recipe ``context``, which it replaced?

The scores of ``context`` are those that were recorded before it went, read from the project's history. Run
``python experiments/compare_default.py``: a minute. It writes results/choices/default.csv: for every rated set the
Spearman correlations of both (mean over three training seeds), their difference with a 95 % interval over contexts and
seeds, and a permutation test with Holm's correction over the sets.
"""

import io
import subprocess

import numpy as np
import pandas as pd

from dre import ratings, stats
from dre.profile import profile, root
from dre.slm import trained

BEFORE = "48c83ae"  # the last commit with recorded scores of recipe ``context``
OUT = root() / "results" / "choices" / "default.csv"


def before(seed, pairs):
    """Return what recipe ``context`` said of pairs."""
    name = f"{BEFORE}:results/public/scores/dailydialog-context-seed{seed}.csv.gz"
    file = subprocess.run(["git", "show", name], cwd=root(), capture_output=True, check=True).stdout
    table = pd.read_csv(io.BytesIO(file), compression="gzip", dtype={"pair_id": str}).set_index("pair_id")
    said = table.loc[pairs["pair_id"]]
    return (1 - said["s_d"] + said["s_p"]).to_numpy()


def main():
    """Compare and write."""
    public = profile("public")
    slms, rows = [trained(public, public.sets[0].key, "graded", seed) for seed in public.seeds], []
    for name in public.rated:
        pairs = ratings.rated(name)
        people = pairs["human"], pairs["context_id"]
        new = pd.DataFrame(np.column_stack([slm.score(pairs)["score_slm"] for slm in slms]))
        old = pd.DataFrame(np.column_stack([before(seed, pairs) for seed in public.seeds]))
        found = stats.correlate({"graded": new, "context": old}, *people)["r"]
        gain = stats.compare(new, old, *people)
        rows.append({"set": name, **found, **{key: gain[key] for key in ("difference", "low", "high", "p")}})
    table = pd.DataFrame(rows)
    table["p_holm"] = stats.holm(table["p"])
    mean = {"set": "mean", **table[["graded", "context", "difference"]].mean()}
    table = pd.concat([table, pd.DataFrame([mean])], ignore_index=True)
    table.to_csv(OUT, index=False, float_format="%.4f", lineterminator="\n")
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
