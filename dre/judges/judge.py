"""A judge: scores pairs through the store; asks only for what is missing, within a budget, many calls in flight."""

import json
import statistics
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from dre.datasets.readers import HALF
from dre.errors import DreError
from dre.judges import asking, likelihoods, parse, prices, prompts, providers
from dre.judges.prompts import Prompt
from dre.judges.store import Reply, Request, Store, key_of, setting_sha256

# What --param may not set: the bound on the cost of a call hangs on it, or the request is ours to make.
_OURS = {"max_completion_tokens", "max_output_tokens", "num_predict", "n", "candidate_count"}
_OURS |= {"messages", "model", "stream", "response_format", "output_config"}
# What it may set under a ceiling: nothing that makes a token dearer, or lets there be more than max_tokens says.
_BOUNDED = {
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stop_sequences",
    "num_ctx",
}
_BOUNDED |= {
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "keep_alive",
}
_BOUNDED |= {"effort", "reasoning_effort", "reasoning", "thinking", "think", "verbosity"}
_BOUNDED |= {"thinking_config", "safety_settings", "store", "metadata", "user", "safety_identifier"}
AGAIN = ("malformed", "refused", "truncated", "empty")  # statuses that may be asked again
COLUMNS = [
    "pair_id",
    "score_llm",
    "s_inf",
    "label",
    "responses",
    "status",
    "reason",
    "cost",
    "n_samples",
    "n_ok",
]


