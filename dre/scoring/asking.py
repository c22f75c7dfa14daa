"""Asking a judge block by block, within one budget."""

from dre import fusion, judges
from dre.errors import DreError
from dre.judges import prompts, table


class Asking:
    """A judge with the prompt it is asked with.

    Parameters
    ----------
    spec : str
        As `dre.judges.open` takes it.
    prompt : str
        Name or file of a prompt whose replies are scores.
    **options
        Of `dre.judges.open`; ``max_usd`` is for all blocks together.
    """

    def __init__(self, spec, prompt, **options):
        self.spec, self.prompt = spec, prompts.load(prompt)
        if self.prompt.kind != "score":
            raise DreError(
                f"prompt {self.prompt.name!r} asks for a {self.prompt.kind}: expected one that asks for a score"
            )
        self.judge = judges.open(spec, **options)
        self.recorded = spec.startswith("recorded:")
        self.max_usd, self.spent = options.get("max_usd"), 0.0

    @property
    def prompt_sha256(self):
        """Of what was really asked: a recording's own, where it is one."""
        if self.recorded:
            return self.judge.recording.prompt_sha256(self.prompt.name)
        return self.prompt.sha256

    def ask(self, pairs):
        """Return ``pair_id, score_llm`` (0-5), ``s_inf, status, reason`` for a table of pairs.

        Raises
        ------
        DreError
            If the judge cannot be asked, or the budget ends: what was answered is in the judgement store.
        """
        said = self.judge.score(pairs, self.prompt) if self.recorded else self._live(pairs)
        said = said[["pair_id", "score_llm", "s_inf", "status", "reason"]]
        return said if self.prompt.scale == (0, fusion.LLM_MAX) else fusion.to_llm_scale(said, *self.prompt.scale)

    def _live(self, pairs):
        plan = self.judge.plan(pairs, self.prompt)
        if self.max_usd is not None:
            self.judge.max_usd = max(self.max_usd - self.spent, 0.0)
        outcome = self.judge.run(plan)
        if outcome is not None:
            self.spent += outcome.spent
            if outcome.stopped == "budget":
                raise DreError(
                    f"stopped before ${self.max_usd:g} would be passed (${self.spent:.4f} spent, every reply is "
                    "stored): raise --max-usd and run the same command again to go on"
                )
        return table.of_plan(plan, self.judge.mode, outcome.errors if outcome else {})
