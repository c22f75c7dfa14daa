"""How good a set of positives and adversarials is: overlap, give-aways, diversity, leakage; a sheet for people."""

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
from sklearn.metrics import cohen_kappa_score

from dre import readers, stats
from dre.classification import choose_threshold, correct, length_only, response_only
from dre.dialogues import pairs, without_overlap
from dre.errors import DreError
from dre.report import replace

FOLDS = 5
# scikit-learn's list holds nouns and verbs that carry meaning in a dialogue, and lacks what speech is full of.
_MEANINGFUL = (
    "amount bill bottom call computer cry describe detail empty fill find fire front interest mill move part serious "
    "show side sincere system thick thin top"
)
_SPOKEN = (
    "ah ain aren couldn didn doesn don get go going good got hadn hasn haven hello hey hi im isn just know let like ll "
    "make oh ok okay re really right said say shouldn sure thank thanks thing things think um ve want wasn well weren "
    "won wouldn yeah yes"
)
_STOP = sorted((ENGLISH_STOP_WORDS - {*_MEANINGFUL.split()}) | {*_SPOKEN.split()})
#: text -> its content words, lower-cased, with repeats
content_words = CountVectorizer(token_pattern=r"(?u)\b[^\W_]{2,}\b", stop_words=_STOP).build_analyzer()
#: A sheet for people: what may stand in its column ``fits``, its columns, and those of its key
ANSWERS = {"yes": 1.0, "y": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "0": 0.0}
SHEET, KEY = ["item", "context", "response", "fits", "note"], ["item", "pair_id", "context_id", "kind"]


def overlap(table):
    """Share of each response's distinct content words that stand in its context; NaN for a response without any."""
    found = [set(content_words(response)) for response in table["response"]]
    seen = [set(content_words(" ".join(turns))) for turns in table["context"]]
    return np.array([len(words & there) / len(words) if words else np.nan for words, there in zip(found, seen)])


def overlap_only(train, dev, test):
    """Score responses by their `overlap`, 0 where there is none; as `dre.classification.length_only`."""
    shares, positive = [np.nan_to_num(overlap(table)) for table in (train, dev, test)], train["kind"].to_numpy() == "p"
    sign = 1.0 if shares[0][positive].mean() > shares[0][~positive].mean() else -1.0
    return sign * shares[1], sign * shares[2]


#: What tells positives from adversarials without understanding either: (train, dev, test) -> scores of dev and test.
GIVE_AWAYS = {"overlap_only": overlap_only, "length_only": length_only, "response_only": response_only}
#: The measures of a report, in the order of its columns.
OF_KINDS = ("overlap", "borrows", "asks", "self_bleu")
MEASURES = (*(f"{name}_{kind}" for name in OF_KINDS for kind in ("positive", "adversarial")), *GIVE_AWAYS,
            "distinct_2", "leaked")  # fmt: skip


def report(sets, reserved=None, at_most=1000, n=1000, seed=0):
    """Return the measures of sets (name -> contexts), one row per set; of more than `at_most` contexts a sample.

    ``reserved`` (name -> records) is what the set of that name must share no utterance with, as
    `dre.dialogues.without_overlap` takes it.

    Columns: ``set, contexts`` (in the set), ``measured`` (of those), and, in percent with ``_low`` and ``_high``, NaN
    where nothing can be measured: ``overlap``, the share of a response's content words that stand in its context;
    ``overlap_only, length_only, response_only``, the accuracy (50 is chance) of classifiers that see only that share,
    the length, the wording; ``self_bleu`` with the others of its kind and context as references; ``distinct_2``,
    distinct over all pairs of words in a context's responses; ``leaked``, the share of contexts whose
    conversation has an utterance of more than four words that stands in a reserved record.
    """
    rows = []
    for name, contexts in sets.items():
        used = [context for context in contexts if context.positives and context.adversarials]
        if not used:
            raise DreError(f"{name}: no context has positives and adversarials: a quality report needs both")
        if len(used) > at_most:
            used = [used[i] for i in sorted(random.Random(seed).sample(range(len(used)), at_most))]
        row = {"set": name, "contexts": len(contexts), "measured": len(used)}
        for measure, (owners, values) in _measured(used, (reserved or {}).get(name), seed).items():
            found = stats.mean(100 * values, owners, n=n, seed=seed)
            row |= {measure: found["mean"], f"{measure}_low": found["low"], f"{measure}_high": found["high"]}
        rows.append(row)
    return pd.DataFrame(rows)


