"""How good must an SLM be? Numbers as good as one likes, fused with every recorded judge (notebook 11).

Dealt out anew (`dre.what_if.as_good_as`) are the rows (s_d, s_p) that the judge was shown (an earlier SLM of the
papers' kind) and those of the profile's second recipe (``graded``), first seed; at ten levels of agreement with people,
in ten draws of their errors, which are independent of the judge's, share a quarter with them, or what was measured of
that judge with the last recipe: the partial correlation of normal scores given people's, a mean over sets and seeds.

Run ``python experiments/what_if.py`` with the public data (twenty minutes of one core). It writes results/what_if/:
``grid.csv.gz`` (gain of each fusion over its judge alone, by draw), ``break_even.csv`` (the level from which on a class
of judges gains, 95 % over contexts) and ``predicted.csv`` (a test of all this: the gain that rows, agreement and shared
errors of a real SLM let expect, beside the gain it has).
"""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from dre import fusion, stats, what_if
from dre.calibrated import Calibrated
from dre.datasets import ratings
from dre.datasets.recordings import folder
from dre.files import replace
from dre.judges import released as others
from dre.judges.recorded import Recorded
from dre.paper.profile import profile
from dre.slm import trained

OUT = Path(__file__).resolve().parents[1] / "results" / "what_if"
SETS = {
    "dailydialog-zhao": "dailydialog",
    "personachat-usr": "personachat",
    "topicalchat-usr": "topicalchat",
}
LEVELS = np.arange(10) / 10
DRAWS, RESAMPLES = 10, 300
FUSIONS = ("Ex-DRE", "SLIDE", "DRE", "learned weight")


def slide(s_d, s_p, llm):
    """SLIDE of the SLM's parts."""
    return fusion.slide(fusion.s_c(s_d, s_p), llm)


def partial(slm, llm, human):
    """Correlation of what people's ratings leave of two scores, all as normal scores."""
    (_, ab, ac), (_, _, bc), _ = np.corrcoef(
        stats.normal_scores(np.column_stack([slm, llm, human])).T
    )
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))


def load(public):
    """Return the (set, judge) pairs as tables of complete rows, and the real SLMs' scores by recipe and set."""
    slms = {}
    for recipe in public.recipes[:2]:
        own = recipe == public.recipes[0]  # trained for each set; the others on the first alone
        keys = {name: key if own else public.sets[0].key for name, key in SETS.items()}
        slms[recipe] = {
            n: [trained(public, k, recipe, seed) for seed in public.seeds] for n, k in keys.items()
        }
    shown = pd.read_csv(folder(ratings.NAME) / "dre_inputs.csv", index_col="pair_id")[
        ["s_d", "s_p"]
    ]
    told, pairs, scored = Recorded(ratings.NAME), {}, {recipe: {} for recipe in slms}
    for name in SETS:
        rated, said = ratings.rated(name), others.scores(name)
        for recipe, of_set in slms.items():
            scored[recipe][name] = [slm.score(rated) for slm in of_set[name]]
        table = (
            rated[["pair_id", "context_id", "human"]]
            .join(shown, on="pair_id")
            .rename(columns={"s_d": "shown_d", "s_p": "shown_p"})
        )
        first = scored[public.recipes[1]][name][0]
        table = table.assign(own_d=first["s_d"], own_p=first["s_p"])
        for judge in said.columns.drop("pair_id"):
            one = table.assign(llm=said[judge], other=np.nan)
            if judge == others.CLAUDE:
                one["other"] = told.score(rated, "dre_other")["score_llm"]
            pairs[name, judge] = one[one["llm"].notna()]
    return pairs, scored


def measured_share(pairs, scored):
    """Partial correlation of an SLM's and a judge's errors: by pair, and its mean by judge."""
    by_pair = {}
    for (name, judge), table in pairs.items():
        one = [
            partial(slm["score_slm"][table.index], table["llm"], table["human"])
            for slm in scored[name]
        ]
        by_pair[name, judge] = np.mean(one)
    of_judge = pd.Series(by_pair).groupby(level=1).mean()
    return by_pair, of_judge.to_dict()


