"""The plan of a profile: what is asked of whom, with which pairs and numbers, and what is trained.

The estimate prices it, the runner carries it out before the notebooks that read it, and notebooks
take their pairs from here. So they read what was asked, and nothing else is asked.
"""

import json
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from dre.datasets import dialogues, ratings, recordings
from dre.judges import released
from dre.paper import examples, printed_cases
from dre.paper.profile import OURS, PAPER, Profile
from dre.slm import recipes

#: Families of prompts that ask for one criterion at a time; a score is the mean of the four.
FAMILIES = ("geval", "analyse_rate", "slide_a1")
#: Those that the papers ask many times at temperature 1.
SAMPLED = ("geval", "analyse_rate")
#: The prompts of interior refinement: one to a live judge, and recorded with several numbers.
INTERIOR = {
    "dre": "dre_inputs.csv",
    "dre_transfer": "dre_inputs_transfer.csv",
    "dre_graded": "dre_inputs_graded.csv",
    "dre_as_printed": "dre_as_printed.csv",
}
#: Of these a live judge is asked only where ``optional_prompts`` of the profile names them.
OPTIONAL = {
    "geval": "geval",
    "analyse_rate": "analyse_rate",
    "slide_a1": "slide_a1",
    "quality": "huynh",
    "dialogue": "huynh",
    "good_response": "huynh",
}
#: The prompts whose answer is one token, so that log-probabilities tell its score.
BY_TOKEN = ("quality", "dialogue", "good_response")
#: The rated examples that a live judge is shown with FED's qualities, and with the yes-no question.
CHOICES = ("zero", "random0", "bm25", "manual", "bm25_context", "bm25_response")
CHOICES_FOR_YES_OR_NO = ("zero", "random0", "bm25_context", "bm25_response", "bm25_both")
#: Of these, those that turns alone have: of a dialogue, ``bm25`` compares the context.
_OF_TURNS = ("bm25_context", "bm25_response")
#: Those whose number is not chosen: none, and three that were chosen by hand.
_FIXED_NUMBERS = {"zero": 0, "manual": 3}
#: FED's whole dialogues, which are rated like a set of `dre.datasets.ratings.RATED`.
FED_DIALOGUES = "fed-dialog"
#: The middle of a scale of overall ratings. What people rate above it is a good response.
_MIDDLE = {"fed-turn": 2.0, FED_DIALOGUES: 2.0}  # of 0 to 4
_MIDDLE_OF_OTHERS = 3.0  # of 1 to 5
#: The notebooks that read replies of live judges, by what the estimate calls their questions.
READERS = {
    "Table 3": "03_classification",
    "Table 4": "04_correlation",
    "Table 5": "04_correlation",
    "Table 6": "05_case_studies",
    "all rated sets": "07_when_a_fusion_helps",
    "Huynh et al.": "10_how_a_judge_is_asked",
}
#: Of the embedded corpus, the test context whose replies are shown with their labels.
_CONTEXT_OF_TABLE_3 = 4
#: The case that is followed step by step.
_CASE_OF_TABLE_4 = "contradiction-4"
#: The notebooks that read scores of a small model of the papers, of any other one, and of twins.
_READERS_OF_OTHERS = ("03_", "04_", "05_")
_READERS_OF = {
    PAPER: (*(f"0{number}_" for number in range(2, 8)), "11_"),
    OURS: (*_READERS_OF_OTHERS, "06_", "07_", "11_"),
}
_READERS_OF_TWINS = ("02_", "03_")
#: Those that read models of all sets, with disentangling and without.
_READERS_OF_ALL_SETS = {True: ("02_", "04_", "07_"), False: ("02_",)}


class Training(NamedTuple):
    """One training of a profile, as `dre.paper.trainings.trained` takes it."""

    key: str
    model: str
    seed: int
    disentangled: bool = True


@dataclass(frozen=True, eq=False)
class Ask:
    """What live judges are asked: one prompt for some pairs.

    Attributes
    ----------
    table : str
        What the estimate calls it, one of `READERS`.
    notebooks : tuple of str
        The notebooks that read the replies.
    prompt : str
        As `dre.paper.judgements.PanelJudge.scores` takes it.
    pairs : DataFrame
        With ``pair_id, context`` and ``response``.
    training : Training or None
        Whose numbers the prompt shows.
    examples : dict or None
        Rated examples for each pair.
    main_judge_only : bool
        Whether only the judge of main tables is asked.
    """

    table: str
    notebooks: tuple[str, ...]
    prompt: str
    pairs: pd.DataFrame
    training: Training | None = None
    examples: dict[str, list] | None = None
    main_judge_only: bool = False