def _measured(contexts, reserved, seed):
    """Each of `MEASURES` -> (ids of contexts, values between 0 and 1)."""
    table, ids = pairs(contexts), [context.context_id for context in contexts]
    owners, kind = table["context_id"].to_numpy(), table["kind"]
    balance = (0.5 / kind.map(kind.value_counts(normalize=True))).to_numpy()  # the mean is that over both kinds
    found = {name: (owners, give_away(table, scorer, seed) * balance) for name, scorer in GIVE_AWAYS.items()}
    share, asks = overlap(table), table["response"].str.strip().str.endswith("?").to_numpy(float)
    borrows = np.where(np.isnan(share), np.nan, share > 0)
    measured = {"overlap": share, "borrows": borrows, "asks": asks, "self_bleu": self_bleu(table)}
    for name, values in measured.items():
        found[f"{name}_positive"] = owners, np.where(kind == "p", values, np.nan)
        found[f"{name}_adversarial"] = owners, np.where(kind == "a", values, np.nan)
    found["distinct_2"] = ids, np.array([distinct(context) for context in contexts])
    clean = {context.context_id for context in without_overlap(contexts, reserved or [], near=None)}
    found["leaked"] = ids, np.array([np.nan if reserved is None else float(id not in clean) for id in ids])
    return {name: found[name] for name in MEASURES}


def give_away(table, scorer, seed=0):
    """Return whether one of `GIVE_AWAYS` is right about each pair; NaN where there are fewer contexts than `FOLDS`.

    Each part of the contexts is judged with the threshold of the next and what was learned from the rest.
    """
    names, right = table["context_id"].unique(), np.full(len(table), np.nan)
    if len(names) < FOLDS:
        return right
    fold = table["context_id"].map(dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % FOLDS)))
    for k in range(FOLDS):
        dev = (k + 1) % FOLDS
        parts = [table[~fold.isin([k, dev])], table[fold == dev], table[fold == k]]
        on_dev, on_test = scorer(*parts)
        threshold = choose_threshold(on_dev, parts[1]["kind"])
        right[fold == k] = correct(parts[2], on_test, threshold)
    return right


def self_bleu(table):
    """BLEU (0-1) of each response with the others of its kind and context as references; NaN where it stands alone."""
    from sacrebleu.metrics import BLEU

    bleu, values = BLEU(effective_order=True, lowercase=True), np.full(len(table), np.nan)
    for places in table.groupby(["context_id", "kind"]).indices.values():
        for at in places if len(places) > 1 else ():
            others = table["response"].iloc[[other for other in places if other != at]].tolist()
            values[at] = bleu.sentence_score(table["response"].iloc[at], others).score / 100
    return values


def distinct(context):
    """Distinct pairs of words over all pairs in a context's positives and adversarials; NaN if there are none."""
    words = [text.lower().split() for text in (*context.positives, *context.adversarials)]
    grams = [gram for text in words for gram in zip(text, text[1:])]
    return len(set(grams)) / len(grams) if grams else np.nan


