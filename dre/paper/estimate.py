"""What a run of a profile would take, before anything is spent: ``make paper ARGS=--estimate``.

Nothing is asked, fetched or trained; where public data are missing, that is an error. What is
stored already is not counted, except with DRE's prompt, whose numbers come from small models that
may not be trained yet.
"""

import math
from typing import NamedTuple

import pandas as pd

from dre.augment import algorithm
from dre.datasets import dialogues, registry
from dre.judges import prices, prompts
from dre.paper import judgements, plan, written_sets
from dre.paper.judgements import PanelJudge
from dre.paper.plan import OPTIONAL, Ask
from dre.paper.profile import Profile
from dre.slm import recipes

#: Tokens of a typical reply where it is longer than a score: an analysis comes before the rating.
REPLY = {"analyse_rate": 120}
#: The papers' own speed with Ollama on an RTX A6000 (DRE, section 4.4): minutes for an example.
_MINUTES_OF_DEEPSEEK = 3.0
_MINUTES_OF_OTHERS = 1.0
#: On which GPU steps that train an encoder were measured, and where their times are.
MEASURED_ON = "one NVIDIA H200 (bfloat16, torch 2.11)"
_MEASURED_STEPS = "data/measured/h200.csv"
#: Assumed: the time of a step with another number of contexts goes with it, but for this share.
_SHARE_OF_ANY_STEP = 0.1
#: Assumed, since no GPU has measured it: seconds of a step that trains a head on a frozen encoder.
_SECONDS_PER_STEP_OF_HEAD = 0.02
#: The same for a text that PCAF's large encoder learns from, and the share that its teacher adds.
SECONDS_PER_TEXT_OF_PCAF = 0.005
_SHARE_OF_TEACHER = 1 / 3
#: Contexts of each set that GPT-4 wrote: a fifth of the adversarial responses of DRE's Table 2.
CONTEXTS_OF_GPT4_SETS = 1610
#: Gigabytes of a trained model, by its encoder.
_GIGABYTES = {"minilm": 0.1, "distilbert": 0.3}
_KILOBYTES_PER_REPLY = 2.0
COLUMNS = ["table", "judge", "prompt", "calls", "tokens_in", "tokens_out", "usd", "usd_at_most"]
COLUMNS += ["calls_at_most"]


@registry.nothing_fetched()
def calls(settings: Profile, notebook: str | None = None) -> pd.DataFrame:
    """Return what is still to be asked of the live judges of a profile.

    Parameters
    ----------
    settings : the profile.
    notebook : str, optional
        Only what this notebook reads; by default what all notebooks of the profile read, and what
        training sets take that are written for it.

    Returns
    -------
    DataFrame
        A row for each table, judge and prompt: ``calls``, ``tokens_in`` and ``tokens_out`` about,
        ``usd`` about and ``usd_at_most`` (NaN if no price is known), ``calls_at_most``. A reply
        that two tables need is counted in the first of them. The calls of a training set depend on
        replies; all others are exact.

    Raises
    ------
    DreError
        If what is asked about is missing, such as public data.
    """
    rows = []
    if notebook is None:
        counted_drafts = set()
        rows = [_augmentation(settings, entry, counted_drafts) for entry in settings.augment]
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
    try:
        numbers = None
        if question.training:
            numbers = _stand_in(question.pairs, trainings.index(question.training))
        rows = judge.rows(question.pairs, question.prompt, numbers)
        if question.examples is not None:
            rows["examples"] = [question.examples[pair_id] for pair_id in rows["pair_id"]]
        for name in judge.prompt_names(question.prompt):
            prompt = judge.prompt(name)
            unanswered = live.unanswered(live.requests(rows, prompt), prompt)
            requests = {request.key: request for request in unanswered}
            unanswered = [request for key, request in requests.items() if key not in counted]
            counted.update(requests)
            expected = live.expect(unanswered, prompt, REPLY.get(family))
            for key, value in zip(sums, expected):
                sums[key] += value
    finally:
        live.close()
    sums["calls_at_most"] = sums["calls"]
    prompt_name = family if question.table == "Huynh et al." else question.prompt
    return {"table": question.table, "judge": judge.name, "prompt": prompt_name, **sums}


