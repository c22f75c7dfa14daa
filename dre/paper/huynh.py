"""What live judges say when they are asked as Huynh et al. ask, beside what that paper prints.

`quality_rows` is for its Tables 1 to 4 and 10 to 12 (FED's qualities), `yes_no_rows` for its
Tables 5, 6 and 13 (is the response good?). `dre.paper.plan` says what is asked, and nobody is asked
here.
"""

import functools
import math
from typing import cast

import pandas as pd

from dre import stats
from dre.datasets import ratings
from dre.paper import plan
from dre.paper.judgements import PanelJudge
from dre.paper.plan import Selection
from dre.paper.profile import Profile
from dre.tables import named

#: The paper's abbreviations of its eight rated sets, in its order.
SHORT_NAMES = {
    "topicalchat-usr": "TU",
    "dailydialog-zhao": "DZ",
    "personachat-usr": "PU",
    "dailydialog-gupta": "DGU",
    "dailydialog-grade": "DGR",
    "fed-turn": "FT",
    "empathetic-grade": "EG",
    plan.FED_DIALOGUES: "FD",
}
#: What tables call a choice of examples.
CHOICES = {
    "zero": "none",
    "random0": "random",
    "bm25": "BM25",
    "manual": "by hand",
    "bm25_context": "BM25 on context",
    "bm25_response": "BM25 on response",
    "bm25_both": "BM25 on both",
}
#: The paper's name of a random choice: the mean of three draws, where a live judge has one.
_RANDOM = "random"
#: The model that the paper tries choices of examples on.
_LARGEST = "TNLGv2 530B"


#: By the model that a server serves, those of the paper's models whose weights are public.
PRINTED_MODELS = {
    "facebook/opt-6.7b": "OPT-6.7B",
    "facebook/opt-30b": "OPT-30B",
    "bigscience/bloom-7b1": "BLOOM-7B",
    "google/flan-t5-xl": "Flan-T5-3B",
    "facebook/opt-125m": "OPT-125M",
    "facebook/opt-350m": "OPT-350M",
    "facebook/opt-1.3b": "OPT-1.3B",
    "facebook/opt-2.7b": "OPT-2.7B",
    "bigscience/bloom-560m": "BLOOM-560M",
    "bigscience/bloom-1b1": "BLOOM-1.1B",
    "bigscience/bloom-1b7": "BLOOM-1.7B",
    "bigscience/bloom-3b": "BLOOM-3B",
}
#: Its tables of FED's turns and of FED's dialogues, by what their columns are.
_BY_CHOICE = {"turn": "huynh_table1", "dialogue": "huynh_table2"}
_BY_CHOICE_OF_TURNS = "huynh_table10"
_BY_MODEL = {"turn": "huynh_table3", "dialogue": "huynh_table4"}
_BY_SMALL_MODEL = {"turn": "huynh_table11", "dialogue": "huynh_table12"}


def printed_column(name: str) -> str:
    """Return the column of a model in Tables 3 and 4, or 11 and 12: ``opt_6.7b`` of OPT-6.7B."""
    return name.lower().replace("-", "_")


def _agreement(name, scores, items, n_resamples):
    """Return how scores correlate with people over contexts; NaN where no answer could be read."""
    table = pd.DataFrame({"score": scores})
    r = stats.correlate(table, items["human"], items["context_id"], n=n_resamples)
    return named(name, r.loc["score"])


# Tables 1 to 4, and 10 to 12


def quality_rows(settings: Profile, judge: PanelJudge) -> list[dict]:
    """Return how a live judge's ratings of FED's qualities agree with people.

    Parameters
    ----------
    settings : the profile.
    judge : a live judge, which the profile has asked.

    Returns
    -------
    A row for each choice of examples and each quality: ``judge, level, quality, examples,
    n_examples``, ``spearman`` with its interval over dialogues, ``n``, and ``printed`` with the
    model that it is ``printed_of``. Printed is the same model's number where the paper has it, and
    else that of its largest model with the same choice. No row if the profile does not have them
    asked.
    """
    people = ratings.fed_qualities()
    rows = []
    for selection in plan.selections_for_qualities(settings):
        verdicts = judge.qualities(selection)
        if verdicts is None:
            continue
        answers = people.merge(verdicts, on=["item", "quality"]).dropna(subset="human")
        for key, items in answers.groupby(["level", "quality"], sort=False):
            level, quality = cast(tuple[str, str], key)
            row = {"judge": judge.name, "level": level, "quality": quality}
            row |= {"examples": CHOICES[selection.choice], "n_examples": selection.n}
            row |= _agreement("spearman", items["score"], items, settings.resamples)
            row["n"] = len(items["score"].dropna())
            rows.append(row | _printed_quality(settings.root, judge, level, quality, selection))
    return rows


