"""Carrying out what a profile plans: trainings and questions to live judges, before notebooks.

Every reply is stored when it comes. So a run that was ended goes on where it was, and what is
stored is not paid for again.
"""

import functools
from collections.abc import Sequence

import pandas as pd

from dre.errors import DreError
from dre.judges.ask import side_by_side
from dre.judges.judge import new_run
from dre.paper import bill, judgements, plan, trainings
from dre.paper.judgements import PaidBy, PanelJudge
from dre.paper.plan import Ask
from dre.paper.profile import Profile

_ABSENT = ("error", "missing")  # the statuses of what did not come


def train(settings: Profile) -> None:
    """Train the models that notebooks of a profile read, and that are not in the build folder."""
    for training in plan.trainings(settings):
        trainings.load_or_train(settings, *training)


def ask(settings: Profile, notebook: str | None = None, run: str | None = None) -> list[str]:
    """Ask the live judges of a profile, side by side, for what is not stored yet.

    Small models whose numbers judges are shown come first: they are trained if they are not there.
    A judge that dies, or whose money ends, is not asked further; the others are.

    Parameters
    ----------
    settings : the profile.
    notebook : str, optional
        Only what this notebook reads; by default what all notebooks of the profile read.
    run : str, optional
        The run that pays, as `dre.judges.judge.new_run` returns it; by default one of its own.

    Returns
    -------
    list of str
        What did not come: for each judge that lacks replies a sentence with how many, why, and how
        to go on.

    Raises
    ------
    KeyboardInterrupt
        If the run was interrupted. What was answered is kept.
    """
    live_judges = [judge for judge in judgements.panel(settings) if judge.is_live]
    if not live_judges:
        return []
    planned = plan.asks(settings, notebook)
    # A training and a score take all cores, so they are not made side by side.
    numbers = _numbers_shown(settings, planned)
    ask_judge = functools.partial(
        _ask_judge, planned=planned, numbers=numbers, run=run or new_run()
    )
    sentences = side_by_side([functools.partial(ask_judge, judge) for judge in live_judges])
    return [sentence for sentence in sentences if sentence]


def _numbers_shown(settings, planned):
    """Return for each question the numbers of a small model that it shows, if any."""
    slms = {}
    accuracies = {}
    numbers = []
    for question in planned:
        training = question.training
        if training is None:
            numbers.append(None)
            continue
        if training not in slms:
            slms[training] = trainings.trained(settings, *training)
            accuracies[training] = judgements.slm_accuracy(settings, slms[training], training.key)
        table = judgements.slm_scores(question.pairs, slms[training])
        numbers.append(table.assign(slm_accuracy=accuracies[training]))
    return numbers


def _ask_judge(
    judge: PanelJudge,
    planned: Sequence[Ask],
    numbers: Sequence[pd.DataFrame | None],
    run: str,
) -> str:
    """Ask one judge all questions that are meant for it, in their order; say what did not come."""
    not_come = []
    why_ended = ""
    for question, of_slm in zip(planned, numbers, strict=True):
        if why_ended or (question.main_judge_only and not judge.is_main):
            continue
        about = f"{question.table}, {question.prompt}"
        of_both = None
        if of_slm is not None:
            of_both = judge.interior_numbers(question.pairs, of_slm)
            if of_both is None:
                not_come.append(f"{about}: not asked, since {judge.why_absent(question.prompt)}")
                continue
        what = (question.pairs, question.prompt, of_both)
        paid_by = PaidBy(run, bill.account(judge.settings, judge.name, question.table))
        try:
            table = judge.ask(*what, question.examples, paid_by)
            # A label that comes in a later run changes the accuracy that DRE's prompt shows, and so
            # all of DRE's replies would be paid for again. What failed is asked once more at once.
            if {*table["status"]} & {*_ABSENT}:
                table = judge.ask(*what, question.examples, paid_by)
        except DreError as error:
            why_ended = str(error)
            table = judge.replies(*what, examples=question.examples)
        n_unread = sum(status not in ("ok", *_ABSENT) for status in table["status"])
        unread = f", {n_unread:,} of them with a reply that cannot be used" if n_unread else ""
        print(f"{judge.name}: {about}: {len(table):,} pairs{unread}", flush=True)
        absent = table[table["status"].isin(_ABSENT)]
        if len(absent):
            reason = why_ended or [*absent["reason"]][0]
            counts = f"{len(absent):,} of {len(table):,} replies"
            not_come.append(f"{about}: {counts} did not come ({reason})")
    if not not_come:
        return ""
    if why_ended:
        not_come.append("what comes after it was not asked")
    return (
        f"{judge.name}: {'; '.join(not_come)}. All replies that came are kept: the same command "
        f"goes on; or take the judge out of `judges` in profiles/{judge.settings.name}.yaml"
    )
