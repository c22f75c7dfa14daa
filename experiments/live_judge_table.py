"""What the small judge recorded on one machine (live_judge.py) tells: a table of effects, with intervals.

Run ``python experiments/live_judge_table.py`` with the public data, after ``live_judge.py --write``. It writes
results/live_judge.csv, one row for each ``effect``, ``reading`` (by reply, or by log-probabilities) and ``set``, with
``value`` and its 95 % interval over contexts. Correlations are Spearman's, with people where nothing
else is said; ``mean`` is that of the sets. Conditions that were not recorded have no row.

``pull``: of ``told / 5 - plain / 5`` on ``plain / 5`` and half the sum of the shown numbers, the slope of the last: how
far a shown number pulls a score, 1 all the way. Beside it that of the strong judge, by the same lines.
"""

import numpy as np
import pandas as pd

from dre import fusion, judges, stats
from dre.datasets import ratings
from dre.datasets.registry import PROJECT
from dre.errors import DreError
from dre.files import replace
from dre.judges import released as others
from dre.paper.profile import profile
from dre.slm import trained

SMALL = "qwen2.5-coder-0.5b"
SETS = list(ratings.RATED)[:3]
READINGS = {"reply": "", "log-probabilities": "_logprobs"}
PUBLIC = profile("public")


def said(judge, table, prompt):
    """Return the scores of a recorded condition, or None if it is none."""
    try:
        return judge.score(table, prompt)["score_llm"]
    except DreError:
        return None


def effects(name, ending):
    """Return by effect what `stats.interval` takes, of one set and one reading of the small judge."""
    table, judge = ratings.rated(name), judges.open(f"recorded:{SMALL}")
    people, how = (
        (table["human"], table["context_id"]),
        {"n": PUBLIC.resamples, "seed": SETS.index(name)},
    )
    plain = said(judge, table, f"llm_only{ending}")
    shared = others.scores(name)[others.CLAUDE]
    found = {
        "the judge alone": stats.draws(plain, *people, **how),
        "distinct scores": plain.nunique(),
    }
    found["with the strong judge"] = stats.draws(plain, shared, people[1], **how)
    slm = trained(PUBLIC, "dailydialog", "both", 0).score(table)
    found["Ex-DRE with `both` less the judge"] = stats.gains(
        fusion.ex_dre(slm["s_d"], slm["s_p"], plain), plain, *people, **how
    )
    wrong = said(judge, table, f"dre_other{ending}")
    for shown, prompt in (("graded", "dre_graded"), ("as printed", "dre_as_printed")):
        if (told := said(judge, table, prompt + ending)) is None:
            continue
        s_c = fusion.s_c(*others.shown(prompt, table))
        found[f"In-DRE, {shown}, less the judge"] = stats.gains(told, plain, *people, **how)
        found[f"Ex-DRE, {shown}, less the judge"] = stats.gains(s_c * plain, plain, *people, **how)
        found[f"DRE, {shown}, less the judge"] = stats.gains(s_c * told, plain, *people, **how)
        found[f"DRE less Ex-DRE, {shown}"] = stats.gains(s_c * told, s_c * plain, *people, **how)
        found[f"pull, {shown}"] = pull(plain, told, s_c, table["context_id"])
        strong = judges.open(f"recorded:{others.CLAUDE}").score(table, prompt)["score_llm"]
        found[f"pull, {shown}, strong judge"] = pull(shared, strong, s_c, table["context_id"])
        if wrong is not None:
            found[f"In-DRE, {shown}, less another pair's numbers"] = stats.gains(
                told, wrong, *people, **how
            )
    again = judges.open(f"recorded:{SMALL}", repeat=1)
    if (
        name == "topicalchat-usr"
        and (second := said(again, table, f"llm_only{ending}")) is not None
    ):
        found["two askings, 0 and 0.7"] = stats.draws(second, plain, people[1], **how)
    return found


def pull(plain, told, s_c, contexts):
    """Return the pull of shown numbers, (1 + resamples, 1)."""
    w, m = stats.context_weights(contexts, PUBLIC.resamples), plain.to_numpy() / 5
    x = np.column_stack([np.ones(len(m)), m, s_c / 2])
    gram = np.einsum("rn,ni,nj->rij", w, x, x)
    moved = (w * (told.to_numpy() / 5 - m)) @ x
    return np.linalg.solve(gram, moved[..., None])[:, 2]


def main():
    """Write the table."""
    rows, drawn = [], {}
    for reading, ending in READINGS.items():
        for name in SETS:
            for effect, r in effects(name, ending).items():
                drawn.setdefault((effect, reading), {})[ratings.RATED[name]] = r
    reply, likely = (drawn["the judge alone", reading] for reading in READINGS)
    less = {name: likely[name] - r for name, r in reply.items()}
    drawn["the judge alone", "log-probabilities less reply"] = less
    for (effect, reading), by_set in drawn.items():
        if np.ndim(next(iter(by_set.values()))) and len(by_set) == len(SETS):
            by_set["mean"] = np.mean([*by_set.values()], axis=0)
        for name, r in by_set.items():
            ends = stats.interval(r, "value") if np.ndim(r) else {"value": r}
            rows.append({"effect": effect, "reading": reading, "set": name} | ends)
    table = pd.DataFrame(rows).drop(columns="value_sd", errors="ignore")
    text = table.to_csv(index=False, float_format="%.4f", lineterminator="\n")
    replace(PROJECT / "results" / "live_judge.csv", text)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
