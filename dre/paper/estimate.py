"""What a run of a profile would take, before anything is spent: ``make paper ARGS=--estimate``.

Nothing is asked, fetched or trained; where public data are missing, that is an error. What is
stored already is not counted, except with DRE's prompt, whose numbers come from small models that
may not be trained yet.
"""

import math

import pandas as pd

from dre.datasets import dialogues, registry
from dre.judges import prices
from dre.paper import judgements, plan
from dre.paper.judgements import PanelJudge
from dre.paper.plan import OPTIONAL, Ask
from dre.paper.profile import Profile
from dre.slm import recipes

#: Tokens of a typical reply where it is longer than a score: an analysis comes before the rating.
_REPLY = {"analyse_rate": 120}
#: Seconds of a training step with 8 contexts (DistilBERT, texts of 512 tokens), as measured.
SECONDS_PER_STEP = 0.138
MEASURED_ON = "one NVIDIA H200 (bfloat16, torch 2.11)"
#: Contexts of training sets that are fetched for a run alone (of the authors' sets, those with
#: adversarial responses), as DRE's Table 2 has them.
_CONTEXTS = {"dailydialog++": 9259, "personachat-gpt4": 1610, "topicalchat-gpt4": 1610}
COLUMNS = ["table", "judge", "prompt", "calls", "tokens_in", "tokens_out", "usd", "usd_at_most"]


@registry.nothing_fetched()
def calls(settings: Profile, notebook: str | None = None) -> pd.DataFrame:
    """Return what is still to be asked of the live judges of a profile.

    Parameters
    ----------
    settings : the profile.
    notebook : str, optional
        Only what this notebook reads; by default what all notebooks of the profile read.

    Returns
    -------
    DataFrame
        A row for each table, judge and prompt: ``calls``, ``tokens_in`` and ``tokens_out`` about,
        ``usd`` about and ``usd_at_most`` (NaN if no price is known). A reply that two tables need
        is counted in the first of them.

    Raises
    ------
    DreError
        If what is asked about is missing, such as public data, or a judge cannot be opened.
    """
    rows = []
    planned = plan.asks(settings, notebook) if settings.has_live_judge else []
    for judge in judgements.panel(settings):
        if not judge.is_live:
            continue
        counted = set()
        trainings = []  # in the order in which their numbers are shown first
        for question in planned:
            if question.main_judge_only and not judge.is_main:
                continue
            if question.training and question.training not in trainings:
                trainings.append(question.training)
            rows.append(_row(judge, question, counted, trainings))
    table = pd.DataFrame(rows, columns=COLUMNS)
    sums = pd.DataFrame(table.groupby(COLUMNS[:3], sort=False).sum(min_count=1))
    return sums.query("calls > 0").reset_index()


def _row(judge: PanelJudge, question: Ask, counted, trainings) -> dict:
    """What one question takes, without what earlier ones counted."""
    live = judge.open(question.prompt)
    families = (name for name in OPTIONAL if question.prompt.startswith(name))
    family = next(families, question.prompt)
    sums = dict.fromkeys(COLUMNS[3:], 0.0)
    numbers = None
    if question.training:
        numbers = _stand_in(question.pairs, trainings.index(question.training))
    rows = judge.rows(question.pairs, question.prompt, numbers)
    if question.examples is not None:
        rows["examples"] = [question.examples[pair_id] for pair_id in rows["pair_id"]]
    for name in judge.prompt_names(question.prompt):
        prompt = judge.prompt(name)
        unanswered = live.unanswered(live.requests(rows, prompt), prompt)
        new = {request.key: request for request in unanswered if request.key not in counted}
        counted.update(new)
        expected = live.expect(list(new.values()), prompt, _REPLY.get(family))
        for key, value in zip(sums, expected):
            sums[key] += value
    live.close()
    prompt_name = family if question.table == "Huynh et al." else question.prompt
    return {"table": question.table, "judge": judge.name, "prompt": prompt_name, **sums}


