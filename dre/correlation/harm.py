"""Does a fusion hurt? Each against the better of its two parts and against its judge: paired tests, and in words."""

import pandas as pd

from dre import stats
from dre.correlation.calibration import CALIBRATED, RANK
from dre.correlation.methods import STAGES
from dre.correlation.methods import table as score_table
from dre.report.cells import signed, with_interval
from dre.stats.bootstrap import interval
from dre.stats.multiple import holm, verdicts

FUSIONS = tuple(stage for stage in STAGES if stage != "LLM-only") + (RANK, CALIBRATED)
#: a judge counts as weak on a set where its own Spearman correlation with people is below this
WEAK = 0.5


def tests(found, resamples=1000, permutations=10_000, seed=0):
    """Compare each fusion with the better of its two parts, and with its judge; paired, by context.

    Better is the part whose Spearman correlation on this very set is higher, so chance favours the part.

    Parameters
    ----------
    found : list of (Domain, list of Row)

    Returns
    -------
    DataFrame
        ``domain, judge, method, slm, llm`` (Spearman of the parts), ``better_part``, then ``difference`` from it (with
        its 95 % interval), the permutation test's ``p``, ``p_holm`` and ``answer``; the same with ``_llm`` appended
        against the judge alone. Holm's correction is over all sets and judges of a method.
    """
    table = pd.concat([_tests_of(*each, resamples, permutations, seed) for each in found], ignore_index=True)
    for suffix in ("", "_llm"):
        corrected = table[f"p{suffix}"].groupby(table["method"]).transform(holm)
        table.insert(list(table).index(f"p{suffix}") + 1, f"p_holm{suffix}", corrected)
        table[f"answer{suffix}"] = verdicts(table[f"difference{suffix}"], corrected)
    return _without_noise(table)


def _tests_of(domain, found, resamples, permutations, seed):
    scores, human, contexts = score_table(found), domain.human, domain.contexts
    methods = {(row.judge, row.family): row.method for row in found}
    judges = dict.fromkeys(row.judge for row in found if row.judge)
    parts = [(methods[judge, "LLM-only"], "SLM") for judge in judges]
    alone = stats.compare(scores, human, contexts, parts, permutations=1, resamples=1).set_axis(judges)
    lines, asked = [], []
    for (judge, family), method in methods.items():
        if family in FUSIONS:
            llm, slm = alone.loc[judge, "r_a"], alone.loc[judge, "r_b"]
            better = "judge" if llm >= slm else "SLM"
            lines.append({"domain": domain.label, "judge": judge, "method": family, "slm": slm, "llm": llm})
            lines[-1]["better_part"] = better
            judged = methods[judge, "LLM-only"]
            asked.append(((method, judged if better == "judge" else "SLM"), (method, judged)))
    pairs = list(dict.fromkeys(pair for both in asked for pair in both))
    done = stats.compare(
        scores, human, contexts, pairs, permutations=permutations, resamples=resamples, seed=seed
    ).set_index(["a", "b"])
    for line, both in zip(lines, asked):
        for suffix, pair in zip(("", "_llm"), both):
            one = done.loc[pair]
            line |= {
                f"difference{suffix}{end}": one[name]
                for end, name in (("", "difference"), ("_low", "low"), ("_high", "high"))
            }
            line |= {f"p{suffix}": one["p_permutation"]}
    return pd.DataFrame(lines)


def pooled(found, table, resamples=1000, seed=0):
    """Return each fusion's mean gain over all weak judges of a set: one question a set, not one a judge.

    Parameters
    ----------
    found : list of (Domain, list of Row)
    table : DataFrame
        Of `tests`, which says which judges are weak and which part is better.

    Returns
    -------
    DataFrame
        ``domain, method, judges`` (how many), ``gain`` over the better part and ``gain_llm`` over the judge, means over
        judges and training seeds, with 95 % intervals: in every resample the contexts are the same for all judges.
    """
    lines = []
    for domain, rows in found:
        part = table[(table["domain"] == domain.label) & (table["llm"] < WEAK)]
        if part.empty:
            continue
        drawn = stats.correlation_draws(
            score_table(rows), domain.human, domain.contexts, resamples=resamples, seed=seed
        )
        drawn = drawn.T.groupby(level=0).mean().T
        names = {(row.judge, row.family): row.method for row in rows}
        for method, tested in part.groupby("method", sort=False):
            fused = drawn[[names[judge, method] for judge in tested["judge"]]].to_numpy()
            alone = [names[judge, "LLM-only"] for judge in tested["judge"]]
            better = [one if part == "judge" else "SLM" for one, part in zip(alone, tested["better_part"])]
            line = {"domain": domain.label, "method": method, "judges": len(tested)}
            for name, column, parts in (("gain", "difference", better), ("gain_llm", "difference_llm", alone)):
                low, high = interval((fused - drawn[parts].to_numpy()).mean(axis=1, keepdims=True))
                line |= {name: tested[column].mean(), f"{name}_low": low[0], f"{name}_high": high[0]}
            lines.append(line)
    columns = ["domain", "method", "judges"] + [f"{n}{e}" for n in ("gain", "gain_llm") for e in ("", "_low", "_high")]
    return _without_noise(pd.DataFrame(lines, columns=columns))