class Judge:
    """A language model as a judge of dialogue responses.

    Parameters
    ----------
    spec : str
        ``openai:<model>``, ``anthropic:<model>``, ``gemini:<model>`` or ``ollama:<model>``.
    store : Store, path or None
        None: the default store (``DRE_STORE``, or a file in the user's data folder).
    base_url, key_env : str
        Another server that speaks the provider's protocol (default: what ``OPENAI_BASE_URL, ANTHROPIC_BASE_URL`` or
        ``OLLAMA_HOST`` says, else the provider); the variable with its key, without which a foreign server gets none.
    price, max_usd, max_usd_total : Price or str, float, float, or None
        ``"IN,OUT"``, dollars per million tokens (default: as listed); the most that one call of `score` may spend, and
        that all calls in the store may have cost after it.
    concurrency, timeout : int and float, or None
        Calls in flight at most (default 16) and seconds that one may take, without those it waits behind others (120);
        4 and 600 at servers of one's own, which often answer one at a time.
    attempts, repeats : int
        Calls for one reply at most, where a failure may pass; replies for each pair, whose mean is the score.
    plain, **params
        Ask for no structured output; what the provider's API takes (``max_tokens, temperature, ...``).
    api_params : dict or None
        Further parameters of the API, for those whose names are options here, such as OpenAI's ``store``.
    logprobs : int
        Score by log-probabilities (`dre.judges.likelihoods`): of a rating, the mean of so many of the likeliest ratings
        (True: 3), of a label p(yes) in [0, 1]. OpenAI and Ollama give them, and servers that speak their protocols.

    ``last`` says what the last call of `score` did: a `dre.judges.asking.Run`.
    """

    def __init__(
        self,
        spec,
        /,
        store=None,
        base_url="",
        key_env=None,
        price=None,
        max_usd=None,
        max_usd_total=None,
        concurrency=None,
        timeout=None,
        attempts=8,
        repeats=1,
        plain=False,
        logprobs=0,
        api_params=None,
        **params,
    ):
        params |= api_params or {}
        self.spec = spec
        self.provider, _, self.model = spec.partition(":")
        if not self.model or self.provider not in providers.PROVIDERS:
            known = ", ".join(f"{name}:<model>" for name in (*providers.PROVIDERS, "recorded"))
            raise DreError(f"judge {spec!r}: expected one of {known}")
        self.address, self.key_env = providers.address_of(self.provider, base_url), key_env
        own = self.address == providers.PROVIDERS[self.provider].address
        self.base_url = "" if own else self.address  # as it stands in keys and in the signature
        self.price = prices.given(price) if isinstance(price, str) else price
        self.price = self.price or prices.find(self.provider, self.model, self.base_url)
        slow = self.provider == "ollama" or not providers.is_public_service(self.address)
        self.concurrency = (4 if slow else 16) if concurrency is None else concurrency
        self.timeout = (600.0 if slow else 120.0) if timeout is None else timeout
        self.max_usd, self.max_usd_total = max_usd, max_usd_total
        self.attempts, self.repeats, self.plain = attempts, repeats, plain
        self.likeliest = 3 if logprobs is True else logprobs or 0
        if self.likeliest and self.provider not in likelihoods.PROVIDERS:
            raise DreError(
                f"judge {spec!r}: {self.provider} gives no log-probabilities: {likelihoods.INSTEAD}"
            )
        self.params = {"logprobs": True, "top_logprobs": likelihoods.TOP} if self.likeliest else {}
        self.params |= {name: value for name, value in params.items() if value is not None}
        numbers = {
            "concurrency": self.concurrency,
            "attempts": attempts,
            "repeats": repeats,
            "timeout": self.timeout,
        }
        numbers |= {"max_tokens": self.params.get("max_tokens", 1), "logprobs": self.likeliest or 1}
        for name, value in numbers.items():
            if not isinstance(value, int | float if name == "timeout" else int) or not value > 0:
                raise DreError(f"{name} is {value!r}: expected a number above 0")
        given = {"--max-usd": max_usd, "--max-usd-total": max_usd_total}
        given = {flag: usd for flag, usd in given.items() if usd is not None}
        if spoilt := sorted(_OURS & self.params.keys() or given and self.params.keys() - _BOUNDED):
            raise DreError(
                f"parameter {spoilt[0]}: has an option of its own, or would break the count of money"
            )
        for flag, usd in given.items():
            if not (usd >= 0 and self.price):
                why = f"no price is known for {spec}" if usd >= 0 else f"it is {usd}"
                raise DreError(
                    f"{why}, so {flag} cannot be kept: give dollars, and --price IN,OUT per million tokens"
                )
        self.store, self.last = store if isinstance(store, Store) else Store(store), asking.Run()
        self.served_models = {"", self.model}  # which answered; another than `model` is noted once

    def close(self) -> None:
        """Close the store; what is asked of it next opens it again."""
        self.store.close()

    def ceilings(self) -> list[asking.Ceiling]:
        """Return the ceilings on what a run may spend: that of the run, and that of all calls of this judge."""
        ceilings = []
        if self.max_usd is not None:
            ceilings.append(asking.Ceiling(self.max_usd, "--max-usd", self.max_usd))
        if self.max_usd_total is not None:
            spent_usd = self.store.spent(self.price, self.spec, (self.base_url, self.address))
            usd_left = self.max_usd_total - spent_usd
            ceilings.append(asking.Ceiling(usd_left, "--max-usd-total", self.max_usd_total))
        return ceilings

    @property
    def signature(self) -> str:
        """All that can change a reply besides the prompt and the pair, as one line of text."""
        how = {
            "base_url": self.base_url,
            "repeats": self.repeats,
            "plain": self.plain,
        } | self.params
        how |= {"logprobs": self.likeliest} if self.likeliest else {}
        told = [
            f"{name}={value}"
            for name, value in sorted(how.items())
            if value is not False and value != ""
        ]
        return " ".join([self.spec, *told])

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame:
        """Score pairs; only what is not stored yet is asked, and each reply is committed when it comes.

        ``pairs`` have ``pair_id, context, response`` and what else the prompt (or its name or path)
        has slots for. ``retry``: statuses to ask again (``malformed, refused, truncated, empty``).
        ``first``: repeat index of the first reply; another asks for another reply. Without ``ask``
        only what is stored. ``examples``: what `dre.judges.examples.select` returns, to show with
        each pair in place of a column ``examples``; the prompt needs a slot for them.

        Returns the table of `frame`. Raises `DreError` if the judge cannot be asked, or the store is being written.
        """
        prompt, rows, self.last = prompts.load(prompt), rows_of(pairs), asking.Run()
        if examples is not None:
            if "examples" not in prompt.slots:
                raise DreError(
                    f"prompt {prompt.name} has no slot {{{{examples}}}}: use quality_overall, say"
                )
            for row in rows:
                if row["pair_id"] not in examples:
                    raise DreError(
                        f"examples has none for pair {row['pair_id']!r}: expected a list for each pair, "
                        "which may be empty"
                    )
                row["examples"] = examples[row["pair_id"]]
        asked = self._asked(rows, prompt, first)
        replies = self._stored(asked)
        if ask and self._lacking(asked, replies, prompt, retry):
            with self.store.held():  # and others may have asked in the meantime
                if lacking := self._lacking(asked, self._stored(asked), prompt, retry):
                    asking.ask_all(self, lacking, prompt, self.last)
            replies = self._stored(asked)
        said, paid = {row["pair_id"]: [] for row in rows}, set()
        for one, reply in zip(asked, replies):
            if reply:  # pairs with one prompt share it
                outcome = (
                    self.verdict(reply, prompt, one.row),
                    0.0 if one.key in paid else self._cost(reply),
                )
                paid.add(one.key)
            else:
                error = self.last.errors.get(one.key)
                outcome = (
                    parse.Verdict("error" if error else "missing", reason=error or "not asked yet"),
                    None,
                )
            said[one.pair_id].append(outcome)
        return frame(said)

    def missing(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
    ) -> list[Request]:
        """Return the `dre.judges.store.Request` of each reply that is not stored, or is of a status in `retry`."""
        prompt = prompts.load(prompt)
        asked = self._asked(rows_of(pairs), prompt, first)
        return self._lacking(asked, self._stored(asked), prompt, retry)

    def replies(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        first: int = 0,
    ) -> list[tuple[Request, Reply | None]]:
        """Return ``(Request, Reply or None)`` of each reply that belongs to some pairs, in their order."""
        asked = self._asked(rows_of(pairs), prompts.load(prompt), first)
        return list(zip(asked, self._stored(asked)))

    def _asked(self, rows, prompt, first):
        """What is asked for rows, in their order; a reply that ended by itself fits every limit with room for it."""
        if self.likeliest:
            likelihoods.check_prompt(prompt)
        limit = self.max_tokens(prompt)
        how = self.params | {"max_tokens": limit, "structured": self.schema(prompt) is not None}
        settings = {setting_sha256(self.spec, self.base_url, prompt.sha256, how): limit}
        extra = (
            () if self.likeliest else ("logprobs", "top_logprobs")
        )  # a reply with them is one all the same
        for base_url, params in self.store.settings(self.spec):  # the same up to limit and spelling
            other = json.loads(params)
            same = {
                name: value for name, value in other.items() if name in how or name not in extra
            }
            if base_url in (self.base_url, self.address) and how == same | {"max_tokens": limit}:
                settings[setting_sha256(self.spec, base_url, prompt.sha256, other)] = other[
                    "max_tokens"
                ]
        about, asked = (self.spec, self.base_url, prompt.name, json.dumps(how, sort_keys=True)), []
        for row in rows:
            messages = prompt.render(row)
            for n in range(first, first + self.repeats):
                limits = {key_of(setting, messages, n): of for setting, of in settings.items()}
                asked.append(
                    Request(next(iter(limits)), *about, row["pair_id"], n, row, messages, limits)
                )
        return asked

    def _stored(self, asked):
        """Return the `Reply` that is stored for each, or None."""
        found, replies = (
            self.store.get({key for one in asked for key in one.limits}, top=bool(self.likeliest)),
            [],
        )
        for one in asked:
            there = [(found[key], limit) for key, limit in one.limits.items() if key in found]
            fit = [reply for reply, limit in there if _fits(reply, limit, one.limits[one.key])]
            replies.append(min(fit, key=lambda reply: reply.outcome == "truncated", default=None))
        return replies

    def _lacking(self, asked, replies, prompt, retry):
        """Return those that are not stored, or are of a status in `retry`; one of those that share a reply."""
        if isinstance(retry, str) or not set(retry) <= set(AGAIN):
            raise DreError(f"retry is {retry!r}: expected a list of {', '.join(AGAIN)}")
        lacking = {}
        for one, reply in zip(asked, replies):
            if reply is None or (retry and self.verdict(reply, prompt, one.row).status in retry):
                lacking.setdefault(one.key, one)
        return list(lacking.values())

    def _cost(self, reply):
        if reply.cost is None and self.price:  # which was not known when it came
            return self.price.cost(
                reply.input_tokens, reply.output_tokens, batch=reply.source == "batch"
            )
        return reply.cost

    def estimate(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
    ) -> str:
        """Say in words what scoring would take: calls, tokens and dollars, about and at most."""
        prompt = prompts.load(prompt)
        return self.estimate_calls(self.missing(pairs, prompt, retry), prompt)

    def estimate_calls(self, lacking: list[Request], prompt: Prompt) -> str:
        """Say in words what asking for replies would take: calls, tokens and dollars.

        ``lacking``: what `missing` returns, or several such lists, one after the other.
        """
        if not lacking:
            return "0 calls to make: all is stored"
        limit, thoughts = self.max_tokens(prompt), 1000 * prices.thinks(self.model, self.params)
        most = sum(prices.most_tokens(one.messages, self.schema(prompt)) for one in lacking)
        read, written = most // 4, len(lacking) * min(limit, prices.REPLY[prompt.kind] + thoughts)
        money = "price unknown (give --price IN,OUT)"
        if self.price:
            about, ceiling = (
                self.price.cost(read, written),
                self.price.cost(most, len(lacking) * limit),
            )
            money = f"about ${about:.2f}, at most ${ceiling:.2f} ({self.price.source})"
        tokens = f"about {read:,} tokens in, {written:,} out (at most {limit:,} per reply)"
        return f"{len(lacking):,} calls to make\n{tokens}\n{money}"

    def schema(self, prompt: Prompt) -> dict | None:
        """Return the JSON schema that goes with a request, or None."""
        return None if self.plain else prompt.schema

    def max_tokens(self, prompt: Prompt) -> int:
        """Return the longest reply to a prompt, in tokens."""
        return self.params.get("max_tokens") or prices.longest(
            prompt.kind, self.provider, self.model, self.params
        )

    def verdict(self, reply: Reply, prompt: Prompt, row: dict) -> parse.Verdict:
        """Return the `Verdict` of a stored reply; the provider's own word for it goes before the parser's."""
        if reply.outcome != "ok":
            return parse.Verdict(reply.outcome, reason=f"the provider says {reply.outcome}")
        said = prompt.parse(reply.text, row, structured=self.schema(prompt) is not None)
        if self.likeliest:
            return likelihoods.rescore(said, reply.text, reply.top, prompt, self.likeliest)
        return said


