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


def train(settings: Profile) -> None:
    """Train the models that notebooks of a profile read, and that are not in the build folder."""
    for training in plan.trainings(settings):
        if not trainings.has_model(settings, *training):
            trainings.load_or_train(settings, *training)


def ask(settings: Profile, notebook: str | None = None, run: str | None = None) -> None:
    """Ask the live judges of a profile, side by side, for what is not stored yet.

    Small models whose numbers judges are shown come first: they are trained if they are not there.

    Parameters
    ----------
    settings : the profile.
    notebook : str, optional
        Only what this notebook reads; by default what all notebooks of the profile read.
    run : str, optional
        The run that pays, as `dre.judges.judge.new_run` returns it; by default one of its own.

    Raises
    ------
    DreError
        If a judge cannot be asked, its budget is used up, or none of its replies came. The others
        are asked nevertheless. What was answered is kept.
    KeyboardInterrupt
        If the run was interrupted.
    """
    live_judges = [judge for judge in judgements.panel(settings) if judge.is_live]
    if not live_judges:
        return
    planned = plan.asks(settings, notebook)
    # A training and a score take all cores, so they are not made side by side.
    numbers = _numbers_shown(settings, planned)
    ask_judge = functools.partial(
        _ask_judge, planned=planned, numbers=numbers, run=run or new_run()
    )
    side_by_side([functools.partial(ask_judge, judge) for judge in live_judges])


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
) -> None:
    """Ask one judge all questions that are meant for it, in their order."""
    for question, of_slm in zip(planned, numbers, strict=True):
        if question.main_judge_only and not judge.is_main:
            continue
        of_both = None
        if of_slm is not None:
            of_both = judge.interior_numbers(question.pairs, of_slm)
        paid_by = PaidBy(run, bill.account(judge.settings, question.table))
        table = judge.ask(question.pairs, question.prompt, of_both, question.examples, paid_by)
        _report(judge, question, table)


def _report(judge, question, table):
    """Print what a judge was asked; a DreError if no reply came."""
    is_absent = table["status"].isin(["error", "missing"])
    about = f"{judge.name}: {question.table}, {question.prompt}: {len(table):,} pairs"
    if not is_absent.any():
        print(about, flush=True)
        return
    reason = table.loc[is_absent, "reason"].iloc[0]
    if is_absent.all():
        raise DreError(f"{about}, and no reply came: {reason}. The same command asks again")
    print(f"{about}, {is_absent.sum():,} replies did not come: {reason}", flush=True)
