"""A sheet on which people check an augmented set: blind, shuffled, with the key in a file apart.

Algorithm 1 ends with a human check of a sample. `write` makes the sheet (CSV, for any spreadsheet program), people
answer in its column ``fits``, `read` compares the answers with the design and with each other.
"""

import csv
import hashlib
import io
import os
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from dre.data import pairs, parse
from dre.errors import DreError
from dre.stats.agreement import agreement
from dre.stats.bootstrap import cluster_mean_interval

COLUMNS = ("item", "context", "response", "fits", "note")
KEY = ("item", "pair_id", "context_id", "kind", "sha256")
ANSWERS = {"yes": 1.0, "y": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "0": 0.0}
SHOWN = 5  # errors that are named
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet program takes for a formula


def write(contexts, path, n=100, seed=0):
    """Write a sheet with `n` pairs, as many positives as adversarials, and its key beside it.

    Parameters
    ----------
    contexts : sequence of Context
    path : path
        Ending ``.csv``; the key goes to ``<name>.key.csv``, which annotators must not see.
    n : int
        Pairs; of an odd number one more is positive.
    seed : int
        Of the sample and of the order.

    Returns
    -------
    Path
        Of the key.

    Raises
    ------
    DreError
        If there are not enough pairs, or the sheet or the key is there already.
    """
    path = Path(path)
    key_path = key_of(path)
    for file in (path, key_path):
        if file.exists():
            raise DreError(f"{file} is there already, perhaps with answers: move it or give another name")
    chosen = _drawn(pairs(contexts), n, seed)
    items = range(1, len(chosen) + 1)
    sheet, key = [COLUMNS], [KEY]
    for item, (_, row) in zip(items, chosen.iterrows()):
        texts = "\n".join(f"{'AB'[i % 2]}: {turn.strip()}" for i, turn in enumerate(row["context"])), row["response"]
        sheet.append((item, *map(_shown, texts), "", ""))
        key.append((item, row["pair_id"], row["context_id"], row["kind"], _sha256(*texts)))
    _write(key_path, key)
    _write(path, sheet)
    return key_path


def key_of(path):
    """Return where the key of a sheet lies."""
    path = Path(path)
    if path.suffix != ".csv" or path.name.endswith(".key.csv"):
        raise DreError(f"{path}: expected a name that ends in .csv (and not in .key.csv, which is the key)")
    return path.with_suffix(".key.csv")


def read(paths, key, resamples=2000, seed=0):
    """Read filled sheets and compare them with the design and with each other.

    Parameters
    ----------
    paths : path or sequence of paths
        One copy of the sheet an annotator; the file's name names the annotator.
    key : path
        That `write` returned.

    Returns
    -------
    answers : DataFrame
        ``item, pair_id, context_id, kind``, then a column an annotator: 1 fits, 0 does not.
    summary : DataFrame
        ``annotator, measure, value, low, high, n``: for each annotator the share of answers that agree with the design
        in percent (``positive, adversarial, overall``) and Cohen's kappa with it (``kappa with the design``); for each
        two annotators ``kappa``. Intervals of 95 % from a bootstrap over contexts.

    Raises
    ------
    DreError
        With file and line: a column or an item missing, an item twice, a text that was changed, an answer that is
        neither yes nor no.
    """
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    names = [Path(path).stem for path in paths]
    if len(set(names)) != len(names) or not names:
        raise DreError(f"sheets named {', '.join(names) or '(none)'}: give one file an annotator, each of another name")
    answers = _key(key)
    texts = answers.pop("sha256")
    for name, path in zip(names, paths):
        answers[name] = _answers(path, dict(zip(answers["item"], texts)))
    rows = [row for name in names for row in _against_design(name, answers, resamples, seed)]
    for one, other in combinations(names, 2):
        rows.append(_kappa(f"{one}, {other}", "kappa", answers[[one, other]], answers["context_id"], resamples, seed))
    return answers, pd.DataFrame(rows)


