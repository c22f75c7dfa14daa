"""Choose what recipe ``graded`` counts, on graded pairs and FED's turns: likeness, fit, quality, or means of them.

Each part scores a response in its dialogue (`dre.slm.graded`); a mean takes parts standardised on training pairs, so
that no weight is chosen. Measured on graded contexts of conversations held out from all training, on held-out labelled
contexts, and on the turns of FED; no other rated set is loaded except to keep it out of training.

First rule, fixed before the encoder was adapted: among the readings that are shown worse than the untrained encoder's
likeness on FED with no seed (paired bootstrap over contexts, 95 %), the highest mean of ``graded`` and ``fed``
(Spearman correlations with the recorded judge and with people) over seeds; where it leads by less than 0.01, the
cheaper one. It took "adapted + quality". Looked at on all rated sets, that was 0.01 worse on average than recipe
``context``, which it was to replace, and shown worse on three of seven. Most held-out grades are of replies written to
be graded (bland, off, contradictory, garbled), such as no system gives, and they punish likeness. ``context`` has a
third part, whether a response fits, so ``graded`` got one.

Second rule, fixed before the rated sets were looked at again, and applied to seed 0: the highest mean of ``fed`` and
``graded_people`` (grades of replies that people wrote: reference, retrieved, random); where it leads by less than 0.01,
the larger area under the curve against adversarial responses. It took "likeness + fit + quality". So what the other six
sets say of the choice is not untouched: they had been seen once, by the first.

Run ``python experiments/choose_slm.py``: the models of profile ``public``, trained where they are not in build/. It
appends one row for each reading and seed to results/choices/slm.csv and leaves out what is there already. The rows of
other variants there, heads on the encoder as it was, are of the first round and lost it.
"""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

from dre import stats
from dre.datasets import ratings
from dre.datasets.dialogues import pairs
from dre.paper.profile import profile
from dre.slm import SLM, contexts, load_or_train
from dre.slm.heads import GAP
from dre.slm.provenance import pairs_without_overlap

OUT = Path(__file__).resolve().parents[1] / "results" / "choices" / "slm.csv"
PEOPLE = ("reference", "retrieved", "random")  # kinds of graded replies that people wrote
#: what is told apart; means count alike what they are made of
READINGS = {
    "adapted + quality": ("adapted", "quality"),
    "likeness + quality": ("likeness", "quality"),
    "fit + quality": ("fit", "quality"),
    "adapted + fit + quality": ("adapted", "fit", "quality"),
    "as it was + fit + quality": ("as it was", "fit", "quality"),
    "likeness + fit + quality": ("likeness", "fit", "quality"),
}


def data():
    """Return tables by name: ``graded`` for training, ``for_choice`` (with ``kind``), ``fed``, ``labelled`` held out.

    What shares a conversation with a rated set or a held-out context is not trained on. ``score`` of FED is the mean
    human rating.
    """
    table, rated, public = ratings.graded(), ratings.rated_tables(), profile("public")
    train, dev, _ = contexts(
        public.sets[0], public.rated, version=public.models["graded-2026-11"].data
    )
    table = pairs_without_overlap(table, rated)
    for_choice = pairs_without_overlap(table[table["for_choice"]], train)
    more = pairs_without_overlap(ratings.training_scores(), [*rated, for_choice])
    found = {"graded": pd.concat([table[~table["for_choice"]], more]), "for_choice": for_choice}
    found |= {
        "fed": ratings.rated("fed-turn").rename(columns={"human": "score"}),
        "labelled": pairs(dev, kinds="par"),
    }
    return {name: one.assign(pair_id=range(len(one))) for name, one in found.items()}


def ordered(found, table):
    """Return the share of pairs of a context, at least `GAP` apart in grade, that are in the right order; ties half."""
    found, score = torch.tensor(found), torch.tensor(table["score"].to_numpy(), dtype=torch.float32)
    context = torch.from_numpy(pd.factorize(table["context_id"])[0])
    different = (context[:, None] == context) & (score[:, None] - score >= GAP)
    return ((1 + torch.sign(found[:, None] - found)[different]) / 2).mean().item()


