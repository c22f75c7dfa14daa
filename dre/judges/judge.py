"""A language model as a judge: scores pairs, and asks only for what is not stored yet."""

import contextlib
import functools
import json
import math
import statistics
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre.datasets.readers import HALF
from dre.errors import DreError
from dre.judges import asking, connection, likelihoods, outcomes, prices, prompts, thinking
from dre.judges.parse import Verdict
from dre.judges.prices import Price
from dre.judges.prompts import Prompt
from dre.judges.providers import PROVIDERS, SPECS
from dre.judges.store import (
    Ceiling,
    Reply,
    Request,
    Store,
    key_of,
    new_run,
    setting_sha256,
)
from dre.tables import counted

# Parameters of an API that --param may not set: the request, and the bound on what a call can cost.
_SET_BY_US = {
    "candidate_count",
    "max_completion_tokens",
    "max_output_tokens",
    "messages",
    "model",
    "n",
    "num_predict",
    "output_config",
    "response_format",
    "stream",
}
# What it may set under a ceiling: nothing that makes a token dearer, or a reply too long.
_HARMLESS_UNDER_A_CEILING = {
    *("frequency_penalty", "logit_bias", "logprobs", "max_tokens", "metadata", "min_p"),
    *("presence_penalty", "seed", "stop", "temperature", "top_k", "top_logprobs", "top_p", "user"),
    *(name for provider in PROVIDERS.values() for name in provider.harmless_parameters),
}
AGAIN = ("malformed", "refused", "truncated", "empty")  # statuses that may be asked again
_ABSENT = ("error", "missing")  # statuses of a reply that did not come
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


