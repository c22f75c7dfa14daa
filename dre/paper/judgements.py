"""The judges of a profile, and what each says of some pairs with each prompt of the papers.

`panel` returns the judges in the order of the profile. A recorded judge repeats what it was asked
once. A live one is asked for every prompt, through the store of replies: what is stored is not
paid for again, and a run that was ended goes on where it was.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from dre import classification, judges
from dre.datasets import dialogues, ratings, recordings
from dre.errors import DreError
from dre.judges import examples, prompts, released
from dre.judges.recorded import Recorded
from dre.paper.profile import RECORDED, JudgeSettings, Profile
from dre.slm import provenance

#: The papers' names of models, by ours.
ALIASES = Path(__file__).with_name("aliases.csv")
#: Families of prompts that ask for one criterion at a time; a score is the mean of the four.
FAMILIES = ("geval", "analyse_rate", "slide_a1")
#: Those that the papers ask many times at temperature 1.
_SAMPLED = ("geval", "analyse_rate")
#: The prompts of interior refinement: one to a live judge, and recorded with several numbers.
_INTERIOR = {
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
#: The rated examples that a live judge is shown with FED's qualities.
SHOWN = ("zero", "random0", "bm25", "manual")
COLUMNS = ("pair_id", "score", "influence", "label", "status", "reason", "cost")
STRENGTHS = ("open", "middle", "current")
TOP = 5  # of the scale of all scores
_NO_FACT = "(none is given)"  # stands where a prompt shows a fact and a set has none
_STRENGTH_OF_RECORDED = {released.CLAUDE: "current"} | dict.fromkeys(released.P_YES, "open")
#: The sets that judges of every strength have scored.
_SETS_OF_STRENGTH = ("personachat-usr", "topicalchat-usr")
_SAMPLING_TEMPERATURE = 1.0


def panel(settings: Profile) -> "list[PanelJudge]":
    """Return the judges of a profile, in its order.

    Parameters
    ----------
    settings : the profile of a notebook, ``book.profile``.
    """
    return [PanelJudge(settings, judge) for judge in settings.judge_settings]


def printed_name(model: str) -> str:
    """Return what the papers call a model, as ``openai:gpt-4-1106-preview``, or "" if nowhere."""
    names = pd.read_csv(ALIASES, index_col="model")["printed"]
    return str(names.get(model, ""))


def rated(settings: Profile, name: str) -> pd.DataFrame:
    """Return `dre.datasets.ratings.rated` of a set, its first ``pairs_per_set`` pairs."""
    table = ratings.rated(name)
    n = settings.pairs_per_set
    return table.head(n) if n else table


def pairs_to_label(settings: Profile) -> pd.DataFrame:
    """Return the pairs of the first set's test split that judges are asked to classify.

    They are ``labels_per_kind`` positive and as many adversarial responses, and a third of it of
    random ones. Those that were labelled in a recording come first, the others are drawn.

    Returns
    -------
    A table as `dre.datasets.dialogues.pairs` returns it.
    """
    test = dialogues.pairs(dialogues.load(*settings.sets[0].test), "par")
    if settings.labels_per_kind is None:
        return test
    order = np.random.default_rng(settings.seed).permutation(len(test))
    shuffled = test.iloc[order]
    is_new = ~shuffled["pair_id"].isin(ratings.labels().index)
    shuffled = shuffled.iloc[np.argsort(is_new, kind="stable")]
    parts = []
    for kind in "par":
        n_pairs = settings.labels_per_kind // (3 if kind == "r" else 1)
        parts.append(shuffled[shuffled["kind"] == kind].head(n_pairs))
    return pd.concat(parts).sort_index().reset_index(drop=True)


def slm_accuracy(settings: Profile, slm: Any, key: str) -> float:
    """Return how often a small model tells positive from adversarial responses, in [0, 1].

    That is the number of Table 3 which DRE's prompt tells the judge: the mean accuracy on both
    kinds of the test split of one of ``settings.sets``, at the threshold that is best on dev.

    Parameters
    ----------
    settings : the profile.
    slm : a small model, or its recorded scores, as `dre.slm.trained` returns them.
    key : that of the set.
    """
    entry = next(entry for entry in settings.sets if entry.key == key)
    dev, test = provenance.held_out(entry)
    dev_pairs = dialogues.pairs(dev, "pa")
    test_pairs = dialogues.pairs(test, "pa")
    dev_scores = slm.score(dev_pairs)["score_slm"]
    threshold = classification.choose_threshold(dev_scores, dev_pairs["kind"])
    test_scores = slm.score(test_pairs)["score_slm"]
    return _accuracy(test_pairs, classification.correct(test_pairs, test_scores, threshold))


def _accuracy(pairs, decisions):
    """The mean of the accuracies on positive and on adversarial responses."""
    decisions = np.asarray(decisions, float)
    kinds = pairs["kind"].to_numpy()
    accuracies = [np.nanmean(decisions[kinds == kind]) for kind in ("p", "a")]
    return float(np.mean(accuracies))


class QualityQuestion(NamedTuple):
    """One quality of FED for all its turns or dialogues: the prompt, and the examples by pair."""

    quality: str
    prompt: str
    pairs: pd.DataFrame
    examples: dict[str, list] | None


def quality_questions(settings: Profile, shown: str) -> list[QualityQuestion]:
    """Return what a live judge is asked of FED's qualities, with some examples shown.

    The parameters are those of `PanelJudge.qualities` and a profile.
    """
    turns = rated(settings, "fed-turn")
    whole = ratings.fed_dialogues()
    whole = whole.head(settings.pairs_per_set or len(whole))
    whole = whole.assign(context=whole["turns"], response="")
    people = ratings.fed_qualities()
    questions = []
    for key, rows in people.groupby(["level", "quality"], sort=False):
        level, quality = cast(tuple[str, str], key)
        is_turn = level == "turn"
        family = "quality" if is_turn else "dialogue"
        prompt = f"{family}_{quality.lower().replace(' ', '_')}"
        table = turns if is_turn else whole
        pairs = pd.DataFrame(table[["pair_id", "context_id", "context", "response"]])
        human = pd.Series(rows.set_index("item")["human"])
        rating = pd.Series(pairs["pair_id"]).map(human)
        pool = pairs.assign(rating=rating).dropna(subset="rating")
        pairs, examples_by_pair = _with_examples(pairs, pool, shown, is_turn)
        questions.append(QualityQuestion(quality, prompt, pairs, examples_by_pair))
    return questions


def _with_examples(pairs, pool, shown, is_turn) -> tuple[pd.DataFrame, dict[str, list] | None]:
    """The pairs that can be asked about, and their examples; None if nothing is shown."""
    if shown == "zero":
        return pairs, None
    if shown == "manual":
        file = recordings.FOLDER / released.CLAUDE / "fed_examples.json"
        name, key = ("fed-turn", "turn_manual") if is_turn else ("fed-dialog", "dial_manual")
        chosen = [f"{name}/{i}" for i in json.loads(file.read_text(encoding="utf-8"))[key]]
        chosen = [pair_id for pair_id in chosen if pair_id in set(pool["pair_id"])]
        # What shares a dialogue with an example is not asked about.
        contexts = pool.loc[pool["pair_id"].isin(chosen), "context_id"]
        pairs = pd.DataFrame(pairs[~pairs["context_id"].isin(contexts)])
        by_pair = examples.select(pairs, pool, "manual", k=len(chosen), chosen=chosen)
        return pairs, by_pair
    if shown == "bm25":
        method = "bm25_both" if is_turn else "bm25_context"
        return pairs, examples.select(pairs, pool, method, k=3)
    draw = int(shown.removeprefix("random"))
    return pairs, examples.select(pairs, pool, "random", k=3, seed=draw)


class PanelJudge:
    """One judge of a profile.

    Attributes
    ----------
    name : str
        What tables call it: ``claude-2026-11``, ``openai:gpt-3.5-turbo-1106``, or the profile's
        ``name`` for it.
    printed_name : str
        What the papers call the same model, such as ``GPT-3.5``, or "".
    is_live : bool
        Whether the model is asked, and not a recording read.
    """

    def __init__(self, settings: Profile, judge: JudgeSettings):
        self.settings = settings
        self.judge = judge
        self.name = judge.label
        self.printed_name = printed_name(judge.model)
        self.is_live = judge.is_live

    def __repr__(self) -> str:
        return f"PanelJudge({self.name!r})"

    # What it says of pairs

    def scores(
        self,
        pairs: pd.DataFrame,
        prompt: str = "llm_only",
        numbers: pd.DataFrame | None = None,
        repeat: int = 0,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame | None:
        """Return what the judge says of some pairs, with one of the papers' prompts.

        Parameters
        ----------
        pairs : DataFrame
            With ``pair_id, context`` and ``response``.
        prompt : str
            ``llm_only``; ``dre`` (``dre_transfer`` and so on: the same prompt, recorded with other
            numbers); ``classify``; one of `FAMILIES`, for the mean of its criteria; or any other
            prompt, such as ``quality_relevant`` or ``good_response``.
        numbers : DataFrame or None
            What `numbers` returned: needed by interior refinement.
        repeat : int
            Which asking, from 0: another one asks again.
        examples : dict or None
            Rated examples for each pair, as `dre.judges.examples.select` returns them.

        Returns
        -------
        DataFrame or None
            A row for each pair, with the index of `pairs`. ``score`` is in [0, 5] (of
            ``quality_...`` on the prompt's own scale), ``influence`` in [0, 1], ``label`` Positive
            or Negative, ``cost`` in US dollars; what a reply lacks is NaN or None, and ``status``
            and ``reason`` say why. A family adds a column for each criterion, on its own scale.
            None if the recording has no such prompt for these pairs, or if the profile does not
            ask live judges for it.

        Raises
        ------
        DreError
            If the judge cannot be asked, or its budget is used up. What was answered is kept.
        """
        if self.is_live:
            if not self.asks(prompt):
                return None
            return self._asked(pairs, prompt, numbers, repeat, examples)
        if examples is not None:
            return None
        return self._recorded(pairs, prompt, repeat)

    def asks(self, prompt: str) -> bool:
        """Whether the profile has a live judge asked for a prompt: for most, it always has."""
        for beginning, option in OPTIONAL.items():
            if prompt.startswith(beginning):
                return option in self.settings.optional_prompts
        return True

    def numbers(
        self, pairs: pd.DataFrame, slm: Any, key: str, prompt: str = "dre"
    ) -> pd.DataFrame | None:
        """Return the numbers of a small model that this judge is shown in DRE's prompt (Eq. 24).

        For a live judge they are those of `slm`. For a recorded one they are those that it was
        shown when it was recorded, whatever `slm` is.

        Parameters
        ----------
        pairs : DataFrame
            With ``pair_id, context`` and ``response``.
        slm : object
            A small model, as `dre.slm.trained` returns it.
        key : str
            The set of the profile that it was trained on.
        prompt : str
            One of `_INTERIOR`: which recorded numbers.

        Returns
        -------
        DataFrame or None
            ``pair_id, s_d, s_p, score_slm``, with the index of `pairs`; of a live judge also
            ``slm_accuracy`` and ``llm_accuracy``, in [0, 1], from Table 3. None if a recording has
            none of these pairs.
        """
        if not self.is_live:
            return self._numbers_shown(pairs, _INTERIOR[prompt])
        table = slm.score(pairs).set_index(pairs.index)
        return pd.DataFrame(
            {
                "pair_id": pairs["pair_id"],
                "s_d": table["s_d"],
                "s_p": table["s_p"],
                "score_slm": table["score_slm"],
                "slm_accuracy": slm_accuracy(self.settings, slm, key),
                "llm_accuracy": self.accuracy(),
            }
        )

    def qualities(self, shown: str = "zero") -> pd.DataFrame | None:
        """Return its ratings of FED's qualities (Huynh et al., Tables 1 and 2).

        Parameters
        ----------
        shown : str
            Which rated examples it is shown: ``zero`` for none, ``random0`` (a draw), ``bm25`` (the
            nearest three) or ``manual`` (three dialogues that were chosen by hand).

        Returns
        -------
        DataFrame or None
            ``item`` and ``quality`` as `dre.datasets.ratings.fed_qualities` has them, and
            ``score``, on the scale of the quality. None as of `scores`.
        """
        if not self.is_live:
            recording = self.judge.model.removeprefix(RECORDED)
            if not (recordings.folder(recording) / "fed_qualities.jsonl").is_file():
                return None
            table = ratings.fed_judged(recording)
            is_shown = table["examples"] == shown
            table = pd.DataFrame(table[is_shown]).drop(columns="examples")
            return None if table.empty else table.reset_index(drop=True)
        if not self.asks("quality_overall"):
            return None
        parts = []
        for question in quality_questions(self.settings, shown):
            told = self.scores(question.pairs, question.prompt, examples=question.examples)
            assert told is not None, "the profile asks for these"
            part = told.rename(columns={"pair_id": "item"}).assign(quality=question.quality)
            parts.append(part[["item", "quality", "score"]])
        return pd.concat(parts, ignore_index=True)

    @functools.cache  # noqa: B019 (a panel lives as long as its notebook)
    def accuracy(self) -> float:
        """Return how often its labels are right, in [0, 1]: its number in Table 3."""
        pairs = pairs_to_label(self.settings)
        table = self.scores(pairs, "classify")
        if table is None or not table["label"].notna().to_numpy().any():
            raise DreError(f"{self.name} gave no label, so its accuracy (Table 3) is not known")
        is_accepted = (table["label"] == "Positive").astype(float).where(table["label"].notna())
        return _accuracy(pairs, classification.correct(pairs, is_accepted, 0.5))

    def strength(self) -> str:
        """Return its class: ``open`` (6 to 14 billion parameters), ``middle`` or ``current``.

        Of a live judge it is measured: the class whose recorded judges agree with people about as
        well, on the sets that judges of all classes have scored. "" if the profile has none of
        these sets.
        """
        if not self.is_live and self.name in _STRENGTH_OF_RECORDED:
            return _STRENGTH_OF_RECORDED[self.name]
        distances: dict[str, float] = dict.fromkeys(STRENGTHS, 0.0)
        names = [name for name in _SETS_OF_STRENGTH if name in self.settings.rated]
        for name in names:
            items = rated(self.settings, name)
            table = self.scores(items, "llm_only")
            if table is None:
                return ""
            human = pd.Series(items["human"])
            agreement = pd.Series(table["score"]).corr(human, method="spearman")
            for strength, typical in _typical_agreement(name).items():
                distances[strength] += (agreement - typical) ** 2
        return min(distances, key=lambda strength: distances[strength]) if names else ""

    # A recorded judge

    def _recorded(self, pairs, prompt, repeat):
        """What the recording has; None if it has nothing of these pairs."""
        recording = self.judge.model.removeprefix(RECORDED)
        if prompt in FAMILIES:
            return _recorded_criteria(recording, pairs, prompt)
        judge = Recorded(recording, repeat=repeat)
        if prompt not in judge.prompt_names:
            return None
        table = judge.score(pairs, prompt, ask=False)
        if (table["status"] == "missing").to_numpy().all():
            return None
        return _told(table, pairs)

    def _numbers_shown(self, pairs, file_name):
        """The numbers that a recorded judge was shown, or None."""
        file = recordings.folder(self.judge.model.removeprefix(RECORDED)) / file_name
        if not file.is_file():
            return None
        shown = pd.read_csv(file, index_col="pair_id").reindex(pairs["pair_id"])
        if shown["s_d"].isna().to_numpy().all():
            return None
        shown = shown.set_index(pairs.index)[["s_d", "s_p"]]
        score_slm = 1 - shown["s_d"] + shown["s_p"]
        return shown.assign(pair_id=pairs["pair_id"], score_slm=score_slm)

    # A live one

    def prompt(self, name: str) -> prompts.Prompt:
        """Return the prompt of a name: the profile's own file for it, or the built-in one."""
        path = self.settings.prompts.get(name)
        return prompts.load(self.settings.root / path if path else name)

    def prompt_names(self, prompt: str) -> list[str]:
        """Return the prompts that are sent: those of all criteria of a family, or one."""
        if prompt in FAMILIES:
            return [name for name in prompts.names() if name.startswith(f"{prompt}_")]
        return ["dre"] if prompt in _INTERIOR else [prompt]

    def open(self, prompt: str) -> Any:
        """Return the live judge as it is asked with a prompt: how often, how warm, how fast."""
        judge = self.judge
        is_sampled = prompt in _SAMPLED
        return judges.open_judge(
            judge.model,
            **judge.connection,
            temperature=_SAMPLING_TEMPERATURE if is_sampled else judge.temperature,
            repeats=self.settings.samples if is_sampled else judge.repeats,
        )

    def rows(
        self, pairs: pd.DataFrame, prompt: str, numbers: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Return the rows that a prompt is filled with: texts, and the numbers that it shows."""
        rows = pairs[["pair_id", "context", "response"]].assign(facts=pairs.get("facts", _NO_FACT))
        if prompt not in _INTERIOR:
            return rows
        if numbers is None:
            raise DreError(f"prompt {prompt} shows numbers of a small model: give numbers=")
        return rows.join(numbers.drop(columns="pair_id"))

    def _asked(self, pairs, prompt, numbers, repeat, examples):
        """What the live judge says, asked for what is not stored yet."""
        rows = self.rows(pairs, prompt, numbers)
        names = self.prompt_names(prompt)
        if prompt not in FAMILIES:
            return _told(self._ask(rows, prompt, names[0], repeat, examples), pairs)
        tables = {}
        for name in names:
            tables[name.removeprefix(f"{prompt}_")] = self._ask(rows, prompt, name, repeat)
        return _mean_of_criteria(tables, pairs, prompt)

    def _ask(self, rows, prompt, name, repeat, examples=None):
        """The table of one prompt; a DreError if the money ended before the pairs did."""
        judge = self.open(prompt)
        try:
            table = judge.score(
                rows, self.prompt(name), first=repeat * judge.repeats, examples=examples
            )
        finally:
            judge.close()
        if judge.last.stopped == "budget":
            raise DreError(
                f"{self.name} stopped at its budget, {judge.last.why}. All replies are kept: raise "
                f"max_usd in profiles/{self.settings.name}.yaml, and the same command goes on"
            )
        return table


def _told(table, pairs):
    """A judge's table with the columns of `PanelJudge.scores` and the index of the pairs."""
    told = table.rename(columns={"score_llm": "score", "s_inf": "influence"})
    return told.loc[:, list(COLUMNS)].set_index(pairs.index)


def _mean_of_criteria(tables: Mapping[str, pd.DataFrame], pairs, family):
    """One table of the tables of all criteria: the score is the mean of the four, on 0-5."""
    by_criterion = pd.DataFrame({name: table["score_llm"] for name, table in tables.items()})
    status = pd.Series("ok", index=by_criterion.index)
    reason = pd.Series("", index=by_criterion.index)
    cost = pd.Series(0.0, index=by_criterion.index)
    for table in tables.values():
        is_first_trouble = (status == "ok") & (table["status"] != "ok")
        status = status.mask(is_first_trouble, table["status"])
        reason = reason.mask(is_first_trouble, table["reason"])
        cost = cost + table["cost"]
    told = pd.DataFrame(
        {
            "pair_id": pairs["pair_id"].to_numpy(),
            "score": _on_top(by_criterion, family),
            "influence": np.nan,
            "label": None,
            "status": status,
            "reason": reason,
            "cost": cost,
        }
    )
    return told.join(by_criterion).set_index(pairs.index)


def _on_top(by_criterion: pd.DataFrame, family: str) -> pd.Series:
    """The mean of criteria, each brought to 0-1 by its own scale first, on 0-5."""
    shares = {}
    for criterion, column in by_criterion.items():
        low, high = _scale(f"{family}_{criterion}")
        shares[criterion] = (column - low) / (high - low)
    # Rounded, so that equal means stay ties.
    return (TOP * pd.DataFrame(shares).mean(axis=1, skipna=False)).round(9)


def _scale(name) -> tuple[float, float]:
    scale = prompts.load(name).scale
    assert scale is not None, "these prompts ask for a score"
    return scale


def _recorded_criteria(recording, pairs, family):
    """The criteria that a recorded judge rated in one reply, or None."""
    if not (recordings.folder(recording) / "criteria.jsonl").is_file():
        return None
    table = ratings.criteria(recording)
    table = table[table["prompt"] == family].set_index("pair_id")
    criteria = list(released.CRITERIA.values())
    by_criterion = table[criteria].reindex(pairs["pair_id"]).set_index(pairs.index)
    is_there = by_criterion.notna().all(axis=1)
    if not is_there.any():
        return None
    status = np.where(is_there, "ok", "missing")
    told = pd.DataFrame({"pair_id": pairs["pair_id"], "score": _on_top(by_criterion, family)})
    told = told.assign(influence=np.nan, label=None, status=status, reason="", cost=0.0)
    return told.join(by_criterion)


@functools.cache
def _typical_agreement(name: str) -> dict[str, float]:
    """By strength, the mean agreement of the recorded judges with people on a rated set."""
    human = pd.Series(ratings.rated(name)["human"])
    agreements: dict[str, list[float]] = {strength: [] for strength in STRENGTHS}
    for judge, column in released.scores(name).drop(columns="pair_id").items():
        strength = _STRENGTH_OF_RECORDED.get(str(judge), "middle")
        agreements[strength].append(pd.Series(column).corr(human, method="spearman"))
    return {strength: float(np.mean(values)) for strength, values in agreements.items()}


def printed_rows(table: pd.DataFrame, judge_names: Sequence[PanelJudge]) -> pd.DataFrame:
    """Return the rows of a paper's table that belong to judges of the panel.

    Parameters
    ----------
    table : DataFrame
        With a column ``judge``, as ``data/paper/dre_table4.csv`` has.
    judge_names : list of PanelJudge
        The panel.

    Returns
    -------
    DataFrame
        The same columns, with our name of the judge in ``judge`` and the paper's in ``printed``.
    """
    parts = []
    for judge in judge_names:
        if judge.printed_name:
            rows = table[table["judge"] == judge.printed_name]
            parts.append(rows.assign(judge=judge.name, printed=judge.printed_name))
    return pd.concat(parts) if parts else table.head(0).assign(printed="")
