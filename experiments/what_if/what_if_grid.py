"""How good must a small model be? Numbers as good as one likes, fused with every recorded judge.

Two kinds of rows (s_d, s_p) are dealt out anew (`dre.what_if.as_good_as`): those that the judge was
shown, of an earlier small model of the papers' kind, and those of our small model. They are dealt
at ten levels of agreement with people, in ten draws of their errors. The errors are independent of
the judge's, or share what was measured of that judge and our small model. That measure is the
partial correlation of normal scores given people's, a mean over sets.

Run ``python experiments/what_if/what_if_grid.py`` with the public data: ten minutes of one core.
It makes in ``results/what_if``, for the notebook that asks when a fusion helps:

- ``grid.csv.gz``: the gain of each fusion over its judge alone, by draw. A fusion's gain over the
  small model alone follows from it: gain + alone - level, where ``alone`` is the judge's agreement;
- ``break_even.csv``: the level from which on a class of judges gains, with 95 % intervals over
contexts;
- ``as_printed.csv``: the gain over each part with a small model as good as the papers print it,
  with 95 % intervals over contexts;
- ``predicted.csv``: a test of all this. The gain that rows, agreement and shared errors of a real
  small model let expect stands beside the gain that it has.
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
from dre.paper.trainings import seeds, trained

PROJECT = Path(__file__).resolve().parents[2]
OUTPUT = PROJECT / "results" / "what_if"
#: By rated set, the key of the training set of the same kind of dialogues.
TRAINING_SETS = {
    "dailydialog-zhao": "dailydialog",
    "personachat-usr": "personachat",
    "topicalchat-usr": "topicalchat",
}
PAPER = "paper"
OURS = "ours"
LEVELS = np.arange(10) / 10
N_DRAWS = 10
N_RESAMPLES = 300
FUSIONS = ("Ex-DRE", "SLIDE", "DRE", "learned weight")
STRENGTHS = ("open", "middle", "strong")


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

    The papers' small model was trained for each set, ours once.
    """
    scores: dict[str, dict[str, list[pd.DataFrame]]] = {}
    for recipe in (PAPER, OURS):
        scores[recipe] = {}
        for name, key in TRAINING_SETS.items():
            training_key = key if recipe == PAPER else public.main_set
            models = [
                trained(public, training_key, recipe, seed)
                for seed in seeds(public, training_key, recipe)
            ]
            rated = ratings.rated(name)
            scores[recipe][name] = [model.score(rated) for model in models]
    return scores


def load_pairs(slm_scores) -> dict[Pair, pd.DataFrame]:
    """Return a table of complete rows for each set and judge.

    Columns ``pair_id, context_id, human``; ``llm``, the judge's score; ``shown_d, shown_p`` and
    ``own_d, own_p``, the two kinds of rows; ``other``, the score that the judge gave beside the
    numbers of another pair, where it was asked so.
    """
    shown = recordings.numbers_shown().set_axis(["shown_d", "shown_p"], axis=1)
    recording = Recorded(recordings.NAME)
    tables = {}
    for name in TRAINING_SETS:
        rated = ratings.rated(name)
        own = slm_scores[OURS][name][0]
        table = rated[["pair_id", "context_id", "human"]].join(shown, on="pair_id")
        table = table.assign(own_d=own["s_d"], own_p=own["s_p"])
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
        for other, table in evidence.items()
        if other.set != pair.set and other.judge == pair.judge
    ]
    of_other_sets = [table for other, table in evidence.items() if other.set != pair.set]
    own = evidence[pair]
    scale = None if of_judge else own["score_llm"]
    learned = Calibrated.fit(of_judge or of_other_sets, scale, resamples=100)
    return learned.fuse(own["score_slm"], own["score_llm"])


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
        return "strong"
    return "open" if judge in released.P_YES else "middle"


