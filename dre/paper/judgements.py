"""The judges of a profile, and what each said of some pairs with each prompt of the papers.

`panel` returns the judges in the order of the profile. Nobody is asked here: a recorded judge
repeats its recording, and of a live one the stored replies are read. `dre.paper.ask` asks live
judges what `dre.paper.plan` says.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre import classification, judges
from dre.datasets import dialogues, recordings
from dre.errors import DreError
from dre.judges import prompts, released
from dre.judges.judge import new_run
from dre.paper import contexts, plan
from dre.paper.plan import BY_TOKEN, FAMILIES, INTERIOR, SAMPLED
from dre.paper.profile import RECORDED, JudgeSettings, Profile

#: The papers' names of models, by ours.
ALIASES = Path(__file__).with_name("aliases.csv")
COLUMNS = ("pair_id", "score", "influence", "label", "status", "reason", "cost")
TOP = 5  # of the scale of all scores
_NO_FACT = "(none is given)"  # stands where a prompt shows a fact and a set has none
_MIDDLE = (released.HAIKU, *released.GPT35, "GPT-3.5", "Claude3")
#: Classes of judges by what is known of them: recorded ones by name, live ones by name in print.
_STRENGTH_OF = {
    released.CLAUDE: "strong",
    **dict.fromkeys(released.P_YES, "open"),
    **dict.fromkeys(_MIDDLE, "middle"),
}
#: The share of replies that may be absent, such as to a dialogue that a judge never answers.
_FEW = 0.01
_SAMPLING_TEMPERATURE = 1.0


def panel(settings: Profile) -> "list[PanelJudge]":
    """Return the judges of a profile, in its order.

    Parameters
    ----------
    settings : the profile of a notebook, ``book.profile``.
    """
    return [PanelJudge(settings, judge) for judge in settings.judge_settings]


def main_judge(panel: "Sequence[PanelJudge]") -> "PanelJudge":
    """Return the judge of a panel that main tables and figures show."""
    return next(judge for judge in panel if judge.is_main)


def printed_name(model: str) -> str:
    """Return what the papers call a model, as ``openai:gpt-4-1106-preview``, or "" if nowhere."""
    names = pd.read_csv(ALIASES, index_col="model")["printed"]
    return str(names.get(model, ""))


def strength(model: str) -> str:
    """Return the class of a judge, one of `dre.paper.table4.STRENGTHS`, or "" if it is unknown.

    Open are five models of 6 to 14 billion parameters, asked one question by others. Middle are
    Claude-3-haiku and GPT-3.5. Current, which tables call strong, is ``claude-2026-11``.

    Parameters
    ----------
    model : str
        The name of a recorded judge, or what the papers call a live one.
    """
    return _STRENGTH_OF.get(model, "")


def slm_scores(pairs: pd.DataFrame, slm: Any) -> pd.DataFrame:
    """Return the scores of a small model that DRE's prompt shows a judge (Eq. 24).

    Parameters
    ----------
    pairs : DataFrame
        With ``pair_id, context`` and ``response``.
    slm : a small model, or its recorded scores, as `dre.paper.trainings.trained` returns them.

    Returns
    -------
    DataFrame
        ``pair_id, s_d, s_p, score_slm``, with the index of `pairs`.
    """
    table = slm.score(pairs).set_index(pairs.index)
    return table[["s_d", "s_p", "score_slm"]].assign(pair_id=pairs["pair_id"])


def slm_accuracy(settings: Profile, slm: Any, key: str) -> float:
    """Return how often a small model tells positive from adversarial responses, in [0, 1].

    That is the number of Table 3 which DRE's prompt tells the judge: the mean accuracy on both
    kinds of the test split of one of ``settings.sets``, at the threshold that is best on dev.

    Parameters
    ----------
    settings : the profile.
    slm : a small model, or its recorded scores, as `dre.paper.trainings.trained` returns them.
    key : the set of the profile that it was trained on.
    """
    entry = next(entry for entry in settings.sets if entry.key == key)
    dev, test = (dialogues.pairs(split, "pa") for split in contexts.held_out(entry))
    threshold = classification.choose_threshold(slm.score(dev)["score_slm"], dev["kind"])
    return _accuracy(test, classification.correct(test, slm.score(test)["score_slm"], threshold))


def _accuracy(pairs, decisions):
    """The mean of the accuracies on positive and on adversarial responses."""
    decisions = np.asarray(decisions, float)
    kinds = pairs["kind"].to_numpy()
    accuracies = [np.nanmean(decisions[kinds == kind]) for kind in ("p", "a")]
    return float(np.mean(accuracies))


class PaidBy(NamedTuple):
    """Who pays for a call: a run, as `dre.judges.judge.new_run` names it, and on which account."""

    run: str
    account: str


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
    is_main : bool
        Whether main tables and figures show it.
    """

    def __init__(self, settings: Profile, judge: JudgeSettings):
        self.settings = settings
        self.judge = judge
        self.name = judge.label
        self.printed_name = printed_name(judge.model)
        self.is_live = judge.is_live
        self.is_main = judge.label == settings.main_label
        self._accuracy: float | None = None
        self._n_absent = {}  # by prompt, how many replies did not come, and of how many
        self._why_no_numbers = ""

    # What it said of pairs

    def scores(
        self,
        pairs: pd.DataFrame,
        prompt: str = "llm_only",
        numbers: pd.DataFrame | None = None,
        repeat: int = 0,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame | None:
        """Return what the judge said of some pairs, with one of the papers' prompts.

        Nobody is asked: of a live judge the stored replies are read.

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
            Which asking, from 0.
        examples : dict or None
            Rated examples for each pair, as `dre.paper.examples.select` returns them.

        Returns
        -------
        DataFrame or None
            A row for each pair, with the index of `pairs`. ``score`` is in [0, 5] (of
            ``quality_...`` on the prompt's own scale), ``influence`` in [0, 1], ``label`` Positive
            or Negative, ``cost`` in US dollars; what a reply lacks is NaN or None, and ``status``
            and ``reason`` say why. A family adds a column for each criterion, on its own scale.
            None if the recording has no such prompt for these pairs, if the profile does not have
            live judges asked for it, or if more than one in a hundred of a live judge's replies did
            not come: `why_absent`.
        """
        if not self.is_live:
            return None if examples is not None else self._recorded_table(pairs, prompt, repeat)
        is_without_numbers = prompt in INTERIOR and numbers is None
        if not self.asks(prompt) or is_without_numbers:
            return None
        table = self.replies(pairs, prompt, numbers, repeat, examples)
        counts = list(table["status"]).count("missing"), len(table)
        if counts[0] <= _FEW * len(table):
            return table
        if not self._n_absent:
            print(
                f"{self.name} has not answered all that is read here: `book.ask()` in a cell above "
                f"asks what a notebook reads, and make paper PROFILE={self.settings.name} what all "
                "of them do"
            )
        self._n_absent[prompt] = max(counts, self._n_absent.get(prompt, counts))
        return None

    def why_absent(self, prompt: str) -> str:
        """Return why `scores` had nothing of a live judge; "" if it had, or of a recorded one.

        Parameters
        ----------
        prompt : the name of a prompt, or how names of prompts begin, such as ``quality``.
        """
        if not self.is_live:
            return ""
        if not self.asks(prompt):
            return f"optional_prompts does not name {plan.option_of(prompt)}"
        if prompt in INTERIOR and self._why_no_numbers:
            return self._why_no_numbers
        counts = [(0, 0)]
        for name, of_prompt in self._n_absent.items():
            if name == prompt or (prompt in BY_TOKEN and name.startswith(prompt)):
                counts.append(of_prompt)
        n_absent, n = max(counts)
        if not n_absent:
            return ""
        return (
            f"{n_absent:,} of {n:,} replies did not come: make paper "
            f"PROFILE={self.settings.name} asks for them"
        )

    def ask(
        self,
        pairs: pd.DataFrame,
        prompt: str,
        numbers: pd.DataFrame | None = None,
        examples: dict[str, list] | None = None,
        paid_by: "PaidBy | None" = None,
    ) -> pd.DataFrame:
        """Ask a live judge for what is not stored yet, and return what `scores` does.

        The parameters are those of `scores`, and who pays: by default a run of its own.

        Raises
        ------
        DreError
            If the judge cannot be asked, or its budget is used up. What was answered is kept.
        """
        paid_by = paid_by or PaidBy(new_run(), "")
        return self.replies(pairs, prompt, numbers, 0, examples, paid_by)

    def asks(self, prompt: str) -> bool:
        """Whether the profile has a live judge asked for a prompt: for most, it always has."""
        return plan.is_named(self.settings, prompt)

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
            A small model, as `dre.paper.trainings.trained` returns it.
        key : str
            The set of the profile that it was trained on.
        prompt : str
            One of `dre.paper.plan.INTERIOR`: which recorded numbers.

        Returns
        -------
        DataFrame or None
            ``pair_id, s_d, s_p, score_slm``, with the index of `pairs`; of a live judge also
            ``slm_accuracy`` and ``llm_accuracy``, in [0, 1], from Table 3. None if a recording has
            none of these pairs, or a live judge has no accuracy.
        """
        if not self.is_live:
            return self.interior_numbers(pairs, None, prompt)
        accuracy = slm_accuracy(self.settings, slm, key)
        return self.interior_numbers(pairs, slm_scores(pairs, slm).assign(slm_accuracy=accuracy))

    def interior_numbers(
        self, pairs: pd.DataFrame, of_slm: pd.DataFrame | None, prompt: str = "dre"
    ) -> pd.DataFrame | None:
        """Return what `numbers` does, of scores that are there already.

        Parameters
        ----------
        pairs, prompt : as of `numbers`.
        of_slm : DataFrame or None
            What `slm_scores` returned of these pairs, with ``slm_accuracy``. A recorded judge does
            without it.
        """
        if not self.is_live:
            return self._numbers_shown(pairs, INTERIOR[prompt])
        assert of_slm is not None, "a live judge is shown numbers of a small model"
        accuracy = self.accuracy()
        if accuracy is None:
            why = self.why_absent("classify") or "too few of them can be read"
            self._why_no_numbers = f"DRE's prompt shows how often its labels are right: {why}"
            return None
        self._why_no_numbers = ""
        return of_slm.assign(llm_accuracy=accuracy)

    def qualities(self, selection: plan.Selection = plan.ZERO_SHOT) -> pd.DataFrame | None:
        """Return its ratings of FED's qualities (Huynh et al., Tables 1 and 2).

        Parameters
        ----------
        selection : Selection
            Which rated examples it is shown: ``zero`` for none, ``random0`` (a draw), ``bm25`` (the
            nearest) or ``manual`` (three dialogues that were chosen by hand). A recording has three
            of each.

        Returns
        -------
        DataFrame or None
            ``item`` and ``quality`` as `dre.datasets.ratings.fed_qualities` has them, and
            ``score``, on the scale of the quality. None as of `scores`.
        """
        if not self.is_live:
            if not self._has_file("fed_qualities.jsonl"):
                return None
            table = recordings.fed_judged(self.recording)
            table = table.query("examples == @selection.choice").drop(columns="examples")
            return None if table.empty else table.reset_index(drop=True)
        if not self.asks("quality_overall"):
            return None
        tables = []
        for question in plan.quality_questions(self.settings, selection):
            table = self.scores(question.pairs, question.prompt, examples=question.examples)
            score = np.nan if table is None else table["score"]
            ratings = pd.DataFrame({"item": question.pairs["pair_id"], "score": score})
            tables.append(ratings.assign(quality=question.name))
        return pd.concat(tables, ignore_index=True)

    def goodness(self, question: plan.Question) -> pd.Series | None:
        """Return how good a live judge calls responses, from 0 to 1 (Huynh et al., section 3.2).

        It is p(yes) of a judge with ``logprobs``; of others 1 for a yes and 0 for a no.

        Parameters
        ----------
        question : one of `dre.paper.plan.yes_no_questions`.

        Returns
        -------
        Series or None
            With the index of the question's pairs, NaN where no answer can be read. None as of
            `scores`.
        """
        table = self.scores(question.pairs, question.prompt, examples=question.examples)
        if table is None:
            return None
        if self.judge.logprobs:
            return pd.Series(table["score"])
        label = pd.Series(table["label"])
        return (label == "Positive").astype(float).where(label.notna())

    def accuracy(self) -> float | None:
        """Return how often its labels are right, in [0, 1]: its number in Table 3.

        None if not all labels came, or none of a kind can be read.
        """
        if self._accuracy is None:
            pairs = plan.pairs_to_label(self.settings)
            table = self.scores(pairs, "classify")
            if table is None:
                return None
            has_label = table["label"].notna()
            if not {"p", "a"} <= set(pairs["kind"][has_label]):
                return None
            is_accepted = (table["label"] == "Positive").astype(float).where(has_label)
            self._accuracy = _accuracy(pairs, classification.correct(pairs, is_accepted, 0.5))
        return self._accuracy

    def strength(self) -> str:
        """Return its class as `strength` does, of the model and not of its name in the profile."""
        return strength(self.printed_name or self.judge.model.removeprefix(RECORDED))

    # A recorded judge

    @property
    def recording(self):
        """The name of the recording, or its folder; a path begins at the project's folder."""
        name = self.judge.model.removeprefix(RECORDED)
        folder = self.settings.root / name
        is_path = not recordings.exists(name) and recordings.exists(str(folder))
        return str(folder) if is_path else name

    def _has_file(self, name):
        """Whether the recording has a file besides its judgements."""
        recording = self.recording
        return recordings.exists(recording) and (recordings.folder(recording) / name).is_file()

    def _recorded_table(self, pairs, prompt, repeat):
        """What the recording has; None if it has nothing of these pairs."""
        if prompt in FAMILIES:
            if not self._has_file("criteria.jsonl"):
                return None
            return _recorded_criteria(self.recording, pairs, prompt)
        judge: Any = judges.open(f"{RECORDED}{self.recording}", repeat=repeat)
        if not judge.knows(prompt):
            return None
        table = judge.score(pairs, prompt, ask=False)
        if (table["status"] == "missing").all():
            return None
        return _told(table, pairs)

    def _numbers_shown(self, pairs, file_name):
        """The numbers that a recorded judge was shown, or None."""
        if not self._has_file(file_name):
            return None
        numbers = recordings.numbers_shown(self.recording, file_name).reindex(pairs["pair_id"])
        if numbers["s_d"].isna().to_numpy().all():
            return None
        numbers = numbers.set_index(pairs.index)
        score_slm = 1 - numbers["s_d"] + numbers["s_p"]
        return numbers.assign(pair_id=pairs["pair_id"], score_slm=score_slm)

    # A live one

    def prompt(self, name: str) -> prompts.Prompt:
        """Return the prompt of a name: the profile's own file for it, or the built-in one."""
        path = self.settings.prompts.get(name)
        return prompts.load(self.settings.root / path if path else name)

    def prompt_names(self, prompt: str) -> list[str]:
        """Return the prompts that are sent: those of all criteria of a family, or one."""
        if prompt in FAMILIES:
            return [name for name in prompts.names() if name.startswith(f"{prompt}_")]
        return ["dre"] if prompt in INTERIOR else [prompt]

    def open(self, prompt: str) -> Any:
        """Return the live judge as it is asked with a prompt: how often, how warm, how fast."""
        judge = self.judge
        is_sampled = prompt in SAMPLED
        is_by_token = prompt.startswith(BY_TOKEN)
        return judges.open(
            judge.model,
            **judge.connection,
            logprobs=judge.logprobs if is_by_token else False,
            temperature=_SAMPLING_TEMPERATURE if is_sampled else judge.temperature,
            repeats=self.settings.samples if is_sampled else judge.repeats,
        )

    def rows(
        self, pairs: pd.DataFrame, prompt: str, numbers: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Return the rows that a prompt is filled with: texts, and the numbers that it shows."""
        rows = pairs[["pair_id", "context", "response"]].assign(facts=pairs.get("facts", _NO_FACT))
        if prompt not in INTERIOR:
            return rows
        if numbers is None:
            raise DreError(f"prompt {prompt} shows numbers of a small model: give numbers=")
        return rows.join(numbers.drop(columns="pair_id"))

    def replies(
        self,
        pairs: pd.DataFrame,
        prompt: str,
        numbers: pd.DataFrame | None = None,
        repeat: int = 0,
        examples: dict[str, list] | None = None,
        paid_by: "PaidBy | None" = None,
    ) -> pd.DataFrame:
        """Return what a live judge said, or says if somebody pays for what is not stored yet."""
        rows = self.rows(pairs, prompt, numbers)
        names = self.prompt_names(prompt)
        if prompt not in FAMILIES:
            return _told(self._replies(rows, prompt, names[0], repeat, examples, paid_by), pairs)
        tables = {}
        for name in names:
            table = self._replies(rows, prompt, name, repeat, None, paid_by)
            tables[name.removeprefix(f"{prompt}_")] = table
        return _mean_of_criteria(tables, pairs, prompt)

    def _replies(self, rows, prompt, name, repeat, examples, paid_by):
        """The table of one prompt; a DreError if the money ended before the pairs did."""
        judge = self.open(prompt)
        if paid_by is not None:
            judge.run, judge.account = paid_by
        try:
            table = judge.score(
                rows,
                self.prompt(name),
                first=repeat * judge.repeats,
                ask=paid_by is not None,
                examples=examples,
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
    scores = table.rename(columns={"score_llm": "score", "s_inf": "influence"})
    return scores[[*COLUMNS]].set_index(pairs.index)


def _mean_of_criteria(tables, pairs, family):
    """One table of the tables of all criteria, each with the first trouble that one of them had."""
    by_criterion = pd.DataFrame({name: table["score_llm"] for name, table in tables.items()})
    trouble = pd.DataFrame({"status": "ok", "reason": ""}, index=by_criterion.index)
    for table in tables.values():
        is_first = (trouble["status"] == "ok") & (table["status"] != "ok")
        trouble = trouble.mask(is_first, table[["status", "reason"]])
    trouble["cost"] = sum(table["cost"] for table in tables.values())
    return _of_family(pairs, by_criterion, family, trouble)


def _of_family(pairs, by_criterion, family, outcomes):
    """The table of `PanelJudge.scores`: the score is the mean of the four criteria, on 0-5."""
    scores = outcomes.assign(
        pair_id=pairs["pair_id"].to_numpy(),
        score=_on_top(by_criterion, family),
        influence=np.nan,
        label=None,
    )
    return scores.join(by_criterion)[[*COLUMNS, *by_criterion]].set_index(pairs.index)


def _on_top(by_criterion, family):
    """The mean of criteria, each brought to 0-1 by its own scale first, on 0-5."""
    shares = {}
    for criterion, column in by_criterion.items():
        scale = prompts.load(f"{family}_{criterion}").scale
        assert scale is not None, "these prompts ask for a score"
        low, high = scale
        shares[criterion] = (column - low) / (high - low)
    # Rounded, so that equal means stay ties.
    return (TOP * pd.DataFrame(shares).mean(axis=1, skipna=False)).round(9)


def _recorded_criteria(recording, pairs, family):
    """The criteria that a recorded judge rated in one reply, or None."""
    table = recordings.criteria(recording)
    table = table[table["prompt"] == family].set_index("pair_id")
    criteria = list(released.CRITERIA.values())
    by_criterion = table[criteria].reindex(pairs["pair_id"]).reset_index(drop=True)
    is_there = by_criterion.notna().all(axis=1)
    if not np.any(is_there):
        return None
    outcomes = pd.DataFrame(
        {"status": np.where(is_there, "ok", "missing"), "reason": "", "cost": 0.0}
    )
    return _of_family(pairs, by_criterion, family, outcomes)
