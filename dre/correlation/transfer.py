"""Table 5: an SLM trained on DailyDialog++ only, on the other two domains, against SLMs that have seen them."""

from functools import partial

import pandas as pd

from dre import stats
from dre.correlation import table4
from dre.correlation.domains import RATED, Domain
from dre.correlation.methods import INTERIOR, SLM_ROWS, judge_rows, slm_rows
from dre.report.cells import number, signed, with_interval
from dre.stats.multiple import holm, verdicts

#: what the SLM was trained on: column -> words
TRAINED_ON = {
    "unseen": "DailyDialog++ only",
    "joint": "DailyDialog++ and the augmented sets",
    "own": "the domain's own set only",
}
NO_DRE = "needs prompts that show the numbers of an SLM trained on DailyDialog++ only; none are recorded"
ENDS = ("", "_sd", "_low", "_high")
SHORT = {"unseen": "unseen", "joint": "seen (joint)", "own": "seen (own)"}


def slms(profile, domain):
    """Return the SLMs of Table 5 for a domain: a key of `TRAINED_ON` -> training seed -> SLM, first recipe.

    They are trained unless they are there; jointly with the profile's first seed only, since that takes longest. Where
    a profile has one set only there is nothing to transfer to, and the result is empty.
    """
    from dre.slm import runs

    first, *others = profile.sets
    own = next((entry for entry in others if entry.key == domain.key), None)
    if own is None:
        return {}
    asked = {
        "unseen": (partial(runs.train_or_load, profile, first), profile.seeds),
        "joint": (partial(runs.train_or_load_jointly, profile, profile.sets), [profile.seed]),
        "own": (partial(runs.train_or_load, profile, own), profile.seeds),
    }
    return {key: {seed: load(profile.recipes[0], seed) for seed in seeds} for key, (load, seeds) in asked.items()}


def rows(scored, opinions):
    """Return the rows of Table 5 under each SLM.

    Parameters
    ----------
    scored : dict of str to dict of int to DataFrame
        Key of `TRAINED_ON` -> training seed -> the SLM's table.
    opinions : list of Opinion

    Returns
    -------
    dict of str to list of Row
        The rows of one SLM; LLM-only rows, which no SLM touches, are the same in all. There is no In-DRE and no DRE:
        each would need prompts that show this very SLM's numbers, and those of Table 4 show the domain's own.
    """
    found = {}
    for key, table in scored.items():
        found[key] = slm_rows(table, TRAINED_ON[key])
        for opinion in opinions:
            found[key] += [row for row in judge_rows(opinion, table) if row.family not in INTERIOR]
    return found


def assemble(domain, found, resamples=1000, seed=0, slms=None):
    """Return Table 5 of a domain: published rows, then ours under each SLM.

    Parameters
    ----------
    domain : Domain
    found : dict
        Of `rows`.
    slms : dict of str to dict of int to SLM
        Of `slms`, for the signatures.

    Returns
    -------
    DataFrame
        ``domain, method, published_unseen`` (Table 5), ``published_seen`` (Table 4) and, for each SLM, the value
        with its 95 % interval and its standard deviation over seeds, for Spearman; the same with ``_pearson`` appended
        to the names for Pearson.
    """
    made = {key: list(by_seed.values()) for key, by_seed in (slms or {}).items()}
    measured = {
        key: table4.measure(domain, part, resamples, seed, made.get(key, ())).set_index("method")
        for key, part in found.items()
    }
    names = list(measured["unseen"].index)
    filled = {name: row.method for row in found["unseen"] for name in row.published if name not in SLM_ROWS.values()}
    printed = list(table4.published_rows("dre_table5")["method"])
    out = [_line(domain, method, measured, filled.get(method)) for method in printed]
    shown = {filled.get(method) for method in printed}
    as_printed = {row.method: row.published[-1] for row in found["unseen"] if row.published}
    out += [_line(domain, name, measured, name, as_printed.get(name)) for name in names if name not in shown]
    return pd.DataFrame(out).astype({"n": "Int64"})


def published_only(reason):
    """Return the published rows of Table 5 with the reason why none of them is measured, for both domains."""
    away = [Domain(key, label, name, pd.DataFrame()) for key, (label, name) in RATED.items() if key != "dailydialog"]
    methods = table4.published_rows("dre_table5")["method"]
    out = [_line(domain, method, {}, None) | {"reason": reason} for domain in away for method in methods]
    return pd.DataFrame(out).astype({"n": "Int64"})


def panel(table):
    """Return what the figure draws: the methods of one domain that the SLM has a part in."""
    measured = table[table["unseen"].notna()]
    return measured[~measured["method"].str.startswith(("LLM-only", "LLMs-only", "Non-DRE"))].reset_index(drop=True)


