"""How good must a small model be, so that fusing it with a judge helps?

We pretend to have small models of any quality, and fuse them with every recorded judge. To this end
the rows (s_d, s_p) of a real small model are dealt out anew to the pairs
(`dre.what_if.as_good_as`). There are two kinds of rows: those of an earlier model of the papers'
kind, which the judge was shown, and those of the profile's second recipe, first seed. They are
dealt at ten levels of agreement with people, in ten draws of errors.

The errors are independent of the judge's errors, share a quarter with them, or share as much as the
second recipe was measured to share with that judge. That measure is the partial correlation of
normal scores given people's ratings, a mean over sets and seeds.

Run ``python experiments/what_if/what_if_grid.py`` with the public data: twenty minutes of one core.
It makes in ``results/what_if``, for the notebook that asks when a fusion helps:

- ``grid.csv.gz``: the gain of each fusion over its judge alone, by draw;
- ``break_even.csv``: the level from which on a class of judges gains, with 95 % intervals over
  contexts;
- ``predicted.csv``: a test of all this. It compares the gain that follows from the rows, agreement
  and shared errors of a real small model with the gain that this model really has.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dre import fusion, stats, what_if
from dre.calibrated import Calibrated
from dre.datasets import ratings, recordings
from dre.files import replace
from dre.judges import released
from dre.judges.recorded import Recorded
from dre.paper.profile import profile
from dre.slm import trained

OUTPUT = Path(__file__).resolve().parents[2] / "results" / "what_if"
#: By rated set, the key of the training set of the same kind of dialogues.
TRAINING_SETS = {
    "dailydialog-zhao": "dailydialog",
    "personachat-usr": "personachat",
    "topicalchat-usr": "topicalchat",
}
LEVELS = np.arange(10) / 10
N_DRAWS = 10
N_RESAMPLES = 300
FUSIONS = ("Ex-DRE", "SLIDE", "DRE", "learned weight")
STRENGTHS = ("open", "middle", "current")


class Pair(NamedTuple):
    """A rated set and a judge."""

    set: str
    judge: str


class Grid(NamedTuple):
    """One cell of the grid: a level of agreement and a draw of errors."""

    level: float
    draw: int


def slide(s_d, s_p, llm):
    """Return SLIDE of the parts of a small model (Eq. 23)."""
    return fusion.slide(fusion.s_c(s_d, s_p), llm)


def partial_correlation(slm, llm, human) -> float:
    """Return the correlation of what people's ratings leave of two scores, all as normal scores."""
    normal = stats.normal_scores(np.column_stack([slm, llm, human]))
    correlations = np.corrcoef(normal.T)
    slm_llm, slm_human, llm_human = correlations[0, 1], correlations[0, 2], correlations[1, 2]
    return (slm_llm - slm_human * llm_human) / np.sqrt((1 - slm_human**2) * (1 - llm_human**2))


def load_slm_scores(public) -> dict[str, dict[str, list[pd.DataFrame]]]:
    """Return the scores of the small models, by recipe and set, one table for each seed.

    The first recipe was trained for each set, the others on the first set alone.
    """
    scores: dict[str, dict[str, list[pd.DataFrame]]] = {}
    for recipe in public.recipes[:2]:
        is_trained_for_each_set = recipe == public.recipes[0]
        scores[recipe] = {}
        for name, key in TRAINING_SETS.items():
            training_key = key if is_trained_for_each_set else public.sets[0].key
            rated = ratings.rated(name)
            scores[recipe][name] = [
                trained(public, training_key, recipe, seed).score(rated) for seed in public.seeds
            ]
    return scores


def load_pairs(slm_scores, public) -> dict[Pair, pd.DataFrame]:
    """Return a table of complete rows for each set and judge.

    Its columns are ``pair_id, context_id, human``; ``llm``, the judge's score; ``shown_d, shown_p``
    and ``own_d, own_p``, the two kinds of rows; and ``other``, the score that the judge gave when
    it was shown the numbers of another pair, where it was asked so.
    """
    file = recordings.folder(ratings.NAME) / "dre_inputs.csv"
    shown_rows = pd.read_csv(file, index_col="pair_id")
    shown_rows = shown_rows[["s_d", "s_p"]].set_axis(["shown_d", "shown_p"], axis=1)
    recording = Recorded(ratings.NAME)
    tables = {}
    for name in TRAINING_SETS:
        rated = ratings.rated(name)
        our_rows = slm_scores[public.recipes[1]][name][0]
        table = rated[["pair_id", "context_id", "human"]].join(shown_rows, on="pair_id")
        table = table.assign(own_d=our_rows["s_d"], own_p=our_rows["s_p"])
        judge_scores = released.scores(name).drop(columns="pair_id")
        for judge, scores in judge_scores.items():
            of_judge = table.assign(llm=scores, other=np.nan)
            if judge == released.CLAUDE:
                of_judge["other"] = recording.score(rated, "dre_other")["score_llm"]
            tables[Pair(name, judge)] = of_judge[of_judge["llm"].notna()]
    return tables