def fused(pairs, rows, level, draw, share):
    """Deal numbers to every pair, fuse them; return (s_d, s_p by pair, scores by pair and fusion)."""
    dealt, tables, found = {}, {}, {}
    for (name, judge), table in pairs.items():
        real, llm = table[[f"{rows}_d", f"{rows}_p"]].to_numpy(), table["llm"].to_numpy()
        s_d, s_p = what_if.as_good_as(
            level, table["human"].to_numpy(), real, draw, llm, share[judge]
        ).T
        dealt[name, judge] = s_d, s_p
        scores = {"score_slm": fusion.s_c(s_d, s_p), "score_llm": llm}
        tables[name, judge] = table[["context_id", "human"]].assign(**scores)
        found[name, judge] = {"Ex-DRE": fusion.ex_dre(s_d, s_p, llm), "SLIDE": slide(s_d, s_p, llm)}
        if table["other"].notna().all():
            found[name, judge]["DRE"] = fusion.dre(s_d, s_p, table["other"].to_numpy())
    for name, judge in pairs:  # the weight is learned on other sets, as in notebook 08
        own = [tables[pair] for pair in pairs if pair[0] != name and pair[1] == judge]
        learned_from = own or [tables[pair] for pair in pairs if pair[0] != name]
        table, scale = tables[name, judge], None if own else pairs[name, judge]["llm"]
        fit = Calibrated.fit(learned_from, scale, resamples=100)
        found[name, judge]["learned weight"] = fit.fuse(table["score_slm"], table["score_llm"])
    return found


def grid_of(pairs, rows, share):
    """Gains in the data and in resamples: ``{(set, judge, fusion): (1 + n, levels, draws)}``."""
    every = {
        (level, draw): fused(pairs, rows, level, draw, share)
        for level in LEVELS
        for draw in range(DRAWS)
    }
    gains = {}
    for (name, judge), table in pairs.items():
        for kind in every[0.0, 0][name, judge]:
            columns = [one[name, judge][kind] for one in every.values()]
            scores = np.column_stack([table["llm"], *columns])
            of_set = list(SETS).index(name)  # the same resamples for all judges of a set
            r = stats.draws(
                scores, table["human"], table["context_id"], n=RESAMPLES, seed=[0, of_set]
            )
            gains[name, judge, kind] = (r[:, 1:] - r[:, :1]).reshape(len(r), len(LEVELS), DRAWS)
    return gains


def strength(judge):
    """The class of a judge."""
    return {others.CLAUDE: "current"}.get(judge, "open" if judge in others.P_YES else "middle")


def crossing(gain):
    """The least level from which on a gain (levels,) is not below zero, linear in between; infinite if none."""
    below = np.flatnonzero(gain < 0)
    if not len(below):
        return 0.0
    i = below[-1]
    return (
        np.inf
        if i == len(gain) - 1
        else LEVELS[i] - gain[i] * (LEVELS[1] - LEVELS[0]) / (gain[i + 1] - gain[i])
    )


def break_even(gains, rows, errors):
    """Rows of the level at which classes of judges break even; every (set, judge) pair counts alike."""
    found = []
    for kind in FUSIONS:
        for of in ("open", "middle", "current"):
            many = [
                g for (_, judge, one), g in gains.items() if one == kind and strength(judge) == of
            ]
            if many:
                at = np.array([crossing(line) for line in np.mean(many, axis=(0, 3))])
                low, high = np.quantile(at[1:], [0.025, 0.975], method="inverted_cdf")
                row = {
                    "rows": rows,
                    "errors": errors,
                    "fusion": kind,
                    "judges": of,
                    "pairs": len(many),
                }
                found.append(row | {"level": at[0], "level_low": low, "level_high": high})
    return found


