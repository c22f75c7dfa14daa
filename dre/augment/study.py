"""What notebook 01 compares: a profile's augmented sets, what each is held apart from, what checks said of them."""

import pandas as pd

from dre import augment, classification
from dre.augment import giveaways, lexical
from dre.data import contexts, load, pairs, rated, recorded
from dre.data.augmented import CONTEXTS as POOLS
from dre.data.sets import splits

EMBEDDED = "Embedded corpus"
#: DRE section 4.1: accuracy, in percent, of an SLM trained on DailyDialog++, and the approximate bill in dollars
PUBLISHED_ACCURACY = {"PersonaChat": 83.0, "TopicalChat": 85.0}
PUBLISHED_DOLLARS = 1000


def written(profile):
    """Return label -> contexts whose positives and adversarials were written: by people, or by a language model.

    Of a set that has no augmented responses of its own (DailyDialog++) the test split, of the others all.
    """
    found = {EMBEDDED: _whole("mini")}
    for entry in profile.sets:
        name, split = entry.test
        if name in POOLS:
            found[entry.label] = _whole(name)
        elif name != "mini":
            found[f"{entry.label} {split}"] = load(name, split)
    return found


def pools(profile):
    """Return label -> contexts that get lexical negatives: the public pools, or the embedded corpus's test split."""
    names = [entry.test[0] for entry in profile.sets]
    found = {}
    if "dailydialog++" in names:
        found["DailyDialog++ positives"] = load("dailydialog++-positives", "train")
    labels = {"convai2-valid": "ConvAI2", "topicalchat-valid_freq": "Topical-Chat"}
    found |= {labels[pool]: contexts(pool) for name, pool in POOLS.items() if name in names}
    return found or {f"{EMBEDDED} test": load("mini", "test")}


def held_out(profile, found):
    """Return label -> records that a set must share no utterance with: rated sets, and test splits of other sets.

    Parameters
    ----------
    found : dict of str to sequence of Context
    """
    apart = [record for name in profile.rated for record in rated(name)]
    tests = {entry.test: load(*entry.test) for entry in profile.sets}
    result = {}
    for label, own in found.items():
        others = [c for (name, _), test in tests.items() if name != own[0].set for c in test]
        if apart or others:
            result[label] = apart + others
    return result


def negatives(profile, **options):
    """Return label -> contexts with lexical negatives, and a table of what was retrieved for each of the `pools`.

    Returns
    -------
    found : dict of str to list of Context
    table : DataFrame
        ``set, contexts, responses`` (in the pool), ``retrieved, full`` (contexts with all they should have),
        ``shared_words`` (mean a negative), ``different`` (responses used at least once), ``most_used`` (times).
    """
    found, rows = {}, []
    for label, pool in pools(profile).items():
        found[f"{label}, lexical"], retrieved = lexical.negatives(pool, seed=profile.seed, **options)
        used = retrieved["source_id"].value_counts()
        counts = retrieved["context_id"].value_counts()
        rows.append(
            {
                "set": label,
                "contexts": len(pool),
                "responses": sum(len(context.positives) for context in pool),
                "retrieved": len(retrieved),
                "full": int((counts == counts.max()).sum()),
                "shared_words": retrieved["n_shared"].mean(),
                "different": len(used),
                "most_used": int(used.max()),
            }
        )
    return found, pd.DataFrame(rows)


def checks(profile):
    """Return what LLM-Check said of the recorded responses: one row a response.

    Returns
    -------
    DataFrame
        ``set, context_id, pair_id, kind`` (``p`` or ``a``), ``label, right``.
    """
    labels = recorded.judgements()
    labels = labels[labels["prompt"] == "classify"].set_index("pair_id")["label"]
    table = pairs(_whole("mini")).assign(set=EMBEDDED)
    table["label"] = table["pair_id"].map(labels)
    parts = [table[["set", "context_id", "pair_id", "kind", "label"]]]
    for entry in profile.sets:
        if entry.test[0] in POOLS:
            told = augment.recorded().responses
            told = told[told["id"].str.startswith(POOLS[entry.test[0]] + "/")]
            told = told.assign(set=entry.label, context_id=told["id"], kind=told["kind"].str[0])
            parts.append(told[parts[0].columns])
    table = pd.concat(parts, ignore_index=True)
    return table.assign(right=(table["label"] == "Positive") == (table["kind"] == "p"))


def accepted(table):
    """Return one row a set: contexts, those with all labels right (accepted), and responses with the wrong one."""
    whole = table.groupby(["set", "context_id"], sort=False)["right"].all()
    found = whole.groupby("set", sort=False).agg(contexts="size", accepted="sum").reset_index()
    found["another_round"] = found["contexts"] - found["accepted"]
    found["responses"] = found["set"].map(table["set"].value_counts())
    found["wrong_label"] = found["set"].map((~table["right"]).groupby(table["set"]).sum())
    return found


def sanity(found, slm, threshold, seen, resamples, seed=0):
    """Return the published accuracies of the sanity check and ours.

    Returns
    -------
    DataFrame
        ``set, source``, then ``positive, adversarial, overall`` in percent with ``_low`` and ``_high`` as in Table 3,
        and ``n`` pairs. Published are overall accuracies only.
    """
    rows = [
        {"model": f"{name} (augmented)", "source": "published", "overall": value}
        for name, value in PUBLISHED_ACCURACY.items()
    ]
    for label, own in found.items():
        table = pairs(own)
        right = giveaways.slm_right(table, slm, threshold, seen)
        rows.append(classification.accuracy_row(label, "ours", table, right, resamples, seed))
    numbers = [f"{name}{part}" for name in ("positive", "adversarial", "overall") for part in ("", "_low", "_high")]
    table = pd.DataFrame(rows).astype({"n": "Int64"})
    return table[["model", "source", *numbers, "n"]].rename(columns={"model": "set"})


def costs(table, in_table_2):
    """Return what Algorithm 1 costs today beside the paper's bill.

    Parameters
    ----------
    table : DataFrame
        Of `dre.augment.cost.table` for 1,000 contexts.
    in_table_2 : int
        Contexts of the two augmented sets in the paper's Table 2.
    """
    found = table[["model", "calls", "input_tokens", "output_tokens", "usd", "most_usd", "thinks"]].copy()
    found[["calls", "input_tokens", "output_tokens"]] = (
        found[["calls", "input_tokens", "output_tokens"]].round().astype(int)
    )
    found["usd_table_2"] = found["usd"] * in_table_2 / 1000
    found["thinks"] = found["thinks"].map({True: "yes", False: "no"})
    return found


def bill(found, in_table_2):
    """Say in Markdown how today's prices compare with the paper's bill, from the numbers of `costs` alone."""
    known = found.dropna(subset=["usd"])
    if known.empty:
        return "No model has a known price."
    cheap, dear = known.loc[known["usd"].idxmin()], known.loc[known["usd"].idxmax()]
    below = int((known["usd_table_2"] < PUBLISHED_DOLLARS).sum())
    return (
        f"The paper spent about {PUBLISHED_DOLLARS:,} dollars, most of it on writing responses. For the {in_table_2:,} "
        f"contexts that its Table 2 counts in the two augmented sets, {below} of {len(known)} models of known price "
        f"would cost less: from {cheap['usd_table_2']:,.0f} dollars ({cheap['model']}) to {dear['usd_table_2']:,.0f} "
        f"({dear['model']})."
    )


def _whole(name):
    return [context for split in splits(name) for context in load(name, split)]