def _fits(reply, limit, own):
    """Whether a reply that was asked for with a limit on its tokens is what the judge's own limit would give."""
    if reply.outcome == "truncated":
        return limit >= own
    return limit == own or (reply.output_tokens or 0) <= own


def frame(said):
    """Return the table of ``{pair_id: [(verdict, dollars), ...]}``; error and missing: a reply that did not come.

    Of ``n_samples`` replies ``n_ok`` are scores; ``score_llm`` and ``s_inf`` are their means, ``label`` what most say (none, where
    as many say another).
    ``status`` is error or missing (not asked) if a reply did not come, ok if all came and one is a score, else what
    most of them were. Only what is ok has a score.
    """
    rows = []
    for pair_id, outcomes in said.items():
        every = [one for one, _ in outcomes] or [parse.Verdict("missing", reason="not asked yet")]
        lacking = [one for one in every if one.status in ("error", "missing")]
        ok, came = [one for one in every if one.status == "ok"], len(every) - len(lacking)
        good = [] if lacking else ok
        of = lacking or good or every
        status = (
            "error"
            if "error" in (one.status for one in of)
            else statistics.mode(one.status for one in of)
        )
        one = next(one for one in of if one.status == status)
        lost = f"{len(lacking)} of {len(every)} replies did not come: " if lacking and came else ""
        scores = np.array(
            [(one.score_llm, one.s_inf) for one in good] or [(None, None)], float
        ).mean(axis=0)
        labels = statistics.multimode(one.label for one in good)
        label = labels[0] if len(labels) == 1 else None  # a tie of labels is none
        cost = np.array(
            [cost for one, cost in outcomes if one not in lacking] or [None], float
        ).sum()
        rows.append(
            (pair_id, *scores, label, one.responses, status, lost + one.reason, cost, came, len(ok))
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def rows_of(pairs):
    """Return the rows of a table or a list of mappings, ``context`` as a tuple of turns; each with its own pair_id."""
    rows = pairs.to_dict("records") if hasattr(pairs, "columns") else [dict(row) for row in pairs]
    seen = set()
    for number, row in enumerate(rows):
        pair_id = row.get("pair_id")
        if not isinstance(pair_id, str) or HALF.search(pair_id) or pair_id in seen:
            raise DreError(
                f"row {number}: pair_id is {pair_id!r}, expected a text that no other row has"
            )
        seen.add(pair_id)
        if isinstance(row.get("context"), str):  # turns on lines of their own
            row["context"] = tuple(line for line in row["context"].split("\n") if line.strip())
    return rows