def is_run(settings: Profile, beginnings: str | tuple[str, ...]) -> bool:
    """Return whether a profile runs one of some notebooks, by their names or beginnings of them."""
    names = settings.notebooks
    return not names or any(name.startswith(beginnings) for name in names)


def option_of(prompt: str) -> str:
    """Return what ``optional_prompts`` calls a prompt; "" if it is always asked."""
    options = (option for beginning, option in OPTIONAL.items() if prompt.startswith(beginning))
    return next(options, "")


def is_named(settings: Profile, prompt: str) -> bool:
    """Return whether a profile has live judges asked for a prompt: for most, it always has."""
    return option_of(prompt) in ("", *settings.optional_prompts)


def asks(settings: Profile, notebook: str | None = None) -> list[Ask]:
    """Return what a profile asks its live judges, in this order: labels come first.

    Parameters
    ----------
    settings : the profile.
    notebook : str, optional
        Only what this notebook reads; by default what all notebooks of the profile read.
    """
    chosen = []
    for ask in _all_asks(settings):
        is_read = notebook in ask.notebooks if notebook else is_run(settings, ask.notebooks)
        if is_read and is_named(settings, ask.prompt):
            chosen.append(ask)
    return chosen


def _all_asks(settings):
    """Yield what all notebooks would ask of a profile with every optional prompt."""
    table3, table4, table5, table6, all_sets, huynh = READERS.values()

    # The labels of Table 3 are the accuracy that DRE's prompt shows.
    yield Ask("Table 3", (table3, table4, table6), "classify", pairs_to_label(settings))
    yield Ask("Table 3", (table3,), "classify", example_replies(), main_judge_only=True)

    paper_on_main = training_of(settings, settings.main_set)
    case = followed_case(settings)
    yield Ask("Table 4", (table4,), "llm_only", case, main_judge_only=True)
    yield Ask("Table 4", (table4,), "dre", case, paper_on_main, main_judge_only=True)
    for name in settings.table_4:
        pairs = rated(settings, name)
        for prompt in ("llm_only", *FAMILIES):
            yield Ask("Table 4", (table4,), prompt, pairs)
        training = training_of(settings, settings.training_set(name).key)
        yield Ask("Table 4", (table4,), "dre", pairs, training)
    for name in settings.table_5:
        pairs = rated(settings, name)
        yield Ask("Table 5", (table5,), "llm_only", pairs)
        yield Ask("Table 5", (table5,), "dre_transfer", pairs, paper_on_main)

    all_cases = cases(settings)
    yield Ask("Table 6", (table6,), "llm_only", all_cases)
    yield Ask("Table 6", (table6,), "dre", all_cases, paper_on_main)
    replies = printed_replies(settings)
    if replies is not None:
        for prompt in ("llm_only", *FAMILIES):
            yield Ask("Table 6", (table6,), prompt, replies)
        yield Ask("Table 6", (table6,), "dre", replies, paper_on_main)
    for name in settings.rated:
        yield Ask("all rated sets", (all_sets,), "llm_only", rated(settings, name))
    if "fed-turn" in settings.rated and "huynh" in settings.optional_prompts:
        questions = []
        for selection in selections_for_qualities(settings):
            questions += quality_questions(settings, selection)
        for selection in selections_for_yes_or_no(settings):
            questions += yes_no_questions(settings, selection)
        for _, prompt, pairs, examples_by_pair in questions:
            yield Ask("Huynh et al.", (huynh,), prompt, pairs, examples=examples_by_pair)


def training_of(settings: Profile, key: str) -> Training:
    """Return the training whose numbers judges are shown: the papers' model on one of the sets."""
    return Training(key, PAPER, settings.seed)


def trainings(settings: Profile) -> list[Training]:
    """Return the trainings whose models the notebooks of a profile read, without the package's."""
    needed = []
    for name in dict.fromkeys([*settings.recipes, settings.controls]):
        model = settings.models[name]
        recipe = recipes.get(model.recipe)
        if recipe.mixture and not settings.extra.dialogues:
            continue  # the model of the package stands in
        kinds = []
        if is_run(settings, _READERS_OF.get(name, _READERS_OF_OTHERS)):
            kinds = [True]
        if name == settings.controls and is_run(settings, _READERS_OF_TWINS):
            kinds = [True, False]
        for disentangled in kinds:
            keys = [settings.main_set]
            is_of_each_set = name in (PAPER, settings.controls) and not recipe.takes_all_sets
            if is_of_each_set and is_run(settings, _READERS_OF_ALL_SETS[disentangled]):
                keys = [entry.key for entry in settings.sets]
            needed += [
                Training(key, name, seed, disentangled) for key in keys for seed in settings.seeds
            ]
    return needed