def _stand_in(pairs, training):
    """Numbers as long as those of a small model, which may not be trained yet.

    Each training has its own, so that what is asked with the numbers of two counts twice.
    """
    value = 0.5 + training / 1000
    table = pairs[["pair_id"]].assign(s_d=1 - value, s_p=value, score_slm=2 * value)
    return table.assign(slm_accuracy=0.5, llm_accuracy=0.5)


@registry.nothing_fetched()
def hours(settings: Profile) -> tuple[int, float]:
    """Return how many small models a profile trains, and at most the hours of a GPU of that.

    They are the steps that train an encoder, times `SECONDS_PER_STEP`: a step of fewer contexts
    takes less. DreError if a training set is missing.
    """
    sizes = {}
    n_more = 0
    for entry in settings.sets:
        name, split = entry.train
        is_listed = split == "train" and name in _CONTEXTS
        sizes[entry.key] = _CONTEXTS[name] if is_listed else len(dialogues.load(name, split))
        n_more += len(dialogues.load(name, entry.more)) if entry.more else 0
    planned = plan.trainings(settings)
    n_steps = 0
    for training in planned:
        model = settings.models[training.model]
        recipe = recipes.get(model.recipe, model.epochs)
        size = sizes[training.key]
        if recipe.takes_all_sets:
            size = sum(sizes.values()) + n_more
        n_epochs = sum(stage.epochs for stage in recipe.stages if "encoder" in stage.trains)
        n_steps += n_epochs * math.ceil(size / (model.batch_contexts or recipe.batch_contexts))
    return len(planned), n_steps * SECONDS_PER_STEP / 3600


def of_notebook(settings: Profile, notebook: str) -> str:
    """Say in words what asking for one notebook will take, a line for each live judge."""
    by_judge = calls(settings, notebook).groupby("judge", sort=False)
    return "\n".join(f"{judge}: {_in_words(_sums(rows))}" for judge, rows in by_judge)


def report(settings: Profile) -> str:
    """Return the estimate in words, as ``--estimate`` prints it."""
    table = calls(settings)
    lines = [f"profile {settings.name}: what a run would take. Nothing was asked.", ""]
    for row in table.to_dict("records"):
        lines.append(f"{row['table']:<14} {row['prompt']:<14} {row['judge']:<34} {_in_words(row)}")
    for judge, rows in table.groupby("judge", sort=False):
        lines.append(f"in all, {judge}: {_in_words(_sums(rows))}")
    optional = ", ".join(sorted({*OPTIONAL.values()} - {*settings.optional_prompts}))
    if table.empty:
        lines.append("Judges: no calls; all that is needed is recorded or stored.")
    elif optional:
        lines.append(f"Not asked, since optional_prompts does not name them: {optional}")
    n_models, n_hours = hours(settings)
    lines += [
        f"Small models: {n_models} trainings, at most about {n_hours:.1f} hours of a GPU: "
        f"{SECONDS_PER_STEP} s a step, measured on {MEASURED_ON}.",
    ]
    if settings.pcaf is not None and plan.is_run(settings, "11_"):
        lines.append("PCAF is trained as well, and nobody has measured how long that takes.")
    return "\n".join(lines)


def _sums(rows):
    """Return the sums of some rows of `calls`, without dollars where a price is not known."""
    return rows[COLUMNS[3:]].sum(skipna=False)


def _in_words(row):
    """Return calls, tokens and dollars of a row of `calls`, or of sums of such rows, in words."""
    money = "price unknown"
    if not math.isnan(row["usd"]):
        money = prices.in_words(row["usd"], row["usd_at_most"])
    tokens = f"{row['tokens_in'] / 1e6:.2f} M tokens in, {row['tokens_out'] / 1e6:.2f} M out"
    return f"{row['calls']:,.0f} calls, {tokens}, {money}"
