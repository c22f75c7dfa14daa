"""``dre calibrate``: learn how much a small model and a judge count, from people's ratings."""

import argparse
import hashlib
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from dre.calibrated import MADE_WITH, Calibrated
from dre.commands import inputs
from dre.commands.outputs import check_output, refuse_to_replace
from dre.datasets import formats, readers
from dre.errors import DreError
from dre.signature import Signature, load_summary, summary_path
from dre.stats import correlate
from dre.tables import named, show

#: The methods whose scores have both parts.
_METHODS_WITH_BOTH = ("product", "slide", "calibrated")
_FEWEST_PAIRS = 3  # of a rated file


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre calibrate``."""
    text = (
        "learn from people's ratings how much small model and judge count in dre score --method "
        "calibrated"
    )
    parser = subparsers.add_parser("calibrate", help=text, description=text)
    option = parser.add_argument
    option(
        "--set",
        dest="sets",
        action="append",
        required=True,
        nargs=2,
        metavar=("RATED", "SCORES"),
        help=(
            "a file of rated pairs, and what dre score --method product made of it; give two or "
            "more sets if you can"
        ),
    )
    what = "file to write what was learned (.json)"
    option("-o", "--output", required=True, metavar="FILE", help=what)
    option("--force", action="store_true", help="write over a file that is there")
    option(
        "--human",
        default="human",
        metavar="COLUMN",
        help="column of the ratings in the rated files, or a path of keys such as "
        "annotations.Overall (default: human)",
    )
    parser.set_defaults(run=_calibrate)


def _calibrate(args):
    """Learn a fusion, write it, and print what one learned on the other sets gains on each set."""
    input_files = [path for rated_and_scores in args.sets for path in rated_and_scores]
    check_output(args.output, (".json",), *input_files)
    sets = [_load_set(rated, scores, args.human) for rated, scores in args.sets]
    made_with = _same_makers(sets)
    _refuse_shared_contexts(sets)
    tables = [rated_set.table for rated_set in sets]
    fusion = Calibrated.fit(tables, made_with=made_with)
    refuse_to_replace(args.output, args.force, fusion.as_json())

    rows = []
    for i, rated_set in enumerate(sets):
        other_tables = tables[:i] + tables[i + 1 :]
        rows.append(_gain(rated_set, other_tables))
    fusion.save(args.output)
    note = (
        "Intervals: 95 %, bootstrap over contexts. "
        "The fused score of a set comes from the other sets alone."
    )
    columns = ["set", "pairs", "contexts", "slm", "judge", "fused", "weight"]
    digits = {"slm": 3, "judge": 3, "fused": 3}
    show(pd.DataFrame(rows), "Spearman correlation with people", note, columns, digits=digits)
    n_pairs = sum(len(table) for table in tables)
    print(
        f"weight {fusion.weight:.2f} (0: the judge alone, 1: the SLM alone), "
        f"learned from {n_pairs:,} rated pairs; written to {args.output}"
    )


class RatedSet(NamedTuple):
    """A rated file with its scores: ``context_id, score_slm, score_llm, human`` of each pair."""

    path: str
    table: pd.DataFrame
    signature: Signature


def _load_set(rated, scores, human):
    """Read a rated file and the scores made of it; DreError if they do not belong together."""
    data = formats.content(rated)
    columns = ["id", "context_id", "score_slm", "score_llm"]
    expected = "expected what dre score wrote, with the summary beside it"
    summary = load_summary(scores)
    if summary is None:
        raise DreError(f"{scores}: {expected} (there is no {summary_path(scores)})")
    try:
        records = [record for _, record in readers.records(scores)]
        table = pd.DataFrame(records).loc[:, ["line", *columns]]
        lines = table["line"].astype(int)
        for column in ("score_slm", "score_llm"):
            table[column] = pd.to_numeric(table[column])
    except (ValueError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise DreError(f"{scores}: {expected} ({reason:.80})") from None

    # The scores must use both parts, and come from the rated file as it is now.
    signature = summary.signature
    method = signature.fields.get("method")
    scored_data = signature.fields.get("data", "nothing")
    is_same_data = hashlib.sha256(data).hexdigest().startswith(scored_data)
    lacks = [name for name in MADE_WITH if name not in signature.fields]
    if lacks or not is_same_data or method not in _METHODS_WITH_BOTH:
        raise DreError(
            f"{scores} was made by method {method} from data {signature.text('data')}: expected "
            f"product, slide or calibrated, from {rated} as it is now"
        )

    ratings = _ratings(rated, data, human, inputs.form_of_summary(summary.content))
    human_ratings = []
    for line, id in zip(lines, table["id"]):
        of_line = ratings.get((line, None))
        human_ratings.append(ratings.get((line, str(id)), of_line))
    table["human"] = pd.Series(human_ratings, table.index, float)
    table = table[[*columns[1:], "human"]].dropna().reset_index(drop=True)
    if len(table) < _FEWEST_PAIRS:
        raise DreError(
            f"{rated}: {len(table)} pairs have both scores and a rating {human!r} (--human): "
            f"expected {_FEWEST_PAIRS}"
        )
    _refuse_one_value(table, rated, scores, human)
    return RatedSet(rated, table, signature)


def _ratings(rated, data, human, form):
    """Return the ratings of a rated file by line, and by id where a line has several responses."""
    ratings = {}
    for line, whole_record in readers.records(rated, data, form):
        for record, default_id in readers.records_of_one(whole_record, line, form):
            rating = readers.rating(record, human, f"{rated}:{line}")
            if default_id == str(line):
                ratings[line, None] = rating
            else:
                id_column = form.fields.get("id", "id")
                ratings[line, str(record[id_column])] = rating
    return ratings


def _refuse_one_value(table, rated, scores, human):
    """Raise DreError, with file and column, if nothing can be learned from a set."""
    columns = {column: f"{scores}: {column}" for column in ("score_slm", "score_llm")}
    columns["human"] = f"{rated}: the rating {human!r} (--human)"
    inputs.refuse_one_value(table, columns, rated)


def _same_makers(sets):
    """Return the fields of model, judge and prompt; DreError if the sets do not share them."""
    made_with, *others = [
        Signature({name: rated_set.signature.fields[name] for name in MADE_WITH})
        for rated_set in sets
    ]
    for rated_set, makers in zip(sets[1:], others):
        for difference in made_with.differences(makers):
            raise DreError(
                "the sets were scored with different models, judges or prompts: "
                f"{sets[0].path} with {difference.field} {difference.value}, {rated_set.path} with "
                f"{difference.other_value}: score them with the same"
            )
    return made_with.fields


def _refuse_shared_contexts(sets):
    """Raise DreError if two sets share a context: neither would be new to the other."""
    for first, second in combinations(sets, 2):
        shared = set(first.table["context_id"]) & set(second.table["context_id"])
        if shared:
            raise DreError(
                f"{first.path} and {second.path} share {len(shared):,} contexts: what is learned "
                "on one would be measured on the other as if it were new; put replies to the same "
                "contexts into one set"
            )


def _gain(rated_set, other_tables):
    """Return the row of a set: how SLM, judge and the other sets' fusion agree with people."""
    table = rated_set.table
    scores = pd.DataFrame({"slm": table["score_slm"], "judge": table["score_llm"]})
    row: dict = {
        "set": rated_set.path,
        "pairs": len(table),
        "contexts": table["context_id"].nunique(),
    }
    if other_tables:
        fusion = Calibrated.fit(other_tables)
        scores["fused"] = fusion.fuse(table["score_slm"], table["score_llm"])
        row["weight"] = fusion.weight
    correlations = correlate(scores, table["human"], table["context_id"])
    for name, correlation in correlations.iterrows():
        row |= named(str(name), correlation)
    return row