def _stand_in(pairs, training):
    """Numbers as long as those of a small model, which may not be trained yet.

    Each training has its own, so that what is asked with the numbers of two counts twice.
    """
    value = 0.5 + training / 1000
    table = pairs[["pair_id"]].assign(s_d=1 - value, s_p=value, score_slm=2 * value)
    return table.assign(slm_accuracy=0.5, llm_accuracy=0.5)


def _augmentation(settings, entry, counted) -> dict:
    """What writing a set still takes, without contexts that an earlier set has in common with it.

    It is about what is asked if each context is accepted in its next check, and at most what is
    asked if none is. Stored replies are read first, so a complete set takes nothing.
    """
    judge = written_sets.open_writer(entry)
    contexts = written_sets.contexts_to_write_for(settings, entry)
    sums = dict.fromkeys(COLUMNS[3:], 0.0)
    try:
        result = algorithm.generate(contexts, judge, max_rounds=entry.rounds, ask=False)
        missing = [item for item in result.items if item.status == "missing"]
        drafts = _requests_of(judge, prompts.load("generate"), missing)
        items = [item for item, draft in zip(missing, drafts) if draft.key not in counted]
        counted.update(draft.key for draft in drafts)
        for prompt_name in ("generate", "classify") if items else ():
            prompt = prompts.load(prompt_name)
            calls = [_calls_of_item(item, prompt_name, entry.rounds) for item in items]
            expected, most_usd = _expected_of_items(judge, prompt, items)
            share = sum(n for n, _ in calls) / len(items)
            most_share = sum(most for _, most in calls) / len(items)
            for key, value in zip(sums, expected):
                sums[key] += round(share * value) if isinstance(value, int) else share * value
            sums["usd_at_most"] += most_share * most_usd - share * expected.most_usd
            sums["calls_at_most"] += round(most_share * len(items))
    finally:
        judge.close()
    return {"table": "training set", "judge": judge.spec, "prompt": entry.file, **sums}


def _calls_of_item(item: algorithm.Item, prompt, max_rounds):
    """Return how many calls of a prompt a context still takes: about and at most."""
    later_rounds = max_rounds - item.rounds  # the round that is under way is counted
    if prompt == "generate":
        is_written_now = not item.unchecked
        return int(is_written_now), is_written_now + later_rounds
    n_checks = len(item.unchecked) or len(item.rejected) or algorithm.RESPONSES
    return n_checks, n_checks + later_rounds * algorithm.RESPONSES


def _expected_of_items(judge, prompt, items):
    """Return what one call for each context takes, and the dollars that all take at most.

    Responses are not written yet. They are taken to be of ordinary length, and for the bound as
    long as the longest reply that writes them: the prompt of a later round shows that one, too.
    """
    expected = judge.expect(_requests_of(judge, prompt, items), prompt)
    most_usd = expected.most_usd
    if judge.price:
        longest = judge.max_tokens(prompts.load("generate"))
        most_usd += judge.price.cost(longest * len(items), 0) or 0.0
    return expected, most_usd


def _requests_of(judge, prompt, items):
    """Return the request of a prompt for each context, in their order."""
    rows = []
    for item in items:
        context = item.context
        response = " ".join(context.positives[:1]) or "A reply of ordinary length, as people write."
        row = {"pair_id": context.context_id, "context": context.turns, "response": response}
        rows.append(row)
    return judge.requests(rows, prompt)


class Trainings(NamedTuple):
    """What the trainings of a profile take: how many, steps, hours of a GPU, gigabytes of disk."""

    n_models: int
    n_steps: float
    gpu_hours: float
    gigabytes: float


@registry.nothing_fetched()
def trainings(settings: Profile) -> Trainings:
    """Return what training the models of a profile takes, by the number of their steps.

    DreError if a training set is missing.
    """
    sizes = {entry.key: _contexts(settings, entry) for entry in settings.sets}
    size_of_all = sum(sizes.values())
    for entry in settings.sets:
        if entry.more:
            size_of_all += len(dialogues.load(entry.train[0], entry.more))
    seconds = 0.0
    n_steps = 0
    planned = plan.trainings(settings)
    for training in planned:
        model = settings.models[training.model]
        recipe = recipes.get(model.recipe, model.epochs)
        batch = model.batch_contexts or recipe.batch_contexts
        size = size_of_all if recipe.takes_all_sets else sizes[training.key]
        steps = math.ceil(size / batch)
        per_step = seconds_per_step(settings, model.text_length or recipe.max_seq_length, batch)
        for stage in recipe.stages:
            learns = "encoder" in stage.trains
            n_steps += stage.epochs * steps
            seconds += stage.epochs * steps * (per_step if learns else _SECONDS_PER_STEP_OF_HEAD)
    n_models = len(planned)
    gigabytes = n_models * _GIGABYTES.get(settings.encoder, math.nan)
    return Trainings(n_models, n_steps, seconds / 3600, gigabytes)


