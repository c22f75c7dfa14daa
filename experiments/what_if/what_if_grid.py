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
from typing import NamedTuple

import numpy as np
import pandas as pd

from dre import fusion, stats, what_if
from dre.calibrated import Calibrated
from dre.datasets import ratings, recordings
from dre.files import replace
from dre.judges import released
from dre.judges.recorded import Recorded
from dre.paper.profile import profile, root
from dre.paper.trainings import seeds, trained

OUTPUT = root() / "results" / "what_if"
LEVELS = np.arange(10) / 10
N_DRAWS = 10
N_RESAMPLES = 300
FUSIONS = ("Ex-DRE", "SLIDE", "DRE", "learned weight")
STRENGTHS = ("open", "middle", "strong")


class Pair(NamedTuple):
    """A rated set and a judge."""

    set: str
    judge: str

    @property
    def strength(self) -> str:
        """The class of the judge."""
        if self.judge == released.CLAUDE:
            return "strong"
        return "open" if self.judge in released.P_YES else "middle"

    def named(self) -> dict[str, str]:
        """Return what a table says of the pair."""
        return {"set": ratings.RATED[self.set], "judge": self.judge, "judges": self.strength}


def slide(s_d, s_p, llm):
    """Return SLIDE of the parts of a small model (Eq. 23)."""
    return fusion.slide(fusion.s_c(s_d, s_p), llm)


#: Fusions of a small model with what its judge says without its numbers.
FUSE = {"SLIDE": slide, "Ex-DRE": fusion.ex_dre}


def partial_correlation(slm, llm, human) -> float:
    """Return the correlation of what people's ratings leave of two scores, all as normal scores."""
    correlations = np.corrcoef(stats.normal_scores(np.column_stack([slm, llm, human])).T)
    slm_llm, slm_human, llm_human = correlations[0, 1], correlations[0, 2], correlations[1, 2]
    return (slm_llm - slm_human * llm_human) / np.sqrt((1 - slm_human**2) * (1 - llm_human**2))


def load_slm_scores(public, recipe: str) -> dict[str, list[pd.DataFrame]]:
    """Return the scores of a recipe's small models by set, one table for each seed.

    The papers' small model was trained for each set, ours once.
    """
    scores = {}
    for name in public.table_4:
        key = public.training_set(name).key if recipe == "paper" else public.main_set
        models = [trained(public, key, recipe, seed) for seed in seeds(public, key, recipe)]
        scores[name] = [model.score(ratings.rated(name)) for model in models]
    return scores


def load_pairs(our_scores) -> dict[Pair, pd.DataFrame]:
    """Return a table of complete rows for each set and judge.

    Columns ``pair_id, context_id, human``; ``llm``, the judge's score; ``shown_d, shown_p`` and
    ``own_d, own_p``, the two kinds of rows; ``other``, the score that the judge gave beside the
    numbers of another pair, where it was asked so.
    """
    shown = recordings.numbers_shown().set_axis(["shown_d", "shown_p"], axis=1)
    tables = {}
    for name, (own, *_) in our_scores.items():
        rated = ratings.rated(name)
        table = rated[["pair_id", "context_id", "human"]].join(shown, on="pair_id")
        table = table.assign(own_d=own["s_d"], own_p=own["s_p"], other=np.nan)
        judge_scores = released.scores(name).drop(columns="pair_id")
        for judge, scores in judge_scores.items():
            of_judge = table.assign(llm=scores)
            if judge == released.CLAUDE:
                read = Recorded(recordings.NAME).score(rated, "dre_other")
                of_judge["other"] = read["score_llm"]
            tables[Pair(name, judge)] = of_judge[of_judge["llm"].notna()]
    return tables