def _line(domain, method, measured, ours, as_printed=None):
    """One row; ``as_printed`` is its name in the published tables where that is another."""
    line = {"domain": domain.label, "method": method}
    for statistic, suffix in (("spearman", ""), ("pearson", "_pearson")):
        for column, source in (("published_unseen", "dre_table5"), ("published_seen", "dre_table4")):
            printed = table4.published_rows(source).set_index("method")
            name = as_printed or method
            known = name in printed.index
            line[column + suffix] = printed.loc[name, f"{domain.key}_{statistic}"] if known else float("nan")
        for key in TRAINED_ON:
            for end in ENDS:
                value = measured[key].loc[ours, f"{statistic}{end}"] if ours else float("nan")
                line[f"{key}{suffix}{end}"] = value
    line["n"] = measured["unseen"].loc[ours, "n"] if ours else pd.NA
    line["reason"] = "" if ours else NO_DRE if method.startswith(INTERIOR) else table4.why_not(method)
    line["signature"] = _signature(measured, ours) if ours else ""
    return line


def _signature(measured, ours):
    """The signature of a row; where it differs by SLM, one for each."""
    found = {SHORT[key]: table.loc[ours, "signature"] for key, table in measured.items()}
    same = len(set(found.values())) == 1
    return next(iter(found.values())) if same else "; ".join(f"{name} = {text}" for name, text in found.items())


def statistic(table, name):
    """Return the columns of `assemble` for one statistic, ``spearman`` or ``pearson``, under plain names."""
    suffix = "" if name == "spearman" else "_pearson"
    values = ["published_unseen", "published_seen", *TRAINED_ON]
    columns = {f"{value}{suffix}{end}": f"{value}{end}" for value in values for end in ENDS}
    kept = {old: new for old, new in columns.items() if old in table}
    return table[["domain", "method", *kept, "n", "reason", "signature"]].rename(columns=kept)


def gains(domain, found, against="unseen", resamples=1000, permutations=10_000, seed=0):
    """Compare each row under an SLM that has seen the domain with the same row under one that has not.

    Returns
    -------
    DataFrame
        ``domain, method, trained_on, spearman_unseen, spearman_seen, difference`` (with interval), ``p, n``.
    """
    columns, pairs = {}, []
    for key, part in found.items():
        columns |= {(row.method, key): row.score for row in part if row.family != "LLM-only"}
    scores = pd.concat({f"{method} | {key}": pd.DataFrame(score) for (method, key), score in columns.items()}, axis=1)
    pairs = [(method, key) for method, key in columns if key != against]
    table = stats.compare(
        scores,
        domain.human,
        domain.contexts,
        [(f"{method} | {key}", f"{method} | {against}") for method, key in pairs],
        permutations=permutations,
        resamples=resamples,
        seed=seed,
    )
    return pd.DataFrame(
        {
            "domain": domain.label,
            "method": [method for method, _ in pairs],
            "trained_on": [TRAINED_ON[key] for _, key in pairs],
            "spearman_unseen": table["r_b"],
            "spearman_seen": table["r_a"],
            "difference": table["difference"],
            "difference_low": table["low"],
            "difference_high": table["high"],
            "p": table["p_permutation"],
            "n": table["n"],
        }
    )


def with_holm(tables):
    """Return the comparisons of all domains with Holm's p and the answer in a word.

    There are two families: the SLM's own rows, which the question is about, and the fusions, which follow from them.
    """
    table = pd.concat(tables, ignore_index=True)
    corrected = table["p"].groupby(table["method"].str.startswith("SLM")).transform(holm)
    table.insert(list(table).index("p") + 1, "p_holm", corrected)
    return table.assign(answer=verdicts(table["difference"], table["p_holm"], "seen is better", "seen is worse"))


def words(table):
    """Return what Table 5 shows in Markdown, from the numbers of `with_holm` alone."""
    lines = []
    for (domain, trained_on), part in table.groupby(["domain", "trained_on"], sort=False):
        both = part[part["method"] == "SLM (Prob & Dis)"].iloc[0]
        answers = part["answer"].value_counts()
        lines.append(
            f"- **{domain}, SLM trained on {trained_on}:** the SLM alone goes from "
            f"{number(both['spearman_unseen'], 3)} unseen to {number(both['spearman_seen'], 3)} "
            f"({with_interval(both, 'difference', 3, signed)}, {both['answer']}). Of {len(part)} rows, seen is "
            f"better in {answers.get('seen is better', 0)} and worse in {answers.get('seen is worse', 0)}; "
            f"median difference {signed(part['difference'].median(), 3)}."
        )
    printed = published_change()
    lines.append(
        f"- **Published:** from Table 5 (unseen) to Table 4 (seen) the rows with an SLM in them change by "
        f"{signed(printed['Spearman'].median(), 3)} in median Spearman, between "
        f"{signed(printed['Spearman'].min(), 3)} and {signed(printed['Spearman'].max(), 3)}."
    )
    return "\n".join(lines)


def published_change():
    """Return Table 4 minus Table 5 for the published rows with an SLM in them: ``method, domain, Spearman``."""
    seen = table4.published_rows().set_index("method")
    out = []
    for row in table4.published_rows("dre_table5").to_dict("records"):
        for key in ("personachat", "topicalchat"):
            if not row["method"].startswith("Non-DRE"):
                change = seen.loc[row["method"], f"{key}_spearman"] - row[f"{key}_spearman"]
                out.append({"method": row["method"], "domain": key, "Spearman": change})
    return pd.DataFrame(out)
