"""A judge: who is asked and how; scores pairs through the store."""

import math
from dataclasses import dataclass, replace

from dre.errors import DreError
from dre.judges import length, prices, prompts, providers, table
from dre.judges import pairs as pair_rows
from dre.judges import plan as plans
from dre.judges.policy import Policy
from dre.judges.settings import clean_base_url
from dre.judges.store import Store

STATUSES = ("malformed", "refused", "truncated", "empty")


@dataclass(frozen=True)
class Options:
    """How a judge is asked; what changes an answer is part of the key of its judgements.

    Attributes
    ----------
    mode : {"single", "mean", "logprob"}
        One reply a pair; the mean of ``repeats`` replies; the mean weighted by log-probabilities. None: ``mean``
        where there are repeats, else ``single``.
    repeats : int
        Replies a pair.
    max_tokens : int or None
        None: that of `dre.judges.length`: 1,024, or 4,096 for prompts that generate; 8,192 or 12,288 for models that
        think, and for Ollama.
    temperature, top_p, seed
        None: the provider's own default, and nothing is sent.
    plain : bool
        Ask for no structured output even where the provider has it.
    extra : dict
        Further parameters of the provider's API.
    """

    mode: str | None = None
    repeats: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    plain: bool = False
    extra: dict | None = None

    def __post_init__(self):
        if self.mode not in (None, *table.MODES):
            raise DreError(f"mode is {self.mode!r}, expected {', '.join(table.MODES)}")
        if self.repeats < 1 or (self.repeats > 1 and self.mode == "single"):
            raise DreError(f"{self.repeats} repeats do not go with mode {self.mode}: give --mode mean")

    @property
    def sampling(self):
        """The mode that goes into the table."""
        return self.mode or ("mean" if self.repeats > 1 else "single")


class Judge:
    """A language model as a judge of dialogue responses.

    Parameters
    ----------
    spec : str
        ``provider:model``.
    store : Store, path or None
        None: the default store.
    base_url, key_env : str
        Another address; the environment variable with its key.
    price : dre.judges.prices.Price or None
        None: that of the price table.
    max_usd : float or None
        The most a call of `score` may spend.
    policy : dre.judges.policy.Policy
    concurrency : int or None
        Calls in flight at most; None: that of the policy.
    **options
        See `Options`.
    """

    def __init__(self, spec, store=None, base_url="", key_env=None, price=None, max_usd=None, policy=None,
                 concurrency=None, **options):  # fmt: skip
        name, _, model = spec.partition(":")
        if not model:
            raise DreError(f"judge {spec!r}: expected provider:model, such as openai:gpt-4o-mini")
        self.spec = spec
        self.provider = providers.make(name, model, clean_base_url(base_url), key_env)
        self.store = store if isinstance(store, Store) else Store(store)
        self.price = price or prices.find(name, model, self.provider.base_url)
        policy = policy or Policy()
        self.policy = replace(policy, concurrency=concurrency) if concurrency else policy
        self.max_usd, self.options = max_usd, Options(**options)
        self.mode = self.options.sampling

    def __repr__(self):
        return f"Judge({self.spec!r})"

    def plan(self, pairs, prompt="llm_only", retry=(), firsts=()):
        """Return the `dre.judges.plan.Plan` of some pairs: what is stored, and what is to be asked."""
        prompt = prompt if isinstance(prompt, prompts.Prompt) else prompts.load(prompt)
        unknown = set(retry) - set(STATUSES)
        if unknown:
            raise DreError(f"retry {', '.join(sorted(unknown))}: expected some of {', '.join(STATUSES)}")
        options = self.options
        params = self.provider.params(
            prompt,
            max_tokens=options.max_tokens or self._longest(prompt),
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
            plain=options.plain,
            logprobs=self.mode == "logprob",
            extra=options.extra,
        )
        rows = pair_rows.rows(pairs)
        return plans.make(rows, prompt, self.provider, params, options.repeats, self.store, retry, firsts)

    def _longest(self, prompt):
        return length.default(prompt.kind, self.provider.name, self.provider.model, self.options.extra)

    def score(self, pairs, prompt="llm_only", retry=(), progress=None):
        """Score pairs; only what is missing in the store is asked.

        Parameters
        ----------
        pairs : pandas.DataFrame or list of mapping
            ``pair_id, context, response`` and whatever else the prompt asks for.
        prompt : str or Prompt
            A name, the path of a template, or a loaded prompt.
        retry : collection of str
            Statuses to ask again: ``malformed, refused, truncated, empty``.
        progress : callable, optional
            See `Runner`. None shows a bar on a terminal.

        Returns
        -------
        pandas.DataFrame
            See `dre.judges.table.build`.

        Raises
        ------
        DreError
            If the judge cannot be asked at all.
        """
        plan = self.plan(pairs, prompt, retry)
        outcome = self.run(plan, progress)
        return table.of_plan(plan, self.mode, outcome.errors if outcome else {})

    def most(self, plan, task, price):
        """Return the dollars that a task can cost at most."""
        body = self.provider.request(task.messages, plan.params, plan.prompt.schema)
        return price.cost(prices.most_tokens(str(body)), plan.params["max_tokens"])

    def run(self, plan, progress=None):
        """Ask for what a plan lacks and complete it; returns the runner's `Outcome`, or None if nothing lacked."""
        if not plan.missing:
            return None
        if self.max_usd is not None and self.price is None:
            raise DreError(
                f"no price is known for {self.spec}, so --max-usd cannot be kept: give --price IN,OUT "
                "(dollars per million tokens)"
            )
        if self.max_usd is not None and not (math.isfinite(self.max_usd) and self.max_usd >= 0):
            raise DreError(f"max_usd is {self.max_usd}, expected a number of dollars")
        number = self.store.setting_id(plan.setting, create=False)
        asked = self.store.open_keys(number) & plan.missing.keys()
        if asked:
            raise DreError(
                f"{len(asked)} of the missing judgements are in a batch that is not collected: "
                "`dre judge batch collect` first, or you pay for them twice"
            )
        if progress is None:
            from dre.judges.progress import Bar

            progress = Bar(len(plan.missing), self.price is not None)
        from dre.judges.runner import Runner

        runner = Runner(plan, self.provider, self.store, self.price, self.max_usd, self.policy, progress)
        try:
            outcome = runner.run()
        finally:
            plan.complete(runner.outcome.judgements)
            getattr(progress, "close", lambda: None)()
        if outcome.stopped == "interrupted":
            raise KeyboardInterrupt
        return outcome