def _without_noise(table):
    """A fusion of weight 0 is its judge: the last bits of two equal correlations are no difference."""
    numbers = table.select_dtypes("float").columns
    return table.assign(**(table[numbers].round(10) + 0.0))


def words(table, weak_gains, against="people"):
    """Return the answer in Markdown, from the numbers of `tests` and `pooled` alone."""
    weak = table["llm"] < WEAK
    lines = []
    for method, part in table.groupby("method", sort=False):
        below, above = (part["difference_high"] < 0).sum(), (part["difference_low"] > 0).sum()
        helped, n_weak = part.loc[weak, "answer"].eq("better").sum(), int(weak[part.index].sum())
        than_judge = part.loc[weak, "answer_llm"].eq("better").sum()
        lines.append(
            f"- **{method}**, against the better of its two parts, in {len(part)} pairs of set and judge: "
            f"{_count(part['answer'])}; by the interval alone, without Holm's correction, better in {above} and worse "
            f"in {below}. Against its judge alone: {_count(part['answer_llm'])}. Weak judges (below {WEAK:g} alone): "
            f"better than both parts in {helped} of {n_weak}, better than the judge in {than_judge}. {_extreme(part)}"
        )
    own = weak_gains[weak_gains["method"] == CALIBRATED]
    return "\n".join([*lines, "", _verdict(table[table["method"] == CALIBRATED]), *_on_average(own, against)])


def _count(answers):
    n = answers.value_counts()
    return (
        f"better in {n.get('better', 0)}, worse in {n.get('worse', 0)}, no difference shown in {n.get('not shown', 0)}"
    )


def _extreme(part):
    low, high = part.loc[part["difference"].idxmin()], part.loc[part["difference"].idxmax()]
    return f"From {_one(low)} to {_one(high)}."


def _one(row):
    return f"{with_interval(row, 'difference', 3, signed)} ({row['judge']}, {row['domain']})"


def _verdict(part):
    worse, weak = part[part["answer"] == "worse"], part[part["llm"] < WEAK]
    lost = part[(part["difference_high"] < 0) | (part["answer"] == "worse")]
    helped = weak[weak["answer"] == "better"]
    first = "broken" if len(worse) else "kept with Holm's correction only" if len(lost) else "kept"
    text = (
        "Two things were asked of the calibrated fusion. **Never significantly worse than the better of its parts:** "
        f"{first}"
    )
    if len(lost):
        text += "; it loses with " + "; ".join(map(_one, lost.to_dict("records")))
    text += ". "
    if weak.empty:
        return text + f"**Significantly better with weak judges:** none here is weak (below {WEAK:g} alone)."
    above = (weak["difference_low"] > 0).sum()
    return text + (
        f"**Significantly better with weak judges:** than both parts in {len(helped)} of {len(weak)} pairs of set and "
        f"judge (by the interval alone in {above})."
    )


def _on_average(part, against):
    """Sentences on all weak judges of a set together."""
    if part.empty:
        return []
    told = "; ".join(
        f"{row['domain']} {with_interval(row, 'gain', 3, signed)} ({row['judges']} judges)"
        for row in part.to_dict("records")
    )
    shown = (part["gain_low"] > 0).sum()
    return [
        "",
        f"All weak judges of a set together, correlation with {against}, mean gain over the better part: {told}. "
        f"The interval lies above 0 on {shown} of {len(part)} sets.",
    ]