def seconds_per_step(settings: Profile, length: int, batch: int) -> float:
    """Return the seconds of a step that trains the profile's encoder, the slower of two runs.

    Parameters
    ----------
    settings : the profile. An encoder that was not measured counts as the slowest that was.
    length : how many tokens of a text are read.
    batch : contexts in a step. Other numbers than eight were not measured.
    """
    table = pd.read_csv(registry.PROJECT / _MEASURED_STEPS)
    table["seconds"] = table[["seconds_a_step", "seconds_in_second_run"]].max(axis=1)
    slowest = max(table["seconds"])
    of_encoder = table.query("encoder == @settings.encoder").sort_values("tokens")
    if len(of_encoder):
        position = of_encoder["tokens"].searchsorted(length)
        slowest = of_encoder["seconds"].iloc[min(position, len(of_encoder) - 1)]
    share = batch / table["contexts_a_step"].iloc[0]
    return slowest * (_SHARE_OF_ANY_STEP + (1 - _SHARE_OF_ANY_STEP) * share)


def pcaf_trainings(settings: Profile) -> Trainings:
    """Return what PCAF's Tables 7 and 8 take, by the texts that are learned from.

    Nothing if the profile does not train them. The models are not kept, so they take no disk. Steps
    and hours are NaN where ``ideas`` does not say how many dialogues are taken.
    """
    if settings.pcaf is None or not plan.is_run(settings, "11_"):
        return Trainings(0, 0, 0.0, 0.0)
    from dre.paper import pcaf  # which loads PyTorch

    planned = pcaf.ROWS
    n_seeds = len(settings.seeds)
    n_models = len(planned) * n_seeds
    n_ideas = settings.pcaf.ideas
    if n_ideas is None:
        return Trainings(n_models, math.nan, math.nan, 0.0)

    def steps(n):
        """Return the steps of an epoch over so many ideas, as `dre.paper.pcaf.train` takes them."""
        return math.ceil(max(n - 1, 0) / batch)

    n_steps = 0
    n_texts = 0.0
    batch = settings.pcaf.batch_ideas
    of_first, of_distillation = settings.pcaf.epochs
    for training in planned:
        # A right and a wrong response of each idea, in each version. The teacher reads them, too.
        n_versions = 2 * len(training.versions)
        n_further = n_ideas * len(training.further)
        n_steps += of_first * steps(n_ideas) + of_distillation * steps(n_further)
        n_texts += of_first * n_versions * n_ideas
        n_texts += of_distillation * n_versions * n_further * (1 + _SHARE_OF_TEACHER)
    hours = n_seeds * n_texts * SECONDS_PER_TEXT_OF_PCAF / 3600
    return Trainings(n_models, n_seeds * n_steps, hours, 0.0)


def _contexts(settings, entry):
    """How many contexts a set trains on, at most."""
    name, split = entry.train
    for augmented in settings.augment:
        if name == str(settings.root / augmented.file):
            return augmented.train
    if (name, split) in dialogues.GPT4_FILES:
        return CONTEXTS_OF_GPT4_SETS
    if name == "dailydialog++" and split == "train":
        table = pd.read_csv(settings.root / "data/paper/dre_table2.csv")
        is_train = (table["dataset"] == "DailyDialog++") & (table["split"] == "train")
        return int(table.loc[is_train, "contexts"].iloc[0])
    return len(dialogues.load(name, split))


def of_notebook(settings: Profile, notebook: str) -> str:
    """Say in words what asking for one notebook will take, a line for each live judge."""
    by_judge = calls(settings, notebook).groupby("judge", sort=False)
    return "\n".join(f"{judge}: {_in_words(_sums(rows))}" for judge, rows in by_judge)


