"""What happens when a very small judge is shown a small model's numbers? A table of effects.

The judge was recorded on one machine by live_judge.py. Run
``python experiments/recordings/live_judge_table.py`` with the public data after
``live_judge.py --write``: half a minute. It makes ``results/live_judge.csv``, a row for each
``effect``, ``reading`` (by the reply, or by its log-probabilities) and ``set``, with ``value`` and
its 95 % interval over contexts. Correlations are Spearman's, with people where the name says
nothing else. Set ``mean`` is the mean over sets. Conditions that were not recorded have no row.

The ``pull`` says how far a shown number pulls a score: 0 not at all, 1 all the way. It is the slope
b of the regression (informed - plain) / 5 = a + c * plain / 5 + b * s_c / 2. Here ``informed`` is
the score of the judge that was shown numbers, and ``s_c`` is the sum of these numbers. The same is
computed for the strong judge.
"""

import numpy as np
import pandas as pd

from dre import fusion, judges, stats
from dre.datasets import ratings
from dre.datasets.registry import PROJECT
from dre.errors import DreError
from dre.files import replace
from dre.judges import released
from dre.paper.profile import profile
from dre.paper.trainings import seeds, trained

SMALL_JUDGE = "qwen2.5-coder-0.5b"
SETS = list(ratings.RATED)[:3]
#: Readings of a reply, and how the names of their prompts end in the recording.
READINGS = {"reply": "", "log-probabilities": "_logprobs"}
#: By the source of the shown numbers, the prompt that shows them.
PROMPTS = {"an earlier training of ours": "dre_graded", "as printed": "dre_as_printed"}
TOP = 5  # of the judges' scale
PUBLIC = profile("public")


def recorded_scores(judge, table, prompt):
    """Return the scores of a recorded condition, or None if it was not recorded."""
    try:
        return judge.score(table, prompt)["score_llm"]
    except DreError:
        return None


def effects(name: str, ending: str) -> dict:
    """Return the effects on one set, by one reading of the small judge.

    An effect is either an array (1 + resamples, ...) of its values in the data and in each
    resample, as `dre.stats.interval` takes it, or a plain number.
    """
    table = ratings.rated(name)
    contexts = table["context_id"]
    judge = judges.open(f"recorded:{SMALL_JUDGE}")
    strong_judge = judges.open(f"recorded:{released.CLAUDE}")
    options = {"n": PUBLIC.resamples, "seed": SETS.index(name)}

    def gain(scores, baseline):
        """Return how much more some scores agree with people than those of a baseline do."""
        return stats.gains(scores, baseline, table["human"], contexts, **options)

    plain = recorded_scores(judge, table, f"llm_only{ending}")
    strong_plain = released.scores(name)[released.CLAUDE]
    with_ours = []
    for seed in seeds(PUBLIC, "dailydialog", "ours"):
        slm = trained(PUBLIC, "dailydialog", "ours", seed).score(table)
        with_ours.append(fusion.ex_dre(slm["s_d"], slm["s_p"], plain))
    values = {
        "the judge alone": stats.draws(plain, table["human"], contexts, **options),
        "distinct scores": plain.nunique(),
        "with the strong judge": stats.draws(plain, strong_plain, contexts, **options),
        "Ex-DRE with `ours` less the judge": gain(pd.concat(with_ours, axis=1), plain),
    }
    with_other_numbers = recorded_scores(judge, table, f"dre_other{ending}")
    for source, prompt in PROMPTS.items():
        informed = recorded_scores(judge, table, prompt + ending)
        if informed is None:
            continue
        s_c = fusion.s_c(*released.shown(prompt, table))
        strong_informed = strong_judge.score(table, prompt)["score_llm"]
        values[f"In-DRE, {source}, less the judge"] = gain(informed, plain)
        values[f"Ex-DRE, {source}, less the judge"] = gain(s_c * plain, plain)
        values[f"DRE, {source}, less the judge"] = gain(s_c * informed, plain)
        values[f"DRE less Ex-DRE, {source}"] = gain(s_c * informed, s_c * plain)
        values[f"pull, {source}"] = pull(plain, informed, s_c, contexts)
        strong_pull = pull(strong_plain, strong_informed, s_c, contexts)
        values[f"pull, {source}, strong judge"] = strong_pull
        if with_other_numbers is not None:
            gain_over_other = gain(informed, with_other_numbers)
            values[f"In-DRE, {source}, less another pair's numbers"] = gain_over_other
    if name == "topicalchat-usr":
        asked_again = judges.open(f"recorded:{SMALL_JUDGE}", repeat=1)
        second = recorded_scores(asked_again, table, f"llm_only{ending}")
        if second is not None:
            values["two askings, 0 and 0.7"] = stats.draws(second, plain, contexts, **options)
    return values


def pull(plain, informed, s_c, contexts) -> np.ndarray:
    """Return how far shown numbers pull a judge's score, (1 + resamples, 1)."""
    weights = stats.context_weights(contexts, PUBLIC.resamples)
    plain = plain.to_numpy() / TOP
    informed = informed.to_numpy() / TOP
    predictors = np.column_stack([np.ones(len(plain)), plain, s_c / 2])
    # The normal equations of weighted least squares, in each resample.
    gram = np.einsum("rn,ni,nj->rij", weights, predictors, predictors)
    moment = (weights * (informed - plain)) @ predictors
    coefficients = np.linalg.solve(gram, moment[..., None])
    return coefficients[:, 2]


def main() -> None:
    """Write the table."""
    draws: dict[tuple[str, str], dict] = {}
    for reading, ending in READINGS.items():
        for name in SETS:
            for effect, values in effects(name, ending).items():
                draws.setdefault((effect, reading), {})[ratings.RATED[name]] = values
    by_reply = draws["the judge alone", "reply"]
    by_log_probabilities = draws["the judge alone", "log-probabilities"]
    draws["the judge alone", "log-probabilities less reply"] = {
        name: by_log_probabilities[name] - by_reply[name] for name in by_reply
    }

    rows = []
    for (effect, reading), values_by_set in draws.items():
        has_resamples = np.ndim(next(iter(values_by_set.values()))) > 0
        if has_resamples and len(values_by_set) == len(SETS):
            values_by_set["mean"] = np.mean(list(values_by_set.values()), axis=0)
        for name, values in values_by_set.items():
            estimate = stats.interval(values, "value") if has_resamples else {"value": values}
            rows.append({"effect": effect, "reading": reading, "set": name, **estimate})
    table = pd.DataFrame(rows).drop(columns="value_sd", errors="ignore")
    text = table.to_csv(index=False, float_format="%.4f", lineterminator="\n")
    replace(PROJECT / "results" / "live_judge.csv", text)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