def _printed_quality(root, judge, level, quality, selection):
    """Return what the paper prints of a quality with a choice of three examples, if it does."""
    if selection.n != 3:
        return {"printed": math.nan, "printed_of": ""}
    name = PRINTED_MODELS.get(judge.judge.model.partition(":")[2])
    if name and selection.choice == "manual":
        column = printed_column(name)
        tables = (_BY_MODEL[level], _BY_SMALL_MODEL[level])
    else:
        name = _LARGEST
        column = f"{_RANDOM if selection.choice == 'random0' else selection.choice}_530b"
        tables = (_BY_CHOICE[level], _BY_CHOICE_OF_TURNS)
    of_tables = [_printed(root, table) for table in tables]
    printed = next(table for table in of_tables if column in table)
    return {"printed": printed.loc[quality, column], "printed_of": name}


@functools.cache
def _printed(root, name) -> pd.DataFrame:
    """Return one of the paper's tables by its first column."""
    return pd.read_csv(root / f"data/paper/{name}.csv", index_col=0)


# Tables 5, 6 and 13


def yes_no_rows(settings: Profile, judge: PanelJudge) -> list[dict]:
    """Return how a live judge's answers to the yes-no question agree with people.

    Parameters
    ----------
    settings : the profile.
    judge : a live judge, which the profile has asked.

    Returns
    -------
    A row for each choice of examples: ``model, source`` (*asked*), ``examples, n_examples``
    and, for each set by its `SHORT_NAMES`, the Spearman correlation with its interval over
    contexts. ``mean`` is over the sets that were asked about. No row if the profile does not have
    them asked.
    """
    rows = []
    if not judge.asks("good_response"):
        return rows
    for selection in plan.selections_for_yes_or_no(settings):
        row: dict = {"model": judge.name, "source": "asked"}
        row |= {"examples": CHOICES[selection.choice], "n_examples": selection.n}
        names = []
        for question in plan.yes_no_questions(settings, selection):
            name = SHORT_NAMES[question.name]
            names.append(name)
            goodness = judge.goodness(question)
            if goodness is None:
                row[name] = math.nan  # not all replies came
            else:
                row |= _agreement(name, goodness, question.pairs, settings.resamples)
        rows.append(row | {"mean": sum(row[name] for name in names) / len(names)})
    return rows


def printed_yes_no_rows(settings: Profile) -> list[dict]:
    """Return the printed rows with the choices and numbers of examples that a profile asks.

    The columns are those of `yes_no_rows`, with *paper* as their source.
    """
    selections = set(plan.selections_for_yes_or_no(settings))
    models = _printed(settings.root, "huynh_table6").reset_index()
    of_models = models.dropna(subset="examples").rename(columns={"examples": "k"})
    choices = ["zero" if k == 0 else "bm25_context" for k in of_models["k"]]
    tables = [of_models.assign(examples=choices)]
    tables.append(_printed(settings.root, "huynh_table5_13").reset_index())
    rows = []
    for record in pd.concat(tables).to_dict("records"):
        name = "random0" if record["examples"] == _RANDOM else record["examples"]
        selection = Selection(name, int(record["k"]))
        # Table 6 repeats two rows of Tables 5 and 13, by shorter names of these models.
        if selection not in selections or record["model"].startswith("TNLG-"):
            continue
        row = {"model": record["model"], "source": "paper"}
        row |= {"examples": CHOICES[name], "n_examples": selection.n}
        by_set = {short: record[of_set] for of_set, short in SHORT_NAMES.items()}
        rows.append({**row, **by_set, "mean": float(pd.Series(by_set).mean())})
    return rows
