"""Does a fusion hurt? Every recorded judge on every rated set, with weights learned on the other sets (notebook 08)."""

from dataclasses import replace

import pandas as pd

from dre.calibrated import Calibrated, rank_average
from dre.correlation import domains, table4
from dre.correlation.methods import Row, judge_rows
from dre.correlation.opinions import opinions

RANK, CALIBRATED = "Rank average", "Calibrated"
#: names of the rated sets that Table 4 does not have
LABELS = {"fed-turn": "FED turns"}
HOW = {
    RANK: "mean of the ranks of SLM and judge among the pairs of the set",
    CALIBRATED: "(1 - w) z_LLM + w z_SLM; w and the scales were learned without the ratings of this set",
}


def sets(profile):
    """Return all rated sets of a profile as domains, those of Table 4 first; without any, two halves of labelled pairs.

    The halves, of contexts, stand in for two sets where a profile compares with no ratings: with the label for a
    rating, one half can be learned from and the other scored.
    """
    found = domains.rated(profile)
    known = {domain.set for domain in found}
    others = (domains.read(name) for name in profile.rated if name not in known)
    found += [replace(domain, label=LABELS.get(domain.set, domain.label)) for domain in others]
    return found or halves(domains.labelled(profile))


def halves(domain):
    """Return a domain's even and odd contexts as two domains."""
    number = pd.factorize(domain.items["context_id"])[0]
    return [
        replace(
            domain, label=f"{domain.label}, half {i + 1}", items=domain.items[number % 2 == i].reset_index(drop=True)
        )
        for i in (0, 1)
    ]


def slms(profile):
    """Return the one SLM that scores every set here, by training seed: last recipe, first training set."""
    from dre.slm import runs

    recipe = profile.recipes[-1]
    return {seed: runs.train_or_load(profile, profile.sets[0], recipe, seed) for seed in profile.seeds}


def judged(profile, measured_on):
    """Return each domain with the judges that scored it alone: a list of (Domain, list of Opinion)."""
    said = [(domain, opinions(profile, domain)) for domain in measured_on]
    return [(domain, [each for each in part if each.scores is not None]) for domain, part in said]


def evidence(domain, opinion, scored):
    """Return what a fusion is fitted on: ``pair_id, context_id, human, score_llm, status, score_slm``."""
    table = domain.items[["pair_id", "context_id", "human"]]
    table = table.merge(opinion.scores[["pair_id", "score_llm", "status"]], on="pair_id", how="left")
    return table.merge(scored[["pair_id", "score_slm"]], on="pair_id", how="left")


def learned_from(found, judge, label):
    """Return what a judge's weight for a set is learned from, never that set: the judge's other sets.

    A judge with no other set gets its weight from all other judges, on the other sets.

    Parameters
    ----------
    found : list of (Domain, list of Opinion)
        Of `judged`.

    Returns
    -------
    (list of (Domain, Opinion), bool)
        And whether they are the judge's own.
    """
    others = [(domain, each) for domain, said in found if domain.label != label for each in said]
    own = [(domain, each) for domain, each in others if each.name == judge]
    return (own, True) if own else (others, False)


def fits(found, scored, resamples=1000, seed=0):
    """Fit a fusion for every set and judge, on the other sets.

    Parameters
    ----------
    found : list of (Domain, list of Opinion)
    scored : dict of str to dict of int to DataFrame
        Label of the domain -> training seed -> the SLM's table.

    Returns
    -------
    dict of (str, str) to (dict of int to Calibrated, str)
        (label of the domain, judge) -> training seed -> fusion, and what it was learned from in words. The scale of a
        judge that was rated on this set only is learned from its scores there, without ratings.
    """
    out = {}
    for domain, said in found:
        for opinion in said:
            parts, own = learned_from(found, opinion.name, domain.label)
            ok = opinion.scores["status"] == "ok"
            fitted = {
                number: Calibrated.fit(
                    [evidence(other, each, scored[other.label][number]) for other, each in parts],
                    None if own else opinion.scores.loc[ok, "score_llm"],
                    resamples=resamples,
                    seed=seed,
                )
                for number in scored[domain.label]
            }
            names = ", ".join(dict.fromkeys(other.label for other, _ in parts))
            judges = "this judge" if own else f"{len({each.name for _, each in parts})} other judges"
            out[domain.label, opinion.name] = fitted, f"{judges} on {names}"
    return out


def rows(domain, said, scored, fitted):
    """Return the rows of a domain: the SLM, then each judge alone, in the papers' fusions, and in the two added here.

    Parameters
    ----------
    said : list of Opinion
    scored : dict of int to DataFrame
        Training seed -> the SLM's table.
    fitted : dict
        Of `fits`.
    """
    found = [Row("SLM", "SLM", pd.DataFrame({n: t.set_index("pair_id")["score_slm"] for n, t in scored.items()}))]
    for opinion in said:
        tables = {number: evidence(domain, opinion, table) for number, table in scored.items()}
        by_seed, _ = fitted[domain.label, opinion.name]
        made = {
            RANK: {number: rank_average(table) for number, table in tables.items()},
            CALIBRATED: {number: by_seed[number].fuse(table) for number, table in tables.items()},
        }
        found += judge_rows(opinion, scored)
        for name, fused in made.items():
            scores = pd.DataFrame({number: table.set_index("pair_id")["score"] for number, table in fused.items()})
            found.append(Row(f"{name} ({opinion.name})", name, scores, (), HOW[name], opinion.name, opinion.prompt))
    return found


def measure(domain, found, fitted, resamples=1000, seed=0, slms=()):
    """Return Spearman and Pearson correlations of a domain's rows: one line a judge.

    Returns
    -------
    dict of str to DataFrame
        ``spearman`` and ``pearson`` -> ``domain, judge, n, weight`` (mean over training seeds, with ``weight_sd``),
        ``learned_from``, one column a method with its 95 % interval (``_low, _high``), ``signature`` of the
        calibrated row.
    """
    values = table4.measure(domain, found, resamples, seed, slms).set_index("method")
    slm = values.loc["SLM"]
    out = {}
    for statistic in table4.STATISTICS:
        lines = []
        for judge in dict.fromkeys(row.judge for row in found if row.judge):
            by_seed, words = fitted[domain.label, judge]
            weights = pd.Series([each.weight for each in by_seed.values()])
            own = {row.family: values.loc[row.method] for row in found if row.judge == judge}
            line = {"domain": domain.label, "judge": judge, "n": int(own[CALIBRATED]["n"]), "weight": weights.mean()}
            line |= {"weight_sd": weights.std(), "learned_from": words}
            for name, one in ({"SLM": slm} | own).items():
                line |= {f"{name}{end}": one[f"{statistic}{end}"] for end in ("", "_low", "_high")}
            lines.append(line | {"signature": own[CALIBRATED]["signature"]})
        out[statistic] = pd.DataFrame(lines)
    return out


def together(measured, statistic):
    """Return the tables of all domains (label -> `measure`) for one statistic, the signature last."""
    table = pd.concat([by_statistic[statistic] for by_statistic in measured.values()], ignore_index=True)
    return table[[name for name in table if name != "signature"] + ["signature"]]