def crossing(gain: np.ndarray) -> float:
    """Return the least level from which on a gain (levels,) is not below zero.

    Linear in between; infinite if there is none.
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
    found = []
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
            levels = np.array([crossing(line) for line in mean_gain])
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
            found.append(row)
    return found


def as_printed_rows(tables, share_by_judge) -> list[dict]:
    """Return the gains over each part with a small model as good as printed, by class of judges.

    The rows that are dealt out are those that the judge was shown.
    """
    fuse_by_name = {"SLIDE": slide, "Ex-DRE": fusion.ex_dre}
    printed = printed_agreement()
    gains_by_key: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for pair, table in tables.items():
        for fusion_name, fuse in fuse_by_name.items():
            over_parts = what_if.gains_over_parts(
                table["llm"].to_numpy(),
                table["human"].to_numpy(),
                table["context_id"].to_numpy(),
                table[["shown_d", "shown_p"]].to_numpy(),
                printed[pair.set],
                share_by_judge[pair.judge],
                fuse,
                seed=list(TRAINING_SETS).index(pair.set),
            )
            for part, gain in over_parts.items():
                for judge_class in (strength(pair.judge), "all"):
                    key = (fusion_name, part, judge_class)
                    gains_by_key.setdefault(key, []).append(gain)

    rows = []
    for fusion_name in fuse_by_name:
        for part in ("judge alone", "small model alone", "better part"):
            row: dict[str, object] = {"fusion": fusion_name, "over": part}
            for judge_class in (*STRENGTHS, "all"):
                gains = gains_by_key[fusion_name, part, judge_class]
                pooled = stats.pooled(gains)
                row[judge_class] = pooled["difference"]
                row[f"{judge_class}_low"] = pooled["low"]
                row[f"{judge_class}_high"] = pooled["high"]
                row[f"{judge_class} above"] = f"{pooled['positive']} of {pooled['pairs']}"
            rows.append(row)
    return rows


def printed_agreement() -> dict[str, float]:
    """Return how well the papers' small model agrees with people as printed, by rated set."""
    table4 = pd.read_csv(PROJECT / "data" / "paper" / "dre_table4.csv").set_index("metric")
    row = table4.loc["Ours (SLM-Dis and Prob)"]
    return {name: float(row[f"{name.split('-')[0]}_spearman"]) for name in TRAINING_SETS}


def predicted_rows(tables, scores_by_set, recipe, shares) -> list[dict]:
    """Return for each pair and fusion the gain that can be expected, and the one that is measured.

    What is expected follows from a real small model's rows, agreement and shared errors.
    """
    found = []
    for pair, table in tables.items():
        llm = table["llm"].reset_index(drop=True)
        human = table["human"].reset_index(drop=True)
        contexts = table["context_id"].reset_index(drop=True)
        slm_tables = [scores.loc[table.index] for scores in scores_by_set[pair.set]]
        for fusion_name, fuse in (("Ex-DRE", fusion.ex_dre), ("SLIDE", slide)):
            own_scores = np.column_stack(
                [fuse(slm["s_d"], slm["s_p"], llm.to_numpy()) for slm in slm_tables]
            )
            measured = stats.compare(pd.DataFrame(own_scores), llm, human, contexts, permutations=1)
            expected = np.array(
                [
                    expected_gains(slm, llm, human, contexts, fuse, shares[pair])
                    for slm in slm_tables
                ]
            )
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
            found.append(row)
    return found


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


def grid_lines(tables, gains, kind, errors, share_by_judge) -> list[dict]:
    """Return a line for each pair and cell of the grid, with the gain of each fusion."""
    lines = []
    for pair, table in tables.items():
        alone = table["llm"].corr(table["human"], method="spearman")
        gain_by_fusion = {name: gains[pair, name][0] for name in FUSIONS if (pair, name) in gains}
        for i, level in enumerate(LEVELS):
            for draw in range(N_DRAWS):
                line = {
                    "rows": kind,
                    "errors": errors,
                    "shared": round(share_by_judge[pair.judge], 3),
                    "set": ratings.RATED[pair.set],
                    "judge": pair.judge,
                    "judges": strength(pair.judge),
                    "alone": round(alone, 4),
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
    """Write the four files."""
    public = profile("public")
    slm_scores = load_slm_scores(public)
    tables = load_pairs(slm_scores)
    shares = {
        recipe: shared_errors(tables, scores_by_set) for recipe, scores_by_set in slm_scores.items()
    }
    predictions = []
    for recipe, scores_by_set in slm_scores.items():
        predictions += predicted_rows(tables, scores_by_set, recipe, shares[recipe])
    write(predictions, "predicted.csv")

    measured = mean_by_judge(shares[OURS])
    share_by_errors = {
        "independent": dict.fromkeys(measured, 0.0),
        "as measured": {judge: max(share, 0.0) for judge, share in measured.items()},
    }
    write(as_printed_rows(tables, share_by_errors["as measured"]), "as_printed.csv")
    lines = []
    break_even = []
    for rows, kind in (("shown", "as shown"), ("own", OURS)):
        for errors, share_by_judge in share_by_errors.items():
            gains = gains_over_grid(tables, rows, share_by_judge)
            break_even += break_even_rows(gains, kind, errors)
            lines += grid_lines(tables, gains, kind, errors, share_by_judge)
            print(rows, errors, len(lines), flush=True)
            write(break_even, "break_even.csv")
            text = pd.DataFrame(lines).to_csv(index=False, lineterminator="\n")
            replace(OUTPUT / "grid.csv.gz", gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