def predicted(pairs, scored, recipe, by_pair):
    """For each pair: the gain that a real SLM's rows, agreement and shared errors let expect, and the one it has."""
    found = []
    for (name, judge), table in pairs.items():
        human, llm, contexts = (
            table["human"].to_numpy(),
            table["llm"].to_numpy(),
            table["context_id"],
        )
        slms = [slm.loc[table.index] for slm in scored[name]]
        for kind, fuse in (("Ex-DRE", fusion.ex_dre), ("SLIDE", slide)):
            own = np.column_stack([fuse(slm["s_d"], slm["s_p"], llm) for slm in slms])
            base, share = pd.Series(llm), by_pair[name, judge]
            real = stats.compare(
                pd.DataFrame(own),
                base,
                pd.Series(human),
                pd.Series(contexts.to_numpy()),
                permutations=1,
            )
            expected = []
            for slm in slms:
                level = slm["score_slm"].corr(table["human"], method="spearman")
                numbers = slm[["s_d", "s_p"]].to_numpy()
                dealt = [
                    what_if.as_good_as(level, human, numbers, draw, llm, share).T
                    for draw in range(DRAWS)
                ]
                r = stats.draws(
                    np.column_stack([llm, *(fuse(*one, llm) for one in dealt)]),
                    human,
                    contexts,
                    n=0,
                )[0]
                expected.append(r[1:] - r[0])
            row = {
                "slm": recipe,
                "fusion": kind,
                "set": ratings.RATED[name],
                "judge": judge,
                "judges": strength(judge),
            }
            row |= {
                "shared": share,
                "predicted": np.mean(expected),
                "predicted_sd": np.std(np.mean(expected, axis=0)),
            }
            found.append(
                row
                | {
                    "measured": real["difference"],
                    "measured_low": real["low"],
                    "measured_high": real["high"],
                }
            )
    return found


def main():
    """Write the three files."""
    public = profile("public")
    pairs, scored = load(public)
    shares = {recipe: measured_share(pairs, scored[recipe]) for recipe in public.recipes}
    predictions = [
        row for r in public.recipes for row in predicted(pairs, scored[r], r, shares[r][0])
    ]
    write(predictions, "predicted.csv")
    of_judge = {judge: max(share, 0.0) for judge, share in shares[public.recipes[1]][1].items()}
    kinds = {
        "independent": dict.fromkeys(of_judge, 0.0),
        "a quarter shared": dict.fromkeys(of_judge, 0.25),
    }
    kinds["as measured"] = of_judge
    lines, even = [], []
    for rows, recipe in (("shown", public.recipes[0]), ("own", public.recipes[1])):
        for errors, share in kinds.items():
            gains = grid_of(pairs, rows, share)
            even += break_even(gains, recipe, errors)
            for name, judge in pairs:
                about = {
                    "rows": recipe,
                    "errors": errors,
                    "shared": round(share[judge], 3),
                    "set": ratings.RATED[name],
                }
                about |= {"judge": judge, "judges": strength(judge)}
                own = {
                    kind: gains[name, judge, kind][0]
                    for kind in FUSIONS
                    if (name, judge, kind) in gains
                }
                for (i, level), draw in product(enumerate(LEVELS), range(DRAWS)):
                    gained = {kind: round(gain[i, draw], 4) for kind, gain in own.items()}
                    lines.append(about | {"level": level, "draw": draw} | gained)
            print(rows, errors, len(lines), flush=True)
            write(even, "break_even.csv")
            text = pd.DataFrame(lines).to_csv(index=False, lineterminator="\n")
            replace(OUT / "grid.csv.gz", gzip.compress(text.encode(), mtime=0))


def write(rows, name):
    """Write a table as CSV, six significant digits."""
    replace(
        OUT / name, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    )


if __name__ == "__main__":
    main()