def _drawn(table, n, seed):
    rng = random.Random(seed)
    places = []
    for kind, wanted in (("p", n - n // 2), ("a", n // 2)):
        there = np.flatnonzero(table["kind"] == kind).tolist()
        if n < 1 or len(there) < wanted:
            raise DreError(f"a sheet of {n} pairs needs {wanted} of kind {kind!r}, found {len(there)}: ask for fewer")
        places += rng.sample(there, wanted)
    rng.shuffle(places)
    return table.iloc[places]


def _answers(path, texts):
    """Return the answers of one sheet in the order of the key."""
    found, errors = {}, []
    for where, row in _rows(path, COLUMNS[:4]):
        item = row["item"].strip()
        if not item.isdigit() or int(item) not in texts:
            errors.append(f"{where}: item {item!r} is not one of the key's 1 to {len(texts)}")
        elif int(item) in found:
            errors.append(f"{where}: item {item} stands there twice")
        elif _sha256(row["context"], row["response"]) != texts[int(item)]:
            errors.append(f"{where}: the text of item {item} was changed, or rows were sorted by one column alone")
        elif row["fits"].strip().lower() not in ANSWERS:
            errors.append(f"{where}: item {item} is answered {row['fits']!r}, expected yes or no")
        if item.isdigit():
            found[int(item)] = ANSWERS.get(row["fits"].strip().lower())
    missing = [str(item) for item in texts if item not in found]
    if missing:
        errors.append(f"{path}: no row for item {', '.join(missing[:SHOWN])}{' ...' * (len(missing) > SHOWN)}")
    if errors:
        more = f"\n... and {len(errors) - SHOWN} more" * (len(errors) > SHOWN)
        raise DreError("\n".join(errors[:SHOWN]) + more)
    return [found[item] for item in texts]


def _key(path):
    rows = []
    for where, row in _rows(path, KEY):
        if not row["item"].isdigit():
            raise DreError(f"{where}: item {row['item']!r}, expected a number: give the key as it was written")
        rows.append(row | {"item": int(row["item"])})
    if not rows:
        raise DreError(f"{path}: the key is empty: give the file that was written beside the sheet")
    return pd.DataFrame(rows)[list(KEY)]


def _rows(path, columns):
    """Yield (where, row) of a CSV file as spreadsheet programs write it: with commas, semicolons or tabs."""
    text = parse.read_text(path).removeprefix("\ufeff")
    header = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise DreError(f"{path}:1: no column {', '.join(missing)}: expected {', '.join(columns)}")
    line = reader.line_num + 1
    for row in reader:
        yield f"{path}:{line}", {name: row[name] or "" for name in columns}
        line = reader.line_num + 1


def _against_design(name, answers, resamples, seed):
    design = (answers["kind"] == "p").astype(float)
    right = (answers[name] == design).astype(float)
    for measure, kinds in {"positive": "p", "adversarial": "a", "overall": "pa"}.items():
        part = right.where(answers["kind"].isin(list(kinds)))
        found = cluster_mean_interval(part, answers["context_id"], resamples, seed=seed).iloc[0]
        values = {"value": 100 * found["mean"], "low": 100 * found["low"], "high": 100 * found["high"]}
        yield {"annotator": name, "measure": measure, **values, "n": int(found["n"])}
    both = pd.DataFrame({"answers": answers[name], "design": design})
    yield _kappa(name, "kappa with the design", both, answers["context_id"], resamples, seed)


def _kappa(name, measure, both, contexts, resamples, seed):
    table = agreement(both, contexts, resamples, seed=seed).set_index("coefficient")
    return {
        "annotator": name,
        "measure": measure,
        **table.loc["kappa (none)", ["value", "low", "high"]],
        "n": len(both),
    }


def _shown(text):
    """Keep a spreadsheet program from running a text as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _sha256(context, response):
    """Hash what a text says; spreadsheet programs change line ends, outer spaces and the sign before a formula."""
    plain = [
        "\n".join(line.strip() for line in text.strip().removeprefix("'").splitlines()) for text in (context, response)
    ]
    return hashlib.sha256("\n\n".join(plain).encode("utf-8")).hexdigest()[:16]


def _write(path, rows):
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8-sig", newline="") as file:  # with a mark, so that spreadsheets read UTF-8
        csv.writer(file, lineterminator="\n").writerows(rows)
    os.replace(part, path)