def shared_errors(tables, scores_by_set) -> dict[Pair, float]:
    """Return the partial correlation of the errors of small models and judge, a mean over seeds."""
    shares = {}
    for pair, table in tables.items():
        by_seed = [
            partial_correlation(scores["score_slm"][table.index], table["llm"], table["human"])
            for scores in scores_by_set[pair.set]
        ]
        shares[pair] = np.mean(by_seed)
    return shares


def mean_by_judge(shares: Mapping[Pair, float]) -> dict[str, float]:
    """Return the mean over sets for each judge."""
    return pd.Series(shares).groupby(level=1).mean().to_dict()


def fuse_all(tables, rows, cell: Grid, share_by_judge) -> dict[Pair, dict[str, np.ndarray]]:
    """Deal numbers to every pair and fuse them.

    Parameters
    ----------
    tables : from `load_pairs`.
    rows : which rows are dealt, ``shown`` or ``own``.
    cell : level of agreement and draw of errors.
    share_by_judge : how much of the errors is the judge's, too.

    Returns
    -------
    The fused scores, by pair and name of the fusion.
    """
    fused: dict[Pair, dict[str, np.ndarray]] = {}
    evidence = {}
    for pair, table in tables.items():
        llm = table["llm"].to_numpy()
        dealt = what_if.as_good_as(
            cell.level,
            table["human"].to_numpy(),
            table[[f"{rows}_d", f"{rows}_p"]].to_numpy(),
            cell.draw,
            llm,
            share_by_judge[pair.judge],
        )
        s_d, s_p = dealt.T
        fused[pair] = {"Ex-DRE": fusion.ex_dre(s_d, s_p, llm), "SLIDE": slide(s_d, s_p, llm)}
        if table["other"].notna().all():
            fused[pair]["DRE"] = fusion.dre(s_d, s_p, table["other"].to_numpy())
        evidence[pair] = table[["context_id", "human"]].assign(
            score_slm=fusion.s_c(s_d, s_p), score_llm=llm
        )
    for pair in tables:
        fused[pair]["learned weight"] = _learned_fusion(pair, evidence)
    return fused


def _learned_fusion(pair, evidence):
    """Return the scores of a fusion whose weight is learned on the other sets.

    Where the judge scored no other set, it is learned on other judges, with the judge's own scale.
    """
    of_judge = [
        table
        for candidate, table in evidence.items()
        if candidate.set != pair.set and candidate.judge == pair.judge
    ]
    of_other_sets = [table for candidate, table in evidence.items() if candidate.set != pair.set]
    scores = evidence[pair]
    scale = None if of_judge else scores["score_llm"]
    learned = Calibrated.fit(of_judge or of_other_sets, scale, resamples=100)
    return learned.fuse(scores["score_slm"], scores["score_llm"])


def gains_over_grid(tables, rows, share_by_judge) -> dict[tuple[Pair, str], np.ndarray]:
    """Return the gains over the judge by pair and fusion: (1 + resamples, levels, draws)."""
    cells = [Grid(level, draw) for level in LEVELS for draw in range(N_DRAWS)]
    fused_by_cell = [fuse_all(tables, rows, cell, share_by_judge) for cell in cells]
    gains = {}
    for pair, table in tables.items():
        # The same resamples for all judges of a set.
        seed = [0, list(TRAINING_SETS).index(pair.set)]
        for fusion_name in fused_by_cell[0][pair]:
            columns = [fused[pair][fusion_name] for fused in fused_by_cell]
            scores = np.column_stack([table["llm"], *columns])
            correlations = stats.draws(
                scores, table["human"], table["context_id"], n=N_RESAMPLES, seed=seed
            )
            gain = correlations[:, 1:] - correlations[:, :1]
            gains[pair, fusion_name] = gain.reshape(len(gain), len(LEVELS), N_DRAWS)
    return gains


def strength(judge: str) -> str:
    """Return the class of a judge."""
    if judge == released.CLAUDE:
        return "current"
    return "open" if judge in released.P_YES else "middle"


def crossing(gain: np.ndarray) -> float:
    """Return the lowest level from which on a gain (levels,) is not below zero.

    Gains are interpolated linearly between levels. Infinite if there is no such level.
    """
    below_zero = np.flatnonzero(gain < 0)
    if not len(below_zero):
        return 0.0
    last = below_zero[-1]
    if last == len(gain) - 1:
        return np.inf
    step = LEVELS[1] - LEVELS[0]
    return LEVELS[last] - gain[last] * step / (gain[last + 1] - gain[last])


def break_even_rows(gains, rows, errors) -> list[dict]:
    """Return the levels at which classes of judges break even; every pair counts alike."""
    table_rows = []
    for fusion_name in FUSIONS:
        for judge_class in STRENGTHS:
            of_class = [
                gain
                for (pair, name), gain in gains.items()
                if name == fusion_name and strength(pair.judge) == judge_class
            ]
            if not of_class:
                continue
            mean_gain = np.mean(of_class, axis=(0, 3))  # over pairs and draws
            levels = np.array([crossing(gain_by_level) for gain_by_level in mean_gain])
            low, high = np.quantile(levels[1:], [0.025, 0.975], method="inverted_cdf")
            row = {
                "rows": rows,
                "errors": errors,
                "fusion": fusion_name,
                "judges": judge_class,
                "pairs": len(of_class),
                "level": levels[0],
                "level_low": low,
                "level_high": high,
            }
            table_rows.append(row)
    return table_rows


