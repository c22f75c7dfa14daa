"""What the variants of the small model cost, and the one look at the sets with human ratings, after the choice.

The look says of each reading the Spearman correlation with people on the seven sets; how often it prefers the good
reply to those kinds of the audit that neither a training nor the rule has seen, and on the embedded corpus to all
kinds; and its accuracies on every third context of DailyDialog++ test at a threshold chosen on held-out contexts.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
import torch
from small_model_variants import BUILD, OUT, VARIANTS, said

from dre import classification, stats
from dre.audit import kinds
from dre.audit import measures as audit
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.paper.profile import profile
from dre.slm.encoder import load_encoder

PAIRS, TURNS = 450, 2  # timed at once, and how often, of which the fastest counts


def speed(names, given, rule, encoders):
    """Return processor seconds of one core for 1,000 pairs of each variant, all in one run, by ``way``.

    Beside them, by Sentence-Transformers' ``encode``, the distinct texts (contexts, responses) with MiniLM.
    """
    torch.set_num_threads(1)
    table, encoder = rule.tables["labelled"], load_encoder()
    ways = {"Sentence-Transformers, distinct texts": lambda some: encoder.encode(_texts(some))}
    for name in names:
        one = VARIANTS[name]
        ways[name] = one.make(given, name=name, seed=0, encoder=encoders[one.encoder], kept=False)
    took = {}
    for turn in range(-1, TURNS):  # in the first one is loaded what is loaded lazily
        some = table.iloc[turn * PAIRS :][:PAIRS] if turn >= 0 else table.iloc[-8:]
        for name, way in ways.items():
            start = time.process_time()
            way(some)
            if turn >= 0:
                took[name] = min(
                    took.get(name, np.inf), (time.process_time() - start) * 1000 / len(some)
                )
    found = pd.DataFrame({"seconds_1000": took}).rename_axis("way")
    found["pairs_per_processor_second"] = 1000 / found["seconds_1000"]
    base = next(name for name in ("default", "both") if name in found.index)
    return found.assign(
        **{f"times_{base}": found["seconds_1000"] / found.loc[base, "seconds_1000"]}
    )


def _texts(table):
    return list(dict.fromkeys([*table["context"].map(" [SEP] ".join), *table["response"]]))


def look(results, given, rule, encoders, both):
    """Return one row for each reading and measure: ``value, low, high`` (mean over seeds; 95 %), ``n``, ``seeds``.

    ``both`` adds the mean of the best two readings to those of the ``results``.
    """
    settings = profile("public")
    tables = {name: ratings.rated(name) for name in settings.rated}
    cases, tables["audit"] = kinds.tables(rule.reported + kinds.corpus())
    tables["test"] = pairs(load("dailydialog++", "test")[::3], "par").drop_duplicates("pair_id")
    found = {}
    for name, seed in results:
        one = VARIANTS[name]
        make = partial(one.make, given, name=name, seed=seed, encoder=encoders[one.encoder])
        of = said(BUILD / "look" / f"{name}-seed{seed}.npz", tables, make)
        known = said(OUT / f"{name}-seed{seed}.npz", rule.tables)
        of["held out"] = known["labelled"]
        for reading, scores in one.scores(of, known["learned"]).items():
            found.setdefault(reading, {})[seed] = scores
    rows = []
    for reading, seeds in (found | both(found, results)).items():
        of = {name: np.column_stack([one[name] for one in seeds.values()]) for name in tables}
        kind = rule.tables["labelled"]["kind"]
        thresholds = [
            classification.choose_threshold(one["held out"], kind, "ar") for one in seeds.values()
        ]
        measures = [
            *people(of, tables, settings),
            *preferences(of["audit"], tables["audit"], cases),
        ]
        measures += accuracies(of["test"], tables["test"], thresholds)
        rows += [{"reading": reading, "seeds": len(seeds), **row} for row in measures]
    return pd.DataFrame(rows).set_index(["reading", "measure"])


def people(of, tables, settings):
    """Yield the correlations with people on each rated set."""
    for name in settings.rated:
        table, scores = tables[name], pd.DataFrame(of[name])
        row = stats.correlate(
            {"": scores}, table["human"], table["context_id"], n=settings.resamples
        ).iloc[0]
        yield {
            "measure": name,
            "value": row["r"],
            "low": row["low"],
            "high": row["high"],
            "n": int(row["n"]),
        }


def preferences(scores, table, cases):
    """Yield by source and kind how often the good reply is preferred, in percent."""
    place = pd.Series(range(len(table)), table["pair_id"])
    right, rival = (scores[cases[side].map(place)] for side in ("right", "rival"))
    won = audit.falls(right, rival, scores.std(axis=0))
    for (source, kind), rows in (
        cases.reset_index(drop=True).groupby(["source", "kind"]).groups.items()
    ):
        found = stats.mean(won[rows], cases["context_id"].to_numpy()[rows])
        ends = {
            end: 100 * found[name]
            for end, name in (("value", "mean"), ("low", "low"), ("high", "high"))
        }
        yield {"measure": f"{kind} ({source})", **ends, "n": len(rows)}


def accuracies(scores, table, thresholds):
    """Yield the accuracies of Table 3."""
    decisions = np.column_stack(
        [classification.correct(table, *one) for one in zip(scores.T, thresholds)]
    )
    found = classification.accuracy(table, decisions)
    for name in classification.COLUMNS:
        ends = {"value": found[name], "low": found[f"{name}_low"], "high": found[f"{name}_high"]}
        yield {"measure": f"DailyDialog++ {name}", **ends, "n": found["n"]}
