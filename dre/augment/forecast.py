"""What a run of Algorithm 1 still takes: calls, tokens and dollars, expected and at most."""

import json
import math
from dataclasses import dataclass, replace

from dre.augment.experience import experience
from dre.augment.rounds import COUNT, EXPECTED, Item, drafted, feedback
from dre.judges import prices
from dre.judges.estimate import duration, estimate

SAMPLE = 200  # contexts on which prompts that hang on replies to come are measured
TEN = 2 * COUNT
LABEL = json.dumps({"label": "Positive"})
TOKENS = ("calls", "input_tokens", "output_tokens")
COLUMNS = (*TOKENS, *(f"most_{name}" for name in TOKENS))


@dataclass(frozen=True)
class Forecast:
    """What a run still takes.

    Attributes
    ----------
    rows : list of dict
        One a prompt: ``prompt``; ``calls, input_tokens, output_tokens, usd`` as expected; the same with ``most_`` in
        front if every context goes through all rounds with every reply as long as it may be. Dollars are NaN where no
        price is known.
    seconds : float
    stored : int
        Replies that are stored already.
    again : float
        Share of contexts expected to need another round.
    """

    rows: list
    seconds: float
    stored: int
    again: float

    @property
    def table(self):
        """The rows as a pandas.DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def total(self):
        """Return the sums over prompts as a dict."""
        return {name: math.fsum(row[name] for row in self.rows) for name in (*COLUMNS, "usd", "most_usd")}

    def __str__(self):
        total = self.total()
        lines = ["about {calls:,.0f} calls to make, at most {most_calls:,.0f}".format(**total)]
        lines[0] += f"; {self.stored:,} replies stored"
        if not total["most_calls"]:
            return lines[0]
        lines += ["  {prompt}: about {calls:,.0f}, at most {most_calls:,.0f}".format(**row) for row in self.rows]
        lines.append("about {input_tokens:,.0f} tokens in, {output_tokens:,.0f} out".format(**total))
        money = "price unknown (give --price IN,OUT)"
        lines.append(money if math.isnan(total["usd"]) else "about ${usd:.2f}, at most ${most_usd:.2f}".format(**total))
        lines.append(f"about {duration(self.seconds)}")
        lines.append(f"({self.again:.2%} of contexts are expected to need another round, as in the recorded run)")
        return "\n".join(lines)


def forecast(walk, seen=None):
    """Forecast what a `dre.augment.walk.Walk` that has gone as far as it could still takes.

    Prompts that can be rendered are measured as they are. Those that hang on replies to come are measured with a
    recorded draft in their place, on up to 200 of the contexts. The bound takes a response to have as many tokens for
    the judge that checks as for the one that wrote it; ``max_usd`` is a ceiling in any case.

    Parameters
    ----------
    walk : Walk
    seen : Experience, optional
        None: that of the recorded run.

    Returns
    -------
    Forecast
    """
    seen = seen or experience()
    waiting = [item for item in walk.items if item.waiting]
    rows, seconds = [], 0.0
    for prompt, (calls, most) in _counts(walk, waiting, seen).items():
        judge = walk.checker if prompt == "classify" else walk.judge
        plans = [step.plan for step in walk.steps if step.prompt == prompt]
        found = [(_estimate(judge, plan, plans, seen), 1, 1) for plan in plans if plan.missing]
        row = {"prompt": prompt} | dict.fromkeys(COLUMNS, 0)
        if most:
            unit = _estimate(judge, _to_come(walk, judge, prompt, waiting, seen), plans, seen)
            found.append((unit, calls / unit.calls, most / unit.calls))
            row["most_input_tokens"] = most * _longer(walk, prompt)
        for one, factor, factor_most in found:
            for name in TOKENS:
                row[name] += getattr(one, name) * factor
            row["most_calls"] += one.calls * factor_most
            row["most_input_tokens"] += one.most_input_tokens * factor_most
            row["most_output_tokens"] += one.calls * one.reply_tokens * factor_most
            seconds += one.seconds * factor
        rows.append(row | dollars(row, judge.price))
    stored = {(step.plan.setting, key) for step in walk.steps for key in step.plan.judgements}
    return Forecast(rows, seconds, len(stored), seen.again)


def dollars(counts, price):
    """Return ``usd`` and ``most_usd`` of counts of tokens; NaN where the price is None."""
    if price is None:
        return {"usd": math.nan, "most_usd": math.nan}
    return {f"{bound}usd": price.cost(*(counts[bound + name] for name in TOKENS[1:])) for bound in ("", "most_")}


def _counts(walk, waiting, seen):
    """Calls that are not in a plan yet, by prompt: expected and at most."""
    counts = {prompt: [0.0, 0] for prompt in walk.prompts}
    whole = walk.again == "generate"
    for item in waiting:
        left = walk.max_rounds - item.round
        further = sum(seen.again**k for k in range(1, left + 1))
        if item.waiting[0] != "classify":
            now = TEN if item.waiting[0] == "generate" else len(item.rejected) + len(item.unchecked)
            counts["classify"][0] += now
            counts["classify"][1] += now
        counts["classify"][0] += further * (TEN if whole else seen.open)
        counts["classify"][1] += left * TEN
        counts[walk.again][0] += further
        counts[walk.again][1] += left
    return counts


def _to_come(walk, judge, prompt, waiting, seen):
    """A plan of a prompt with a recorded draft in place of the one to come."""
    rows = []
    for item in every(waiting, SAMPLE):
        stand_in = Item(item.context)
        stand_in.draft = drafted(seen.draft, 1)
        stand_in.draft[-1].label = "Positive"
        rows += map(stand_in.check_row, stand_in.draft) if prompt == "classify" else [stand_in.row()]
    return judge.plan(rows, walk.prompts[prompt])


def _estimate(judge, plan, plans, seen):
    """Estimate a plan; what is stored of its prompt gives the averages, the recorded run the length of a reply."""
    reply = prices.estimated_tokens(
        LABEL if plan.prompt.kind == "label" else json.dumps(seen.draft, ensure_ascii=False)
    )
    known = {key: judgement for one in plans for key, judgement in one.judgements.items()}
    return estimate(replace(plan, judgements=known), judge.price, judge.policy.concurrency, reply)


def _longer(walk, prompt):
    """Tokens that texts to come may add to a prompt: a draft is at most as long as the reply that holds it."""
    if prompt == "generate":
        return 0
    longest = max(step.plan.params["max_tokens"] for step in walk.steps if step.prompt != "classify")
    if prompt == "classify":
        return longest / TEN
    draft = drafted({kind: [""] * COUNT for kind in EXPECTED}, 1)
    for one in draft:
        one.label = EXPECTED["adversarial" if one.kind == "positive" else "positive"]
    return longest + prices.most_tokens(feedback(draft))


def every(found, n):
    """Return at most `n` of a sequence, evenly spaced."""
    return list(found)[:: -(-len(found) // n)]