def predicted_rows(tables, scores_by_set, recipe, shares) -> list[dict]:
    """Return for each pair and fusion the gain that can be expected, and the measured gain.

    The expected gain follows from a real small model's rows, agreement and shared errors.
    """
    table_rows = []
    for pair, table in tables.items():
        llm = table["llm"].reset_index(drop=True)
        human = table["human"].reset_index(drop=True)
        contexts = table["context_id"].reset_index(drop=True)
        slm_tables = [scores.loc[table.index] for scores in scores_by_set[pair.set]]
        for fusion_name, fuse in (("Ex-DRE", fusion.ex_dre), ("SLIDE", slide)):
            fused = [fuse(slm["s_d"], slm["s_p"], llm.to_numpy()) for slm in slm_tables]
            fused = pd.DataFrame(np.column_stack(fused))
            measured = stats.compare(fused, llm, human, contexts, permutations=1)
            expected = []
            for slm in slm_tables:
                gains = expected_gains(slm, llm, human, contexts, fuse, shares[pair])
                expected.append(gains)
            expected = np.array(expected)
            row = {
                "slm": recipe,
                "fusion": fusion_name,
                "set": ratings.RATED[pair.set],
                "judge": pair.judge,
                "judges": strength(pair.judge),
                "shared": shares[pair],
                "predicted": expected.mean(),
                "predicted_sd": expected.mean(axis=0).std(),
                "measured": measured["difference"],
                "measured_low": measured["low"],
                "measured_high": measured["high"],
            }
            table_rows.append(row)
    return table_rows


def expected_gains(slm, llm, human, contexts, fuse, share) -> np.ndarray:
    """Return the gain over the judge in each draw, with rows dealt as well as the model agrees."""
    agreement = slm["score_slm"].reset_index(drop=True).corr(human, method="spearman")
    real_rows = slm[["s_d", "s_p"]].to_numpy()
    columns = [llm.to_numpy()]
    for draw in range(N_DRAWS):
        dealt = what_if.as_good_as(
            agreement, human.to_numpy(), real_rows, draw, llm.to_numpy(), share
        )
        columns.append(fuse(*dealt.T, llm.to_numpy()))
    correlations = stats.draws(np.column_stack(columns), human.to_numpy(), contexts, n=0)[0]
    return correlations[1:] - correlations[0]


def grid_lines(tables, gains, recipe, errors, share_by_judge) -> list[dict]:
    """Return a line for each pair and cell of the grid, with the gain of each fusion."""
    lines = []
    for pair in tables:
        gain_by_fusion = {name: gains[pair, name][0] for name in FUSIONS if (pair, name) in gains}
        for i, level in enumerate(LEVELS):
            for draw in range(N_DRAWS):
                line = {
                    "rows": recipe,
                    "errors": errors,
                    "shared": round(share_by_judge[pair.judge], 3),
                    "set": ratings.RATED[pair.set],
                    "judge": pair.judge,
                    "judges": strength(pair.judge),
                    "level": level,
                    "draw": draw,
                }
                for name, gain in gain_by_fusion.items():
                    line[name] = round(gain[i, draw], 4)
                lines.append(line)
    return lines


def write(rows: list[dict], name: str) -> None:
    """Write a table as CSV, six significant digits."""
    text = pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    replace(OUTPUT / name, text)


def main() -> None:
    """Write the three files."""
    public = profile("public")
    slm_scores = load_slm_scores(public)
    tables = load_pairs(slm_scores, public)
    shares = {
        recipe: shared_errors(tables, scores_by_set) for recipe, scores_by_set in slm_scores.items()
    }
    predictions = []
    for recipe, scores_by_set in slm_scores.items():
        predictions += predicted_rows(tables, scores_by_set, recipe, shares[recipe])
    write(predictions, "predicted.csv")

    measured = mean_by_judge(shares[public.recipes[1]])
    share_by_errors = {
        "independent": dict.fromkeys(measured, 0.0),
        "a quarter shared": dict.fromkeys(measured, 0.25),
        "as measured": {judge: max(share, 0.0) for judge, share in measured.items()},
    }
    lines = []
    break_even = []
    for rows, recipe in (("shown", public.recipes[0]), ("own", public.recipes[1])):
        for errors, share_by_judge in share_by_errors.items():
            gains = gains_over_grid(tables, rows, share_by_judge)
            break_even += break_even_rows(gains, recipe, errors)
            lines += grid_lines(tables, gains, recipe, errors, share_by_judge)
            print(rows, errors, len(lines), flush=True)
            write(break_even, "break_even.csv")
            text = pd.DataFrame(lines).to_csv(index=False, lineterminator="\n")
            replace(OUTPUT / "grid.csv.gz", gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