def fuse_all(tables, rows, level, draw, share_by_judge) -> dict[Pair, dict[str, np.ndarray]]:
    """Deal numbers to every pair and fuse them; return the scores by pair and fusion.

    Parameters
    ----------
    tables : from `load_pairs`.
    rows : which rows are dealt, ``shown`` or ``own``.
    level, draw : the agreement of the numbers, and the draw of their errors.
    share_by_judge : how much of the errors is the judge's, too.
    """
    fused: dict[Pair, dict[str, np.ndarray]] = {}
    evidence = {}
    for pair, table in tables.items():
        llm, human = table["llm"].to_numpy(), table["human"].to_numpy()
        of_rows = table[[f"{rows}_d", f"{rows}_p"]].to_numpy()
        share = share_by_judge[pair.judge]
        s_d, s_p = what_if.as_good_as(level, human, of_rows, draw, llm, share).T
        fused[pair] = {name: fuse(s_d, s_p, llm) for name, fuse in FUSE.items()}
        if table["other"].notna().all():
            fused[pair]["DRE"] = fusion.dre(s_d, s_p, table["other"].to_numpy())
        scores = {"score_slm": fusion.s_c(s_d, s_p), "score_llm": llm}
        evidence[pair] = table[["context_id", "human"]].assign(**scores)
    for pair, own in evidence.items():
        # The weight is learned on the other sets: of the judge, or of all judges on its own scale.
        others = {other: table for other, table in evidence.items() if other.set != pair.set}
        of_judge = [table for other, table in others.items() if other.judge == pair.judge]
        scale = None if of_judge else own["score_llm"]
        learned = Calibrated.fit(of_judge or list(others.values()), scale, resamples=100)
        fused[pair]["learned weight"] = learned.fuse(own["score_slm"], own["score_llm"])
    return fused


def gains_over_grid(tables, rows, share_by_judge) -> dict[tuple[Pair, str], np.ndarray]:
    """Return the gains over the judge by pair and fusion: (1 + resamples, levels, draws)."""
    set_names = list(dict.fromkeys(pair.set for pair in tables))
    fused_by_cell = [
        fuse_all(tables, rows, level, draw, share_by_judge)
        for level in LEVELS
        for draw in range(N_DRAWS)
    ]
    gains = {}
    for pair, table in tables.items():
        for name in fused_by_cell[0][pair]:
            scores = np.column_stack(
                [table["llm"], *(fused[pair][name] for fused in fused_by_cell)]
            )
            # The same resamples for all judges of a set.
            seed = [0, set_names.index(pair.set)]
            about = (table["human"], table["context_id"])
            correlations = stats.draws(scores, *about, n=N_RESAMPLES, seed=seed)
            gain = correlations[:, 1:] - correlations[:, :1]
            gains[pair, name] = gain.reshape(len(gain), len(LEVELS), N_DRAWS)
    return gains


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


def break_even_rows(gains, **about) -> list[dict]:
    """Return the levels at which classes of judges break even; every pair counts alike."""
    by_class: dict[tuple[str, str], list] = {}
    for (pair, name), gain in gains.items():
        mean_of_draws = gain.mean(axis=2)
        by_class.setdefault((name, pair.strength), []).append(mean_of_draws)
    found = []
    for key in sorted(by_class, key=lambda key: (FUSIONS.index(key[0]), STRENGTHS.index(key[1]))):
        mean_gain = np.mean(by_class[key], axis=0)
        levels = np.array([crossing(line) for line in mean_gain])
        low, high = np.quantile(levels[1:], [0.025, 0.975], method="inverted_cdf")
        row = about | {"fusion": key[0], "judges": key[1], "pairs": len(by_class[key])}
        found.append(row | {"level": levels[0], "level_low": low, "level_high": high})
    return found


def as_printed_rows(tables, printed, share_by_judge) -> list[dict]:
    """Return the gains over each part with a small model as good as printed, by class of judges.

    The rows that are dealt out are those that the judge was shown.
    """
    gains: dict[tuple[str, str], dict[str, list]] = {}
    for name, fuse in FUSE.items():
        for pair, table in tables.items():
            columns = [table[column].to_numpy() for column in ("llm", "human", "context_id")]
            of_rows = table[["shown_d", "shown_p"]].to_numpy()
            level, share = printed[pair.set], share_by_judge[pair.judge]
            seed = list(printed).index(pair.set)
            over = what_if.gains_over_parts(*columns, of_rows, level, share, fuse, seed=seed)
            for part, gain in over.items():
                of_part = gains.setdefault((name, part), {})
                of_part.setdefault(pair.strength, []).append(gain)
                of_part.setdefault("all", []).append(gain)
    rows = []
    for (name, part), by_class in gains.items():
        row: dict[str, object] = {"fusion": name, "over": part}
        for judge_class in (*STRENGTHS, "all"):
            pooled = stats.pooled(by_class[judge_class])
            row[judge_class] = pooled["difference"]
            row |= {f"{judge_class}_{end}": pooled[end] for end in ("low", "high")}
            row[f"{judge_class} above"] = f"{pooled['positive']} of {pooled['pairs']}"
        rows.append(row)
    return rows


