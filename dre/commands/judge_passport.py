"""``dre judge passport``: what is known of a judge, on one page."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dre.audit import kinds, measures, scorers
from dre.commands import audit as audit_command
from dre.commands import inputs
from dre.commands.judge_options import RECORDED
from dre.commands.outputs import WRONG, check_output, refuse_to_replace, stopped_early
from dre.datasets import readers
from dre.errors import DreError
from dre.files import replace
from dre.judges import passport as passports
from dre.judges import prompts
from dre.judges.asking import one_run, spent_in_words
from dre.tables import Table, with_interval

HEADERS = {
    "all_pairs": "On all pairs",
    "within": "Within systems",
    "machine": "Machine replies",
    "difference": "Minus the judge asked",
    "pairs": "Pairs to show 0.05",
}
_LEAST_PAIRS = 9  # rated pairs of one's own

# What the verdict calls good and fair: Spearman's correlation with people.
_GOOD = 0.6
_FAIR = 0.4
# What it counts as far from good.
_STEADY = 0.7  # of first and second replies
_MANY_WITHOUT_SCORE = 0.02  # share of replies
_MANY_CONTEXTS = 1000  # to see the larger of two differences between systems


def run(args: argparse.Namespace, judge: Any) -> int:
    """Print a judge's row beside the recorded judges' and the rest of its passport.

    Returns the exit status: 1 if the judge could not be asked for all pairs, 2 if none has a score.
    """
    check_output(args.output, (".csv",), args.rated)
    refuse_to_replace(args.output, args.force)
    if args.rated and args.sets:
        raise DreError("--sets are public rated pairs, --rated are your own: give one of them")
    is_recorded = args.judge.startswith(RECORDED)
    own_rated = _read_rated(args.rated) if args.rated else None
    sets = passports.SETS
    if args.sets:
        sets = args.sets.split(",")
    elif is_recorded and own_rated is None:
        sets = passports.known_sets(judge, args.prompt)
    samples = passports.draw_samples(sets, args.n, args.seed, own_rated)
    repeats = args.repeats or 2
    cases, audit_pairs = None, None
    if args.audit:
        cases, audit_pairs = kinds.tables(kinds.corpus())
    if not is_recorded:
        print(_estimate(judge, samples, repeats, audit_pairs, args.prompt), file=sys.stderr)
    audited = None
    with one_run(judge):
        passport = passports.measure(judge, samples, repeats, args.seed, args.prompt)
        if args.audit and not passport.stopped:
            audited = _audit(judge, cases, audit_pairs, args.prompt, passport)
    table = _table(passport, list(samples))
    if args.json:
        print(_as_json(judge, passport, audited))
    else:
        money = "cost unknown"
        if judge.price is not None:
            money = spent_in_words(passport.spent_usd, passport.uncertain_usd)
        print(f"{table}\n{_lines(judge, passport, money)}")
        if audited is not None:
            print(f"\n{audit_command.as_table(audited, judge.spec)}", end="")
        print("\n" + "\n".join(verdict(passport)))
    if args.output:
        replace(args.output, table.csv())
    if passport.stopped:
        return stopped_early(passport.stopped)
    return 0 if passport.pairs_scored else WRONG


def _audit(judge, cases, pairs, prompt, passport):
    """Return the audit of a judge, and count what it took in the passport."""
    scores, _ = scorers.by_judge(judge, pairs, prompt)
    passport.count(judge.last)
    return measures.preferred(cases, scores)


def _read_rated(path: str | Path) -> pd.DataFrame:
    """Return the rated pairs of a file; those without a rating are left out.

    ``human`` is a number on any scale, or a list of numbers, of which the mean counts. ``id`` and
    ``system`` are optional. DreError if a record cannot be read, or fewer than 9 pairs are rated.
    """
    reading = readers.read(readers.records(path), whole=True)
    pairs = reading.pairs
    if reading.bad_records:
        first = reading.bad_records[0]
        raise DreError(f"{path}:{first['line']}: {first['reason']}")
    for note in reading.notes:
        inputs.tell(note)
    records = pairs.to_dict("records")
    pairs["human"] = [readers.rating(row, "human", f"{path}:{row['line']}") for row in records]
    pairs = pairs.dropna(subset="human").astype({"human": float})
    if len(pairs) < _LEAST_PAIRS:
        raise DreError(
            f"{path}: {len(pairs)} pairs have a rating in `human`: expected {_LEAST_PAIRS} or more"
        )
    inputs.refuse_one_value(pairs, {"human": f"{path}: `human`"}, path)
    return pairs


def _estimate(judge, samples, repeats, audit_pairs, prompt):
    """Say what all calls of this run will take: every repeat of the samples, and the audit."""
    prompt = prompts.load(prompt)
    rated_pairs = pd.concat(samples.values(), ignore_index=True)
    calls = []
    for repeat in range(repeats):
        calls += judge.unanswered(rated_pairs, prompt, first=repeat)
    times = {1: "once", 2: "twice"}.get(repeats, f"{repeats} times")
    summary = f"{len(rated_pairs):,} rated pairs, each asked for {times}"
    if audit_pairs is not None:
        calls += judge.unanswered(audit_pairs, prompt)
        summary += f", and {len(audit_pairs):,} pairs of the audit, once"
    return f"{summary}:\n{judge.estimate_calls(calls, prompt)}"


def _table(passport, sets):
    """Return the table of judges as it is printed."""
    counts = f"{passport.pairs_scored} of {passport.pairs_drawn} pairs"
    caption = f"Spearman with people, mean of {', '.join(sets)}: {counts}, 95 % over contexts"
    headers = {column: HEADERS[column] for column in HEADERS if column in passport.agreement}
    return Table(passport.agreement, "compare", caption, headers=headers, digits={"pairs": 0})


def _as_json(judge, passport, audited):
    """Return all that is known of a judge as JSON; what is not known is null."""
    content = {
        "judge": judge.signature,
        "verdict": verdict(passport),
        "agreement": passport.agreement.to_dict("records"),
        "pairs": f"{passport.pairs_scored} of {passport.pairs_drawn}",
        "draws_differ_by": passport.draws_differ_by,
        "retest": passport.retest,
        "malformed": passport.malformed,
        "usd": passport.usd_per_1000,
        "seconds": passport.seconds_per_1000,
        "tokens": passport.tokens_per_reply,
        "calls": passport.calls,
        "spent": passport.spent_usd,
        "stopped": passport.stopped,
        "constant": passport.constant,
        "contexts": passport.contexts_to_show,
        "level": passport.level,
        "level_low": passport.level_low,
        "level_high": passport.level_high,
    }
    if audited is not None:
        content["audit"] = audited.to_dict("records")
    return pd.Series(content).to_json(indent=1)


def _lines(judge, passport, money):
    """Return what a passport says besides agreement, one line for each property."""
    values = {
        "retest (Spearman of first and second replies)": f"{passport.retest:.2f}",
        "replies without a score": f"{passport.malformed:.1%}",
        "dollars per 1,000 replies": f"{passport.usd_per_1000:.2f}",
        "tokens per 1,000 replies": f"{1000 * passport.tokens_per_reply:,.0f}",
        "seconds per 1,000 replies": f"{passport.seconds_per_1000:.0f}",
    }
    for gap, contexts in passport.contexts_to_show.items():
        values[f"contexts that show a difference of {gap:g}"] = f"{contexts:,.0f}"
    values["agreement with people from which a small model improves this judge"] = (
        f"{passport.level:.2f} [{passport.level_low:.2f}, {passport.level_high:.2f}]"
    )
    values["asked now"] = f"{passport.calls:,} calls, {money}"
    lines = [
        f"{label}: {'unknown' if value.startswith('nan') else value}"
        for label, value in values.items()
    ]
    for name, score in passport.constant.items():
        lines.append(
            f"{judge.spec} gave every pair of {name} the score {score:g}, "
            "which correlates with nothing"
        )
    if not np.isnan(passport.draws_differ_by):
        lines.append(
            f"chance: another {passport.pairs_drawn} pairs may move a correlation by "
            f"{passport.draws_differ_by:.2f}; a larger --n makes this smaller"
        )
    return "\n".join(lines)


def verdict(passport: passports.Passport) -> list[str]:
    """Say in a few plain sentences what a judge is good for."""
    sentences = [_on_agreement(passport)]
    weaknesses = _weaknesses(passport)
    if weaknesses:
        sentences.append(f"Far from good: {'; '.join(weaknesses)}.")
    values = {
        "whether it would say the same again": passport.retest,
        "what it costs": passport.usd_per_1000,
        "how long it takes": passport.seconds_per_1000,
    }
    unknown = [what for what, value in values.items() if np.isnan(value)]
    if unknown:
        sentences.append(f"Not known: {'; '.join(unknown)}.")
    return sentences


def _on_agreement(passport):
    """Return the sentence that says how a judge's scores and people's ratings go together."""
    row = passport.agreement.iloc[0]
    # What is recorded of all pairs tells more than a sample of them.
    measure = "spearman" if pd.isna(row.get("all_pairs")) else "all_pairs"
    agreement, low, high = (row[f"{measure}{ending}"] for ending in ("", "_low", "_high"))
    if not passport.pairs_scored:
        return "Verdict: it gave no score, so nothing can be said of it."
    if np.isnan(agreement):
        return (
            "Verdict: it cannot rank replies, or not on every set: where all get the same score, "
            "nothing agrees with people."
        )
    numbers = with_interval(row, measure, 2)
    if not low > 0 or np.isnan(high):
        return (
            f"Verdict: whether it agrees with people at all cannot be told from "
            f"{passport.pairs_scored:,} pairs ({numbers}): try more of them."
        )
    if agreement >= _GOOD:
        text = f"Verdict: its scores follow people's ratings well ({numbers})"
    elif agreement >= _FAIR:
        text = (
            f"Verdict: its scores follow people's ratings roughly ({numbers}): believe means over "
            "many replies, not single scores"
        )
    else:
        text = f"Verdict: its scores hardly follow people's ratings ({numbers}): do not rely on it"
    others = passport.agreement.iloc[1:]
    if others.empty:
        return f"{text}."
    better = list(others.loc[others["difference_low"] > 0, "judge"])
    if better:
        return f"{text}. Clearly closer to people: {', '.join(better)}."
    return f"{text}. No recorded judge is clearly closer to people."


def _weaknesses(passport):
    """Return in which respects a judge is far from good, in words."""
    weaknesses = []
    row = passport.agreement.iloc[0]
    for view, replies in (("within", "replies of one system"), ("machine", "replies of machines")):
        if row.get(view, np.nan) < _FAIR:
            verb = "hardly ranks" if row[f"{view}_low"] > 0 else "may not rank"
            weaknesses.append(f"it {verb} {replies} ({with_interval(row, view, 2)})")
    if passport.retest < _STEADY:
        weaknesses.append(f"asked again it says something else (retest {passport.retest:.2f})")
    if passport.malformed > _MANY_WITHOUT_SCORE:
        weaknesses.append(f"{passport.malformed:.0%} of its replies have no score")
    gap, contexts = max(passport.contexts_to_show.items())
    if contexts > _MANY_CONTEXTS:
        weaknesses.append(f"it takes {contexts:,.0f} contexts to see a difference of {gap:g}")
    return weaknesses