def report(settings: Profile, table: pd.DataFrame) -> str:
    """Return the estimate in words, as ``--estimate`` prints it.

    Parameters
    ----------
    settings : the profile.
    table : what `calls` returned of it.
    """
    lines = [f"profile {settings.name}: what a run would take. Nothing was asked.", ""]
    if table.empty:
        lines += [
            "Judges: no calls; all that is needed is recorded or stored.",
            f"To ask a judge of yours, name it under judges in profiles/{settings.name}.yaml.",
        ]
    for row in table.to_dict("records"):
        lines.append(f"{row['table']:<14} {row['prompt']:<14} {row['judge']:<34} {_in_words(row)}")
    for judge, rows in table.groupby("judge", sort=False):
        lines += ["", f"{judge}: {_in_words(_sums(rows))}"]
        if str(judge).startswith("ollama:"):
            hours = hours_of_ollama(str(judge), math.fsum(rows["calls"]))
            lines.append(f"  about {hours:,.0f} hours of an RTX A6000 at the papers' speed")
    if len(table):
        optional = ", ".join(sorted({*OPTIONAL.values()} - {*settings.optional_prompts}))
        priced = table.dropna(subset="usd")
        dollars = prices.in_words(math.fsum(priced["usd"]), math.fsum(priced["usd_at_most"]))
        lines += ["", f"Not asked, since optional_prompts does not name them: {optional}"]
        lines += ["", f"All judges together: {dollars}."]
    n_models, n_steps, hours, gigabytes = trainings(settings)
    replies = table["calls"].sum() * _KILOBYTES_PER_REPLY / 1e6
    size = "unknown size" if math.isnan(gigabytes) else f"{gigabytes:.1f} GB of disk"
    lines += [
        "",
        f"Small models: {n_models} trainings, about {hours:.1f} hours of a GPU, {size}.",
        f"  The hours are those of {n_steps:,} steps. The time of a step of the encoder was "
        "measured on",
        f"  {MEASURED_ON} with 8 contexts; for other numbers, and for a head "
        f"({_SECONDS_PER_STEP_OF_HEAD} s), it is assumed.",
        *_pcaf_in_words(pcaf_trainings(settings)),
        *_metrics_in_words(settings),
        f"Replies take about {replies:.2f} GB of disk. "
        "Packages and public data take about 7 GB more.",
    ]
    return "\n".join(lines)


def _pcaf_in_words(of_pcaf):
    """Return lines of the report about PCAF's trainings, none if there are none."""
    if not of_pcaf.n_models:
        return []
    hours = "an unknown number of hours (`ideas` says how many dialogues are taken)"
    if not math.isnan(of_pcaf.gpu_hours):
        hours = f"at most {of_pcaf.gpu_hours:.1f} hours of a GPU for {of_pcaf.n_steps:,} steps"
    return [
        f"PCAF on DSTC11: {of_pcaf.n_models} trainings, {hours}.",
        f"  A text is assumed to take {SECONDS_PER_TEXT_OF_PCAF} s: no GPU has measured that.",
    ]


def _metrics_in_words(settings):
    """Return the line of the report about the models of Table 4's metrics, if there are some."""
    if not settings.metrics or not plan.is_run(settings, "04_"):
        return []
    names = ", ".join(settings.metrics.values())
    return [f"Metrics of Table 4: {names} are fetched where they are not here."]


def _sums(rows):
    """Return the sums of some rows of `calls`, without dollars where a price is not known."""
    sums = rows[COLUMNS[3:]].sum(min_count=1)
    if rows["usd"].isna().any():
        sums["usd"] = math.nan
    return sums


def _in_words(row):
    """Return calls, tokens and dollars of a row of `calls`, or of sums of such rows, in words."""
    money = "price unknown"
    if not math.isnan(row["usd"]):
        money = prices.in_words(row["usd"], row["usd_at_most"])
    tokens_in = row["tokens_in"] / 1e6
    tokens_out = row["tokens_out"] / 1e6
    calls_in_words = f"{row['calls']:,.0f} calls"
    if row["calls_at_most"] > row["calls"]:
        calls_in_words += f" (at most {row['calls_at_most']:,.0f})"
    return f"{calls_in_words}, {tokens_in:.2f} M tokens in, {tokens_out:.2f} M out, {money}"


def hours_of_ollama(judge: str, n_calls: float) -> float:
    """Return the hours that calls take at the papers' own speed, on an RTX A6000."""
    minutes = _MINUTES_OF_DEEPSEEK if "deepseek-r1" in judge else _MINUTES_OF_OTHERS
    return n_calls * minutes / 60