def write_sheet(contexts, path, n=100, seed=0):
    """Write a sheet on which people check a set: `n` pairs, as many positives as adversarials, blind and shuffled.

    Algorithm 1 ends with a human check of a sample. People answer in the column ``fits``, with any spreadsheet program.
    The sheet's `path` ends in ``.csv``; the key, which annotators must not see, goes to ``<name>.key.csv``, and its
    path is returned. Neither is written over another file.
    """
    path, key = Path(path), Path(path).with_suffix(".key.csv")
    if path.suffix != ".csv" or path.exists() or key.exists():
        raise DreError(f"{path}: expected a name that ends in .csv and is new (with answers it may be there already)")
    table, wanted = pairs(contexts), {"p": n - n // 2, "a": n // 2}
    if n < 2 or any((table["kind"] == kind).sum() < count for kind, count in wanted.items()):
        raise DreError(f"a sheet of {n} pairs, half of either kind, cannot be drawn from {len(table)}: ask for fewer")
    parts = [table[table["kind"] == kind].sample(count, random_state=seed) for kind, count in wanted.items()]
    drawn = pd.concat(parts).sample(frac=1, random_state=seed).assign(item=range(1, n + 1), fits="", note="")
    spoken = [(f"{'AB'[i % 2]}: {turn.strip()}" for i, turn in enumerate(turns)) for turns in drawn["context"]]
    drawn["context"] = ["\n".join(lines) for lines in spoken]
    # A spreadsheet program would run a text that begins so as a formula.
    drawn["response"] = [f"'{text}" if text.startswith(("=", "+", "-", "@")) else text for text in drawn["response"]]
    replace(key, drawn[KEY].to_csv(index=False, lineterminator="\n"))
    text = drawn[SHEET].to_csv(index=False, lineterminator="\n")
    replace(path, f"\ufeff{text}")  # the mark makes spreadsheet programs read UTF-8
    return key


def read_sheets(paths, key, n=1000, seed=0):
    """Read filled sheets, copies of the one that was written, each named for its annotator; returns two tables.

    Answers: ``item, pair_id, context_id, kind``, then one column per annotator, 1 fits, 0 does not. Summary:
    ``annotator, measure, value, low, high`` (95 %, over contexts), of each annotator the answers that agree with the
    design in percent (``positive, adversarial, overall``) and Cohen's ``kappa with the design``; of each two ``kappa``.
    Kappa has no interval, and is NaN where all answers are the same.
    """
    paths = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    names, answers = [path.stem for path in paths], _table(key, KEY)
    if len(set(names)) < len(names):
        raise DreError(f"sheets named {', '.join(names)}: give one file per annotator, each of another name")
    for name, path in zip(names, paths):
        answers[name] = _answers(path, answers)
    contexts, design = answers["context_id"], (answers["kind"] == "p").astype(float)
    rows = []
    for name in names:
        right = 100.0 * (answers[name] == design)
        for measure, kinds in {"positive": ["p"], "adversarial": ["a"], "overall": ["p", "a"]}.items():
            found = stats.mean(right.where(answers["kind"].isin(kinds)), contexts, n, seed)
            rows.append((name, measure, found["mean"], found["low"], found["high"]))
        rows.append((name, "kappa with the design", _kappa(answers[name], design), None, None))
    for one, other in combinations(names, 2):
        rows.append((f"{one}, {other}", "kappa", _kappa(answers[one], answers[other]), None, None))
    return answers, pd.DataFrame(rows, columns=["annotator", "measure", "value", "low", "high"])


def _kappa(a, b):
    return cohen_kappa_score(a, b) if len({*a, *b}) > 1 else float("nan")


def _answers(path, key):
    """Return the answers of one sheet in the order of the key."""
    table = _table(path, SHEET[:4])
    answers = dict(zip(table["item"], table["fits"].str.strip().str.lower().map(ANSWERS)))
    wrong = [item for item in key["item"] if answers.get(item) not in (0.0, 1.0)]
    if wrong or len(table) != len(key):
        what = f"{len(table)} rows for {len(key)} items, without yes or no: {', '.join(wrong[:5]) or 'none'}"
        raise DreError(f"{path}: {what}: expected every item of the sheet once, answered yes or no")
    return key["item"].map(answers)


def _table(path, columns):
    """Read a CSV file as spreadsheet programs write it."""
    table = pd.DataFrame([row for _, row in readers.records(path) if isinstance(row, dict)])
    if lacking := set(columns) - set(table):
        raise DreError(f"{path}: expected columns {', '.join(columns)}, but there is no {min(lacking)}")
    return table[columns].assign(item=table["item"].str.strip())