# Pairs


def rated(settings: Profile, name: str) -> pd.DataFrame:
    """Return `dre.datasets.ratings.rated` of a set, its first ``pairs_per_set`` pairs."""
    return ratings.rated(name).iloc[: settings.pairs_per_set]


def pairs_to_label(settings: Profile) -> pd.DataFrame:
    """Return the pairs of the main set's test split that judges are asked to classify.

    They are ``labels_per_kind`` positive and as many adversarial responses, and a third of it of
    random ones. Those that were labelled in a recording come first, the others are drawn.

    Returns
    -------
    A table as `dre.datasets.dialogues.pairs` returns it.
    """
    test = dialogues.pairs(dialogues.load(*settings.main.test), "par")
    if settings.labels_per_kind is None:
        return test
    order = np.random.default_rng(settings.seed).permutation(len(test))
    shuffled = test.iloc[order]
    is_new = ~shuffled["pair_id"].isin(recordings.labels().index)
    shuffled = shuffled.iloc[np.argsort(is_new, kind="stable")]
    tables = []
    for kind in "par":
        n_pairs = settings.labels_per_kind // (3 if kind == "r" else 1)
        tables.append(shuffled[shuffled["kind"] == kind].head(n_pairs))
    return pd.concat(tables).sort_index().reset_index(drop=True)


def example_replies() -> pd.DataFrame:
    """Return four replies to one context of the embedded corpus, two of each kind."""
    example = dialogues.pairs([dialogues.load("mini", "test")[_CONTEXT_OF_TABLE_3]], "pa")
    return example.groupby("kind", sort=False).head(2).reset_index(drop=True)


def cases(settings: Profile) -> pd.DataFrame:
    """Return our cases of Table 6, a row for each reply.

    Returns
    -------
    Columns ``id, design, context`` (tuple of turns), ``response``, what else the file says of a
    case, ``number`` (of the reply, from 1) and ``pair_id``.
    """
    text = (settings.root / "data/cases.jsonl").read_text(encoding="utf-8")
    table = pd.DataFrame(map(json.loads, text.splitlines()))
    table["context"] = table["context"].map(tuple)
    table = table.explode("responses", ignore_index=True)
    table = table.rename(columns={"responses": "response"})
    table["number"] = table.groupby("id").cumcount() + 1
    table["pair_id"] = "cases/" + table["id"] + "/" + table["number"].astype(str)
    return table


def printed_replies(settings: Profile) -> pd.DataFrame | None:
    """Return the replies that the papers print, if the profile names a file with them.

    Returns
    -------
    What `dre.paper.printed_cases.read` returns, or None.
    """
    return printed_cases.read(settings.cases) if settings.cases else None


def followed_case(settings: Profile) -> pd.DataFrame:
    """Return the replies of the case that notebook 04 follows step by step."""
    return cases(settings).query("id == @_CASE_OF_TABLE_4").reset_index(drop=True)


class Selection(NamedTuple):
    """Which rated examples a judge is shown, and how many of them."""

    choice: str
    n: int


ZERO_SHOT = Selection("zero", 0)


def selections_for_qualities(settings: Profile) -> list[Selection]:
    """Return the examples that a live judge is shown with FED's qualities, each in turn."""
    return _selections(CHOICES, settings.examples.qualities)


def selections_for_yes_or_no(settings: Profile) -> list[Selection]:
    """Return the examples that a live judge is shown with the yes-no question, each in turn."""
    return _selections(CHOICES_FOR_YES_OR_NO, settings.examples.good_response)


def _selections(choices, numbers):
    """Return every choice with every number, but for those whose number is fixed."""
    selections = []
    for choice in choices:
        of_choice = [_FIXED_NUMBERS[choice]] if choice in _FIXED_NUMBERS else numbers
        selections += [Selection(choice, n) for n in of_choice]
    return list(dict.fromkeys(selections))


class Question(NamedTuple):
    """A prompt for the pairs of a set, and the examples by pair.

    ``name`` is one of FED's qualities or, of the question whether responses are good, the set.
    """

    name: str
    prompt: str
    pairs: pd.DataFrame
    examples: dict[str, list] | None