class Expected(NamedTuple):
    """What asking takes: calls, tokens about, and US dollars about and at most.

    The dollars are NaN if the price is not known.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    most_usd: float


class Judge:
    """A language model as a judge of dialogue responses.

    Parameters
    ----------
    spec : str
        ``<provider>:<model>``, with one of `dre.judges.providers.PROVIDERS`.
    store : Store, path or None
        None: the default store (``DRE_STORE``, or a file in the user's data folder).
    base_url : str
        Another server that speaks the provider's protocol. Default: what the variable of its SDK
        says, such as ``OPENAI_BASE_URL``, else the provider's own.
    key_env : str or None
        The variable with the key. Without it, a server that is not the provider's gets no key.
    price : Price, str or None
        ``"IN,OUT"``, in US dollars per million tokens. Default: as `dre.judges.prices.find` has it.
    max_usd : float or None
        The most that one call of `score` may spend, in US dollars, or all of one run
        (`dre.judges.asking.one_run`).
    max_usd_total : float or None
        The most that all calls in the store may have cost after it, those of other judges and of
        runs at the same time among them.
    max_usd_judge : float or None
        In its place, the most that all stored calls of this judge may have cost. It is what a
        profile's ``max_usd`` says.
    concurrency : int or None
        How many calls may be in flight. Default: 16; 4 at your own servers, which often answer
        one call at a time.
    timeout : float or None
        Seconds that a call may take, without those in which it waits behind others. Default: 120;
        600 at your own servers.
    attempts : int
        How many calls are made for one reply at most, where a failure may pass.
    repeats : int
        Replies for each pair. The score of the pair is their mean.
    plain : bool
        Ask for no structured output.
    logprobs : int or bool
        Score by log-probabilities (`dre.judges.likelihoods`): of a rating, the mean of so many of
        the likeliest ratings (True: 3); of a label, p(yes) in [0, 1].
    keep_going : bool
        Go on although none of the first ten replies to a prompt can be read.
    thinking_tags : path or None
        A file with further tags of thinking (`dre.judges.thinking`).
    account : str
        What the replies are for, in your words; a bill has a row for each.
    api_params : dict or None
        Further parameters of the API, for those whose names are options here, such as OpenAI's
        ``store``.
    **params
        What the provider's API takes: ``max_tokens``, ``temperature`` and so on.

    Attributes
    ----------
    last : dre.judges.asking.Run
        What the last call of `score` did.

    Raises
    ------
    DreError
        If there is no such provider, an option is out of range, a parameter cannot be set, or no
        price is known for a ceiling.
    """

    def __init__(
        self,
        spec: str,
        /,
        store: Store | str | Path | None = None,
        base_url: str = "",
        key_env: str | None = None,
        price: Price | str | None = None,
        max_usd: float | None = None,
        max_usd_total: float | None = None,
        max_usd_judge: float | None = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        attempts: int = 8,
        repeats: int = 1,
        plain: bool = False,
        logprobs: int = 0,
        keep_going: bool = False,
        thinking_tags: str | Path | None = None,
        account: str = "",
        api_params: dict[str, Any] | None = None,
        **params: Any,
    ):
        self.spec = spec
        self.provider, _, self.model = spec.partition(":")
        if not self.model or self.provider not in PROVIDERS:
            guess = prices.provider_of(spec)
            advice = f"; did you mean {guess}:{spec}?" if guess else ""
            raise DreError(f"judge {spec!r}: expected one of {SPECS}{advice}")

        # Where it is asked. In keys and in the signature the provider's own address is empty.
        self.address = connection.address_of(self.provider, base_url)
        self.key_env = key_env
        is_default_address = self.address == PROVIDERS[self.provider].address
        self.base_url = "" if is_default_address else self.address
        # All spellings under which replies of this server may be stored.
        self.addresses = {self.base_url, self.address}
        for name, other_name in (("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")):
            self.addresses.add(self.address.replace(f"//{name}:", f"//{other_name}:"))

        # How fast.
        is_own_machine = PROVIDERS[self.provider].is_own_machine
        answers_one_at_a_time = is_own_machine or not connection.is_public_service(self.address)
        if concurrency is None:
            concurrency = 4 if answers_one_at_a_time else 16
        if timeout is None:
            timeout = 600.0 if answers_one_at_a_time else 120.0
        self.concurrency = concurrency
        self.timeout = timeout
        self.attempts = attempts

        # What it is asked for.
        self.repeats = repeats
        self.plain = plain
        self.likeliest = 3 if logprobs is True else logprobs or 0
        self.keep_going = keep_going
        self.tags = thinking.extended_by(thinking_tags) if thinking_tags else thinking.built_in()
        self.params = self._api_params({**params, **(api_params or {})})
        self._check_numbers()

        # What it costs.
        self.given_price = prices.given(price) if isinstance(price, str) else price
        self.max_usd = max_usd
        self.max_usd_total = max_usd_total
        self.max_usd_judge = max_usd_judge
        self._check_money()

        self.store = store if isinstance(store, Store) else Store(store)
        self.account = account
        self.run: str | None = None  # that of `asking.one_run`; else each `score` is one by itself
        self.last = asking.Run()
        self.served_models = {"", self.model}  # models that answered; others are noted once
        self.was_read: set[str] = set()  # hashes of prompts to which some reply could be read

    def _api_params(self, params):
        """Return the parameters of the API, with those that log-probabilities need."""
        api_params = {}
        if self.likeliest:
            if not PROVIDERS[self.provider].gives_logprobs:
                others = [f"{name}:" for name in PROVIDERS if PROVIDERS[name].gives_logprobs]
                raise DreError(
                    f"judge {self.spec!r}: {self.provider} gives no log-probabilities: ask one "
                    f"that gives them ({', '.join(others)}, or a server that speaks their "
                    "protocol), or take repeats instead"
                )
            api_params["logprobs"] = True
            api_params["top_logprobs"] = likelihoods.TOP
        for name, value in params.items():
            if value is not None:
                api_params[name] = value
        return api_params

    def _check_numbers(self):
        whole_numbers = {
            "concurrency": self.concurrency,
            "attempts": self.attempts,
            "repeats": self.repeats,
            "max_tokens": self.params.get("max_tokens", 1),
            "logprobs": self.likeliest or 1,
        }
        for name, value in whole_numbers.items():
            if not isinstance(value, int) or value <= 0:
                raise DreError(f"{name} is {value!r}: expected a number above 0")
        if not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise DreError(f"timeout is {self.timeout!r}: expected a number above 0")

    def _check_money(self):
        """Refuse what would break the count of money, and ceilings that cannot be kept."""
        ceilings = {}
        if self.max_usd is not None:
            ceilings["--max-usd"] = self.max_usd
        if self.max_usd_total is not None:
            ceilings["--max-usd-total"] = self.max_usd_total
        if self.max_usd_judge is not None:
            ceilings["max_usd"] = self.max_usd_judge

        refused = self.params.keys() & _SET_BY_US
        if ceilings and not refused:
            refused = self.params.keys() - _HARMLESS_UNDER_A_CEILING
        if refused:
            raise DreError(
                f"parameter {min(refused)}: has an option of its own, "
                "or would break the count of money"
            )
        for option, usd in ceilings.items():
            if usd >= 0 and self.price:
                continue
            reason = f"no price is known for {self.spec}" if usd >= 0 else f"it is {usd}"
            is_of_profile = not option.startswith("--")
            price = (
                'price: "IN,OUT" beside it in the profile' if is_of_profile else "--price IN,OUT"
            )
            raise DreError(
                f"{reason}, so {option} cannot be kept: "
                f"give dollars, and with {price} what a million tokens cost"
            )

    @functools.cached_property  # replies that are stored with their cost need no list of prices
    def price(self) -> Price | None:
        """What tokens cost: as the user gave it, else as `dre.judges.prices.find` has it."""
        return self.given_price or prices.find(self.provider, self.model, self.base_url)

    def ceilings(self, run: str) -> list[Ceiling]:
        """Return the ceilings that hold for the calls of a run."""
        ceilings = []
        if self.max_usd is not None:
            ceilings.append(Ceiling("--max-usd", self.max_usd, run=run))
        if self.max_usd_judge is not None:
            ceilings.append(Ceiling("max_usd", self.max_usd_judge, is_of_judge=True))
        elif self.max_usd_total is not None:
            ceilings.append(Ceiling("--max-usd-total", self.max_usd_total))
        return ceilings

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        self.store.close()

    @property
    def signature(self) -> str:
        """All that can change a reply besides the prompt and the pair, as one line of text."""
        settings = {**self.params, "repeats": self.repeats}
        if self.base_url:
            settings["base_url"] = self.base_url
        if self.plain:
            settings["plain"] = True
        if self.likeliest:
            settings["logprobs"] = self.likeliest
        if self.tags is not thinking.built_in():
            settings["thinking_tags"] = self.tags.sha256
        words = [self.spec]
        for name, value in sorted(settings.items()):
            words.append(f"{name}={value}")
        return " ".join(words)

    # Scoring

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame:
        """Score pairs, and ask for what is not stored yet; each reply is committed when it comes.

        Parameters
        ----------
        pairs : DataFrame or list of dict
            With ``pair_id``, ``context``, ``response``, and what else the prompt has slots for.
        prompt : str, Path or Prompt
            A prompt, its name, or the path of a template.
        retry : collection of str
            Statuses to ask again: ``malformed``, ``refused``, ``truncated``, ``empty``.
        first : int
            Index of the first reply to a pair; another index asks for another reply.
        ask : bool
            Whether to ask for what is not stored.
        examples : dict of str to list, or None
            For each ``pair_id`` the examples to show with it, as `dre.paper.examples.select`
            returns them. They take the place of a column ``examples``; the prompt needs a slot.

        Returns
        -------
        DataFrame
            The table of `frame`, with one row for each pair.

        Raises
        ------
        DreError
            If the judge cannot be asked, a pair lacks its examples, or another process asks the
            same judge in the same way.
        """
        prompt = prompts.load(prompt)
        rows = rows_of(pairs)
        self.last = asking.Run(id=self.run or new_run())
        if examples is not None:
            _add_examples(rows, examples, prompt)

        requests = self._requests(rows, prompt, first)
        replies = self._stored(requests)
        if ask and self._unanswered(replies, prompt, retry):
            with self.store.held(self.lock_name(prompt)):
                # Another process may have asked for some in the meantime.
                replies = self._stored(requests)
                unanswered = self._unanswered(replies, prompt, retry)
                if unanswered:
                    unread = self._unread(replies, prompt)
                    with self._paid_in(self.last):
                        asking.ask_all(self, unanswered, prompt, self.last, unread)
            replies = self._stored(requests)

        outcomes_by_pair: Outcomes = {row["pair_id"]: [] for row in rows}
        paid_keys = set()
        for request, reply in replies:
            if reply is None:
                error = self.last.errors.get(request.key)
                status = "error" if error else "missing"
                outcome = (Verdict(status, reason=error or "not asked yet"), None)
            else:
                # Pairs with the same messages share a reply, which is paid for once.
                cost_usd = 0.0 if request.key in paid_keys else self.cost_usd(reply)
                paid_keys.add(request.key)
                outcome = (self.verdict(reply, prompt, request.row), cost_usd)
                self.note_verdict(outcome[0], prompt)
            outcomes_by_pair[request.pair_id].append(outcome)
        return frame(outcomes_by_pair)

    @contextlib.contextmanager
    def _paid_in(self, run):
        """Note what this judge pays, by the store's account of the run."""
        before = self.store.paid(run.id, self.spec)
        try:
            yield
        finally:
            with contextlib.suppress(DreError):  # what is wrong with the store is said elsewhere
                after = self.store.paid(run.id, self.spec)
                run.spent = after.usd - before.usd
                run.uncertain = after.uncertain_usd - before.uncertain_usd

    def unanswered(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
    ) -> list[Request]:
        """Return the request for each reply that is not stored, or is of a status in `retry`.

        The parameters are those of `score`.
        """
        prompt = prompts.load(prompt)
        return self._unanswered(self.replies(pairs, prompt, first), prompt, retry)

    def replies(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        first: int = 0,
    ) -> list[tuple[Request, Reply | None]]:
        """Return each request that belongs to some pairs with its reply, or None, in their order.

        The parameters are those of `score`.
        """
        return self._stored(self._requests(rows_of(pairs), prompts.load(prompt), first))

    def _requests(self, rows, prompt, first):
        """Return the requests that belong to rows, in their order."""
        if self.likeliest:
            likelihoods.check_prompt(prompt)
        max_tokens = self.max_tokens(prompt)
        is_structured = self.schema(prompt) is not None
        params = {**self.params, "max_tokens": max_tokens, "structured": is_structured}
        limits_by_setting = self._settings(prompt, params)
        params_text = json.dumps(params, sort_keys=True)
        requests = []
        for row in rows:
            messages = prompt.render(row)
            for repeat in range(first, first + self.repeats):
                limits = {}
                for setting, limit in limits_by_setting.items():
                    limits[key_of(setting, messages, repeat)] = limit
                request = Request(
                    key=next(iter(limits)),
                    judge=self.spec,
                    base_url=self.base_url,
                    prompt=prompt.name,
                    params=params_text,
                    pair_id=row["pair_id"],
                    repeat=repeat,
                    row=row,
                    messages=messages,
                    limits=limits,
                )
                requests.append(request)
        return requests

    def _settings(self, prompt, params):
        """Return the settings under which a reply may be stored, with the limit on tokens of each.

        The judge's own setting comes first. The others are those of stored replies that differ in
        the limit alone, or in the spelling of the address, such as localhost for 127.0.0.1. If the
        judge reads text, replies that came with log-probabilities are as good as others.
        """
        max_tokens = params["max_tokens"]
        own_setting = setting_sha256(self.spec, self.base_url, prompt.sha256, params)
        limits_by_setting = {own_setting: max_tokens}
        of_no_concern = set() if self.likeliest else {"logprobs", "top_logprobs"}
        for base_url, stored_text in self.store.settings(self.spec):
            stored_params = json.loads(stored_text)
            comparable = {}
            for name, value in stored_params.items():
                if name in params or name not in of_no_concern:
                    comparable[name] = value
            comparable["max_tokens"] = max_tokens
            if base_url in self.addresses and comparable == params:
                setting = setting_sha256(self.spec, base_url, prompt.sha256, stored_params)
                limits_by_setting[setting] = stored_params["max_tokens"]
        return limits_by_setting

    def lock_name(self, prompt: Prompt) -> str:
        """Return what runs have in common that could pay for the same reply, as a hash."""
        is_structured = self.schema(prompt) is not None
        params = {**self.params, "structured": is_structured}
        params.pop("max_tokens", None)  # a reply may serve another limit, too
        return setting_sha256(self.spec, max(self.addresses), prompt.sha256, params)

    def _stored(self, requests):
        """Return each request with its reply, or None; a whole one before a truncated one."""
        keys = set()
        for request in requests:
            keys.update(request.limits)
        stored = self.store.get(keys, top=bool(self.likeliest))
        replies = []
        for request in requests:
            own_limit = request.limits[request.key]
            fitting = []
            for key, limit in request.limits.items():
                if key in stored and _fits(stored[key], limit, own_limit):
                    fitting.append(stored[key])
            fitting.sort(key=lambda reply: reply.outcome == "truncated")
            replies.append((request, fitting[0] if fitting else None))
        return replies

    def _unanswered(self, replies, prompt, retry):
        """Return the requests to ask for, one of those that share a reply."""
        if isinstance(retry, str) or not set(retry) <= set(AGAIN):
            raise DreError(f"retry is {retry!r}: expected a list of {', '.join(AGAIN)}")
        unanswered = {}
        for request, reply in replies:
            is_wanted = reply is None
            if reply is not None and retry:
                is_wanted = self.verdict(reply, prompt, request.row).status in retry
            if is_wanted:
                unanswered.setdefault(request.key, request)
        return list(unanswered.values())

    def _unread(self, replies, prompt):
        """Return the verdicts of stored replies, if none of them could be read; else nothing."""
        verdicts = []
        for request, reply in replies:
            if prompt.sha256 in self.was_read or self.keep_going:
                return []
            if reply is not None:
                verdicts.append(self.verdict(reply, prompt, request.row))
                self.note_verdict(verdicts[-1], prompt)
        return [] if prompt.sha256 in self.was_read else verdicts

    def note_verdict(self, verdict: Verdict, prompt: Prompt) -> None:
        """Remember that a reply to a prompt could be read, if it could."""
        if verdict.status not in (*outcomes.UNREADABLE, *_ABSENT):
            self.was_read.add(prompt.sha256)

    def cost_usd(self, reply: Reply) -> float | None:
        """Return the dollars that a reply cost, at today's price if none was known when it came."""
        if reply.cost is None and self.price:
            is_batch = reply.source == "batch"
            tokens = (reply.input_tokens, reply.output_tokens)
            return self.price.cost(*tokens, batch=is_batch, cached=reply.cached)
        return reply.cost

    def verdict(self, reply: Reply, prompt: Prompt, row: dict) -> Verdict:
        """Return the verdict of a stored reply. A status that the provider gave it comes first.

        Parameters
        ----------
        reply : Reply
            What is stored.
        prompt : Prompt
            What was asked.
        row : dict
            The pair, whose texts may be repeated in the reply.
        """
        less_thinking = PROVIDERS[self.provider].less_thinking
        limits = outcomes.Limits(less_thinking, self.max_tokens(prompt))
        if reply.outcome != "ok":
            return outcomes.of_provider(reply.outcome, reply.text, reply.output_tokens, limits)
        is_structured = self.schema(prompt) is not None
        verdict = prompt.parse(reply.text, row, structured=is_structured, tags=self.tags)
        if verdict.status != "ok":
            verdict = outcomes.advised(verdict, reply.text, reply.output_tokens, limits)
        if self.likeliest:
            return likelihoods.rescore(verdict, reply.text, reply.top, prompt, self.likeliest)
        return verdict

    # What a run would take

    def estimate(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
    ) -> str:
        """Say in words what scoring would take: calls, tokens and dollars, about and at most.

        The parameters are those of `score`.
        """
        prompt = prompts.load(prompt)
        return self.estimate_calls(self.unanswered(pairs, prompt, retry), prompt)

    def estimate_calls(self, requests: list[Request], prompt: Prompt) -> str:
        """Say in words what asking for replies would take: calls, tokens and dollars.

        ``requests`` is what `unanswered` returns, or several such lists, one after the
        other.
        """
        if not requests:
            return "0 calls to make: all is stored"
        expected = self.expect(requests, prompt)
        money = "price unknown (give --price IN,OUT)"
        if self.price:
            money = f"{prices.in_words(expected.usd, expected.most_usd)} ({self.price.source})"
        return (
            f"{counted(expected.calls, 'call')} to make\n"
            f"about {expected.input_tokens:,} tokens in, {expected.output_tokens:,} out "
            f"(at most {self.max_tokens(prompt):,} per reply)\n"
            f"{money}"
        )

    def expect(
        self, requests: list[Request], prompt: Prompt, typical_reply: int | None = None
    ) -> Expected:
        """Return what asking for replies would take, about and at most.

        Parameters
        ----------
        requests : list of Request
            What `unanswered` returns, or several such lists, one after the other.
        prompt : Prompt
            What they ask.
        typical_reply : int or None
            Tokens of a typical reply, by default as for all prompts of this kind.
        """
        n_calls = len(requests)
        max_tokens = self.max_tokens(prompt)
        schema = self.schema(prompt)
        most_input = sum(prices.most_tokens(request.messages, schema) for request in requests)
        input_tokens = most_input // 4  # a token of English is about four bytes

        typical_reply = typical_reply or prices.REPLY[prompt.kind]
        if prices.thinks(self.model, self.params):
            typical_reply += 1000
        output_tokens = n_calls * min(max_tokens, typical_reply)

        usd, most_usd = math.nan, math.nan
        if self.price:
            usd = self.price.cost(input_tokens, output_tokens) or 0.0
            most_usd = self.price.cost(most_input, n_calls * max_tokens) or 0.0
        return Expected(n_calls, input_tokens, output_tokens, usd, most_usd)

    def schema(self, prompt: Prompt) -> dict | None:
        """Return the JSON schema that goes with a request, or None."""
        return None if self.plain else prompt.schema

    def max_tokens(self, prompt: Prompt) -> int:
        """Return the longest reply to a prompt that is paid for, in tokens."""
        chosen = self.params.get("max_tokens")
        if chosen:
            return chosen
        return prices.longest(prompt.kind, self.provider, self.model, self.params)


def _add_examples(rows, examples, prompt):
    """Give each row the examples that are shown with it."""
    if "examples" not in prompt.slots:
        raise DreError(
            f"prompt {prompt.name} has no slot {{{{examples}}}}: use quality_overall, say"
        )
    for row in rows:
        if row["pair_id"] not in examples:
            raise DreError(
                f"examples has none for pair {row['pair_id']!r}: "
                "expected a list for each pair, which may be empty"
            )
        row["examples"] = examples[row["pair_id"]]


def _fits(reply, limit, own_limit):
    """Whether a reply under some limit on its tokens is what the judge's own limit would give."""
    if reply.outcome == "truncated":
        return limit >= own_limit
    return limit == own_limit or (reply.output_tokens or 0) <= own_limit


# The table


#: For each pair the verdicts of its replies, with what each cost in US dollars (None: unknown).
Outcomes = dict[str, list[tuple[Verdict, float | None]]]


def frame(outcomes_by_pair: Outcomes) -> pd.DataFrame:
    """Return the table of verdicts.

    Parameters
    ----------
    outcomes_by_pair : `Outcomes`
        ``error`` and ``missing`` are verdicts of replies that did not come.

    Returns
    -------
    DataFrame
        One row for each pair. ``n_samples`` replies came, of which ``n_ok`` are verdicts.
        ``score_llm`` and ``s_inf`` are their means, and ``label`` is what most of them say, or None
        in a tie. ``status`` is ``error`` or ``missing`` (not asked for) if a reply did not
        come, else ``ok`` if one is a score, else what most of them are. A pair has a score only
        if its status is ``ok``.
    """
    rows = [_row(pair_id, outcomes) for pair_id, outcomes in outcomes_by_pair.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(pair_id, outcomes):
    """Return the row of one pair."""
    verdicts = [verdict for verdict, _ in outcomes]
    if not verdicts:
        verdicts = [Verdict("missing", reason="not asked yet")]
    absent = [verdict for verdict in verdicts if verdict.status in _ABSENT]
    scored = [verdict for verdict in verdicts if verdict.status == "ok"]
    n_replies = len(verdicts) - len(absent)

    # The status is decided by replies that did not come, else by scores, else by all replies.
    decisive = absent or scored or verdicts
    statuses = [verdict.status for verdict in decisive]
    status = "error" if "error" in statuses else statistics.mode(statuses)
    example = decisive[statuses.index(status)]
    reason = example.reason
    if absent and n_replies:
        reason = f"{len(absent)} of {len(verdicts)} replies did not come: {reason}"

    # Only a pair whose replies all came has a score.
    score_llm, s_inf, label = np.nan, np.nan, None
    if scored and not absent:
        numbers = [(verdict.score_llm, verdict.s_inf) for verdict in scored]
        score_llm, s_inf = np.array(numbers, float).mean(axis=0)
        labels = statistics.multimode(verdict.label for verdict in scored)
        label = labels[0] if len(labels) == 1 else None

    costs = [cost for verdict, cost in outcomes if verdict.status not in _ABSENT]
    return {
        "pair_id": pair_id,
        "score_llm": score_llm,
        "s_inf": s_inf,
        "label": label,
        "responses": example.responses,
        "status": status,
        "reason": reason,
        "cost": np.array(costs, float).sum() if costs else np.nan,
        "n_samples": n_replies,
        "n_ok": len(scored),
    }


def rows_of(pairs: pd.DataFrame | list[dict]) -> list[dict]:
    """Return pairs as a list of dicts with different ``pair_id``s.

    A ``context`` that is one text becomes a tuple of turns, one for each line that is not empty.

    Raises
    ------
    DreError
        If a ``pair_id`` is not a text that can be stored, or is in two rows.
    """
    if isinstance(pairs, pd.DataFrame):
        rows = pairs.to_dict("records")
    else:
        rows = [dict(row) for row in pairs]
    pair_ids = set()
    for number, row in enumerate(rows):
        pair_id = row.get("pair_id")
        if not isinstance(pair_id, str) or HALF.search(pair_id) or pair_id in pair_ids:
            raise DreError(
                f"row {number}: pair_id is {pair_id!r}, expected a text that no other row has"
            )
        pair_ids.add(pair_id)
        if isinstance(row.get("context"), str):
            lines = row["context"].split("\n")
            row["context"] = tuple(line for line in lines if line.strip())
    return rows