def readings(slm, plain, given):
    """Return name -> table -> scores (n,) of parts and their means; the graded pairs for training standardise."""
    parts = {
        "as it was": {name: 1 - plain.distances(whole)["distance"] for name, whole in given.items()}
    }
    last = {
        name: whole.assign(context=whole["context"].map(lambda turns: turns[-1:]))
        for name, whole in given.items()
    }
    for name, table in last.items():
        parts["as it was"][name] = (
            parts["as it was"][name] + 1 - plain.distances(table)["distance"]
        ) / 2
    of = {name: slm.parts(table) for name, table in given.items()}
    parts |= {
        part: {name: one[part] for name, one in of.items()}
        for part in ("fit", "quality", "likeness")
    }
    parts["adapted"] = {
        name: 2 * parts["likeness"][name] - parts["as it was"][name] for name in given
    }
    for reading, some in READINGS.items():
        units = {part: (parts[part]["graded"].mean(), parts[part]["graded"].std()) for part in some}
        parts[reading] = {
            name: sum((parts[part][name] - mean) / sd for part, (mean, sd) in units.items())
            for name in given
        }
    return {
        reading: {name: one.to_numpy() for name, one in tables.items()}
        for reading, tables in parts.items()
    }


def measured(given, parts):
    """Yield one row for each reading: correlations, and on FED the difference to the untrained encoder's likeness."""
    chosen_by, fed, labelled = (given[name] for name in ("for_choice", "fed", "labelled"))
    own, kind = chosen_by["kind"].isin(PEOPLE).to_numpy(), labelled["kind"].to_numpy()
    for reading, of in parts.items():
        both = (pd.Series(one["fed"]) for one in (of, parts["as it was"]))
        gain = stats.compare(*both, fed["score"], fed["context_id"], permutations=1)
        yield {
            "reading": reading,
            "graded": spearman(of["for_choice"], chosen_by["score"]),
            "graded_people": spearman(of["for_choice"][own], chosen_by["score"][own]),
            "graded_pairs": ordered(of["for_choice"], chosen_by),
            **{
                f"auc_{name}": roc_auc_score(
                    kind[kind != other] == "p", of["labelled"][kind != other]
                )
                for name, other in (("adversarial", "r"), ("random", "a"))
            },
            "fed": spearman(of["fed"], fed["score"]),
            "fed_less_untrained": gain["difference"],
            "fed_less_low": gain["low"],
            "fed_less_high": gain["high"],
            "with_length": spearman(of["for_choice"], chosen_by["response"].str.len()),
        }


def spearman(found, score):
    """Return the rank correlation of two columns."""
    return pd.Series(np.asarray(found)).corr(pd.Series(np.asarray(score)), method="spearman")


def main():
    """Measure what is not in the file yet, and append it."""
    public, given, done = profile("public"), data(), pd.read_csv(OUT)
    known, plain = (
        set(zip(done["variant"], done["settings"], done["seed"])),
        SLM.untrained(public.encoder),
    )
    for seed in public.seeds:
        began, slm = (
            time.process_time(),
            load_or_train(public, public.sets[0].key, "graded-2026-11", seed),
        )
        about = {
            "variant": "graded",
            "settings": json.dumps(slm.recipe.as_dict(), sort_keys=True),
            "seed": seed,
        }
        if tuple(about.values()) in known:
            continue
        table = pd.DataFrame([about | row for row in measured(given, readings(slm, plain, given))])
        table["cpu_seconds"] = time.process_time() - began
        table.to_csv(
            OUT, mode="a", header=False, index=False, float_format="%.4f", lineterminator="\n"
        )
        print(table.drop(columns="settings").to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