def quality_questions(settings: Profile, selection: Selection) -> list[Question]:
    """Return what a live judge is asked of FED's qualities, with some examples shown.

    The examples are chosen among all items, also where ``pairs_per_set`` takes a part of them.

    Parameters
    ----------
    settings : the profile.
    selection : one of `selections_for_qualities`.
    """
    whole = ratings.fed_dialogues()
    whole = whole.assign(context=whole["turns"], response="")
    texts = ["pair_id", "context_id", "context", "response"]
    tables = {"turn": ratings.rated("fed-turn")[texts], "dialogue": whole[texts]}
    people = ratings.fed_qualities()
    questions = []
    for key, rows in people.groupby(["level", "quality"], sort=False):
        level, quality = cast(tuple[str, str], key)
        is_turn = level == "turn"
        if selection.choice in _OF_TURNS and not is_turn:
            continue
        family = "quality" if is_turn else "dialogue"
        prompt = f"{family}_{quality.lower().replace(' ', '_')}"
        table = tables[level]
        human = pd.Series(rows.set_index("item")["human"])
        rating = pd.Series(table["pair_id"]).map(human)
        pool = table.assign(rating=rating).dropna(subset="rating")
        pairs = table.iloc[: settings.pairs_per_set]
        shown = _with_examples(pairs, pool, selection, is_turn)
        questions.append(Question(quality, prompt, *shown))
    return questions


def yes_no_questions(settings: Profile, selection: Selection) -> list[Question]:
    """Return what a live judge is asked of each rated set, yes or no (Huynh et al., section 3.2).

    An example has the answer Yes if people rate it above the middle of the scale; the paper does
    not say what it takes. FED's whole dialogues, the paper's eighth set, have no response: the
    system's last turn is taken for it, after the turns before.

    Parameters
    ----------
    settings : the profile. Its rated sets are asked about, and the dialogues of FED with its turns.
    selection : one of `selections_for_yes_or_no`.
    """
    tables = {name: ratings.rated(name) for name in settings.rated}
    if "fed-turn" in tables:
        tables[FED_DIALOGUES] = _with_last_response(ratings.fed_dialogues())
    questions = []
    for name, table in tables.items():
        table = table.dropna(subset="human")
        is_good = table["human"] > _MIDDLE.get(name, _MIDDLE_OF_OTHERS)
        pool = table.assign(rating=np.where(is_good, "Yes", "No"))
        pairs = table.iloc[: settings.pairs_per_set]
        questions.append(Question(name, "good_response", *_with_examples(pairs, pool, selection)))
    return questions


def _with_last_response(whole_dialogues):
    """Return FED's dialogues as pairs: the system's last turn, and the turns before it."""
    contexts = []
    responses = []
    for turns in whole_dialogues["turns"]:
        last = (len(turns) - 2) // 2 * 2 + 1  # the user begins
        contexts.append(turns[:last])
        responses.append(turns[last])
    return whole_dialogues.assign(context=contexts, response=responses)


def fed_items(settings: Profile) -> set[str]:
    """Return the ids of FED's turns and dialogues that are asked about."""
    items = set()
    for table in (ratings.rated("fed-turn"), ratings.fed_dialogues()):
        items.update(table["pair_id"].iloc[: settings.pairs_per_set])
    return items


def _with_examples(
    pairs, pool, selection, is_turn=True
) -> tuple[pd.DataFrame, dict[str, list] | None]:
    """The pairs that can be asked about, and their examples; None if nothing is shown."""
    if selection == ZERO_SHOT:
        return pairs, None
    if selection.choice == "manual":
        file = recordings.FOLDER / released.CLAUDE / "fed_examples.json"
        name, key = ("fed-turn", "turn_manual") if is_turn else ("fed-dialog", "dial_manual")
        chosen = [f"{name}/{i}" for i in json.loads(file.read_text(encoding="utf-8"))[key]]
        chosen = [pair_id for pair_id in chosen if pair_id in set(pool["pair_id"])]
        # What shares a dialogue with an example is not asked about.
        contexts = pool.loc[pool["pair_id"].isin(chosen), "context_id"]
        pairs = pairs[~pairs["context_id"].isin(contexts)]
        by_pair = examples.select(pairs, pool, "manual", k=len(chosen), chosen=chosen)
        return pairs, by_pair
    method = selection.choice.removesuffix("0")  # one draw
    if method == "bm25":
        method = "bm25_both" if is_turn else "bm25_context"
    return pairs, examples.select(pairs, pool, method, k=selection.n)
