"""Table 2: contexts and responses of each data set, counted here beside the published counts."""

import pandas as pd

from dre.data import sets
from dre.data.fetch import present
from dre.data.mini import REPOSITORY

PUBLISHED = REPOSITORY / "data" / "paper" / "dre_table2.csv"
IN_PAPER = {  # data set here -> its name in the paper; the paper calls dev "val"
    "dailydialog++": "DailyDialog++",
    "topicalchat-augmented": "TopicalChat",
    "convai2-augmented": "PersonaChat",
}
COUNTS = ("contexts", "positive", "adversarial", "random")


def table2(names=("mini",)):
    """Return the counts of every split, ours beside the published.

    Parameters
    ----------
    names : iterable of str
        The data sets to count; of any other only the published counts are shown. A split whose files are not
        in the data directory is not downloaded for this: its counts stay empty and the note says so.

    Returns
    -------
    pandas.DataFrame
        Columns ``dataset, split``; ``contexts, positive, adversarial, random`` (responses), counted here;
        ``contexts_published, positive_published, adversarial_published``; ``note``. Counts are nullable
        integers.
    """
    published = _published()
    rows = [_row(name, split, published, counted=name in names) for name, split in _splits(names)]
    table = pd.DataFrame(rows)
    counts = [column for column in table.columns if column not in ("dataset", "split", "note")]
    return table.astype(dict.fromkeys(counts, "Int64"))


def _splits(names):
    for name in IN_PAPER:
        yield from ((name, split) for split in ("train", "dev", "test"))
    for name in names:
        if name not in IN_PAPER:
            yield from ((name, split) for split in sets.splits(name))


def _row(name, split, published, counted):
    row = {"dataset": IN_PAPER.get(name, name), "split": split}
    ours, note = _count(name, split) if counted else ({}, "not part of this profile")
    theirs = published.get((row["dataset"], split), {})
    row |= {count: ours.get(count) for count in COUNTS}
    row |= {f"{count}_published": theirs.get(count) for count in COUNTS[:3]}
    return row | {"note": note}


def _count(name, split):
    if split not in sets.splits(name):
        return {}, f"the {name} set has no {split} split"
    if not all(present(source) for source in sets.files(name, split)):
        return {}, "not fetched"
    contexts = sets.load(name, split)
    kinds = ("positives", "adversarials", "randoms")
    totals = (sum(len(getattr(context, kind)) for context in contexts) for kind in kinds)
    return dict(zip(COUNTS, (len(contexts), *totals))), ""


def _published():
    table = pd.read_csv(PUBLISHED).replace({"split": {"val": "dev"}})
    columns = ["contexts", "positive_responses", "adversarial_negative_responses"]
    return {
        (row["dataset"], row["split"]): {count: row[column] for count, column in zip(COUNTS, columns)}
        for row in table.to_dict("records")
    }
