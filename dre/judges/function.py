"""A judge that is a function of Python's."""

from dre.errors import DreError
from dre.judges import parse, prices, prompts
from dre.judges.asking import Run
from dre.judges.judge import frame, rows_of


class Function:
    """Judge by ``f(context, response)``, which returns a score on the prompt's scale.

    ``context`` is a tuple of turns, oldest first. Nothing is stored; a pair for which it raises is an ``error``.
    """

    price, max_usd, repeats = prices.Price(0.0, 0.0, "a function"), None, 1

    def __init__(self, f):
        self.f, self.last = f, Run()
        self.spec = self.signature = f"function:{f.__module__}.{getattr(f, '__qualname__', type(f).__qualname__)}"

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Return the table of `dre.judges.judge.frame`."""
        prompt, said = prompts.load(prompt), {}
        if prompt.kind != "score" or examples is not None:
            raise DreError(f"{self.spec}: expected a prompt that asks for a score, and no examples")
        low, high = prompt.scale
        for row in rows_of(pairs):
            try:
                score = float(self.f(row["context"], row["response"]))
            except Exception as error:
                said[row["pair_id"]] = [(parse.Verdict("error", reason=repr(error)), None)]
                continue
            off = parse.Verdict("malformed", reason=f"the score is {score:g}, off the scale {low:g}-{high:g}")
            said[row["pair_id"]] = [(parse.Verdict("ok", score) if low <= score <= high else off, 0.0)]
        return frame(said)