def predicted_row(table, slm_tables, fuse, share) -> dict:
    """Return the gain over a judge that can be expected, and the one that is measured.

    What is expected follows from a real small model's rows, agreement and shared errors.
    """
    llm, human, contexts = (
        table[name].reset_index(drop=True) for name in ("llm", "human", "context_id")
    )
    measured_scores = []
    expected = []
    for scores in slm_tables:
        slm = scores.loc[table.index].reset_index(drop=True)
        measured_scores.append(fuse(slm["s_d"], slm["s_p"], llm))
        level = slm["score_slm"].corr(human, method="spearman")
        columns = [llm.to_numpy()]
        for draw in range(N_DRAWS):
            of_rows = slm[["s_d", "s_p"]].to_numpy()
            dealt = what_if.as_good_as(level, human.to_numpy(), of_rows, draw, columns[0], share)
            columns.append(fuse(*dealt.T, columns[0]))
        correlations = stats.draws(np.column_stack(columns), human.to_numpy(), contexts, n=0)[0]
        expected.append(correlations[1:] - correlations[0])
    own = pd.DataFrame(np.column_stack(measured_scores))
    measured = stats.compare(own, llm, human, contexts, permutations=1)
    return {
        "shared": share,
        "predicted": np.mean(expected),
        "predicted_sd": np.mean(expected, axis=0).std(),
        "measured": measured["difference"],
        "measured_low": measured["low"],
        "measured_high": measured["high"],
    }


def grid_table(tables, gains, share_by_judge, **about) -> pd.DataFrame:
    """Return a row for each pair and cell of the grid, with the gain of each fusion."""
    cells = pd.MultiIndex.from_product([LEVELS, range(N_DRAWS)], names=["level", "draw"])
    found = []
    for pair, table in tables.items():
        alone = table["llm"].corr(table["human"], method="spearman")
        of_pair = cells.to_frame(index=False).assign(
            **about,
            **pair.named(),
            shared=round(share_by_judge[pair.judge], 3),
            alone=round(alone, 4),
        )
        for name in FUSIONS:
            if (pair, name) in gains:
                of_pair[name] = gains[pair, name][0].ravel().round(4)
        found.append(of_pair)
    columns = [*about, "shared", "set", "judge", "judges", "alone", "level", "draw", *FUSIONS]
    return pd.concat(found)[columns]


def write(rows: list[dict], name: str) -> None:
    """Write a table as CSV, six significant digits."""
    text = pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    replace(OUTPUT / name, text)


def main() -> None:
    """Write the four files."""
    public = profile("public")
    scores_by_recipe = {recipe: load_slm_scores(public, recipe) for recipe in ("paper", "ours")}
    tables = load_pairs(scores_by_recipe["ours"])
    predictions = []
    shares: dict[Pair, float] = {}
    for recipe, scores_by_set in scores_by_recipe.items():
        for pair, table in tables.items():
            slm_tables = scores_by_set[pair.set]
            about = (table["llm"], table["human"])
            of_seeds = [
                partial_correlation(of["score_slm"][table.index], *about) for of in slm_tables
            ]
            shares[pair] = np.mean(of_seeds)
            for name in ("Ex-DRE", "SLIDE"):
                row = predicted_row(table, slm_tables, FUSE[name], shares[pair])
                predictions.append({"slm": recipe, "fusion": name, **pair.named(), **row})
    write(predictions, "predicted.csv")

    measured = pd.Series(shares).groupby(level=1).mean().to_dict()  # ours, a mean over sets
    share_by_errors = {
        "independent": dict.fromkeys(measured, 0.0),
        "as measured": {judge: max(share, 0.0) for judge, share in measured.items()},
    }
    table4 = pd.read_csv(root() / "data/paper/dre_table4.csv").set_index("metric")
    slm = table4.loc["Ours (SLM-Dis and Prob)"]
    printed = {name: float(slm[f"{name.split('-')[0]}_spearman"]) for name in public.table_4}
    write(as_printed_rows(tables, printed, share_by_errors["as measured"]), "as_printed.csv")
    grids = []
    break_even = []
    for rows, kind in (("shown", "as shown"), ("own", "ours")):
        for errors, share_by_judge in share_by_errors.items():
            about = {"rows": kind, "errors": errors}
            gains = gains_over_grid(tables, rows, share_by_judge)
            break_even += break_even_rows(gains, **about)
            grids.append(grid_table(tables, gains, share_by_judge, **about))
    write(break_even, "break_even.csv")
    text = pd.concat(grids).to_csv(index=False, lineterminator="\n")
    replace(OUTPUT / "grid.csv.gz", gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
