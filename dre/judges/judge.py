"""A language model as a judge: scores pairs, and asks only for what is not stored yet."""

import functools
import math
import secrets
import statistics
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.judges import likelihoods, prices, prompts, providers
from dre.judges.ask import Budget, Run, ask_all
from dre.judges.parse import Verdict
from dre.judges.prices import Price
from dre.judges.prompts import Prompt
from dre.judges.providers import PROVIDERS, SPECS, Reply
from dre.judges.store import Store, key_of
from dre.tables import counted

AGAIN = ("malformed", "refused", "truncated", "empty")  # statuses that may be asked again
_MISSING = Verdict("missing", reason="no reply is stored")
_ABSENT = ("error", "missing")  # statuses of a reply that did not come
_SET_BY_US = {
    *("candidate_count", "max_completion_tokens", "max_output_tokens", "messages", "model", "n"),
    *("num_predict", "response_format", "stream", "system", "store", "extra_body"),
}
# What may be set under a ceiling: nothing that makes a token dearer, or a reply too long.
_HARMLESS = {
    *("frequency_penalty", "logprobs", "min_p", "presence_penalty", "seed", "stop", "temperature"),
    *("top_k", "top_logprobs", "top_p", "reasoning_effort", "reasoning", "verbosity", "thinking"),
    *("output_config", "safety_settings", "thinking_config", "keep_alive", "num_ctx", "think"),
    "chat_template_kwargs",
}
_WHITE_TO_THE_LIMIT = 50  # white signs at the end of a truncated reply: its grammar allows them
_MORE_TOKENS = ": give a larger --max-tokens"
COLUMNS = ["pair_id", "score_llm", "s_inf", "label", "responses", "status", "reason", "cost"]
COLUMNS += ["n_samples", "n_ok"]


class Request(NamedTuple):
    """What a reply answers, of at most so many tokens; ``paid_by`` is an account and a run."""

    key: str
    judge: str
    address: str
    prompt: str
    pair_id: str
    row: dict
    messages: list[dict]
    max_tokens: int
    paid_by: tuple[str, str]


class Expected(NamedTuple):
    """What asking takes: calls, tokens about, and US dollars about and at most (NaN: unknown)."""

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    most_usd: float


def new_run() -> str:
    """Return an id for a run: when it began, and a part that no other run has."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


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
        The most that this judge may spend from now on, in US dollars.
    max_usd_judge : float or None
        In its place, the most that all its stored calls may have cost: ``max_usd`` of a profile.
    concurrency : int or None
        Calls in flight. Default: 8.
    timeout : float or None
        Seconds that a call may take. Default: 300.
    repeats : int
        Replies for each pair. The score of the pair is their mean.
    plain : bool
        Ask for no structured output.
    logprobs : int or bool
        Score by log-probabilities (`dre.judges.likelihoods`): of a rating, the mean of so many of
        the likeliest ratings (True: 3); of a label, p(yes) in [0, 1].
    account : str
        What the replies are for, in your words; a bill has a row for each.
    **params
        ``max_tokens``, ``temperature`` and whatever else the provider's API takes.

    Attributes
    ----------
    last : dre.judges.ask.Run
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
        max_usd_judge: float | None = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        repeats: int = 1,
        plain: bool = False,
        logprobs: int = 0,
        account: str = "",
        **params: Any,
    ):
        self.spec = spec
        self.provider, _, self.model = spec.partition(":")
        if not self.model or self.provider not in PROVIDERS:
            raise DreError(f"judge {spec!r}: expected one of {SPECS}")
        # In keys, bills and the signature the provider's own address is empty.
        self.address = providers.address_of(self.provider, base_url)
        self.base_url = "" if self.address == PROVIDERS[self.provider].address else self.address
        self.key_env = key_env
        self.concurrency = 8 if concurrency is None else concurrency
        self.timeout = 300.0 if timeout is None else timeout
        self.repeats = repeats
        self.plain = plain
        self.likeliest = 3 if logprobs is True else logprobs or 0
        if self.likeliest:
            if not PROVIDERS[self.provider].gives_logprobs:
                raise DreError(
                    f"{spec}: {self.provider} gives no log-probabilities: ask a judge that gives "
                    "them, or take repeats instead"
                )
            params = {"logprobs": True, "top_logprobs": likelihoods.TOP, **params}
        self.params = {name: value for name, value in params.items() if value is not None}
        self._max_tokens = self.params.pop("max_tokens", None)

        self._given_price = prices.given(price) if price is not None else None
        self.max_usd = max_usd if max_usd_judge is None else max_usd_judge
        self._is_for_all_runs = max_usd_judge is not None
        self._check_options()
        self.store = store if isinstance(store, Store) else Store(store)
        self.budget = Budget(math.inf if self.max_usd is None else self.max_usd)
        self.account = account
        self.run = ""
        self.last = Run()

    def _check_options(self):
        """Raise `DreError` for a number out of range, and for what breaks the count of money."""
        numbers = {"concurrency": self.concurrency, "repeats": self.repeats}
        numbers["logprobs"] = self.likeliest or 1
        if self._max_tokens is not None:
            numbers["max_tokens"] = self._max_tokens
        for name, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                raise DreError(f"{name} is {value!r}: expected a whole number above 0")
        if not self.timeout > 0:
            raise DreError(f"timeout is {self.timeout!r}: expected seconds above 0")
        refused = self.params.keys() & _SET_BY_US
        if self.max_usd is not None:
            refused |= self.params.keys() - _HARMLESS
            if not self.max_usd >= 0:
                raise DreError(f"max_usd is {self.max_usd}: expected dollars, from 0 on")
            if not self.price:
                place = f" at {self.base_url}" if self.base_url else ""
                raise DreError(
                    f"no price is known for {self.spec}{place}, so max_usd cannot be kept: give "
                    "its price, IN,OUT in dollars per million tokens"
                )
        if refused:
            raise DreError(
                f"parameter {min(refused)}: is set here, or may cost more than is counted"
            )

    @functools.cached_property  # stored replies need no list of prices
    def price(self) -> Price | None:
        """What tokens cost: as the user gave it, else as `dre.judges.prices.find` has it."""
        return self._given_price or prices.find(self.provider, self.model, self.base_url)

    @property
    def signature(self) -> str:
        """All that can change a reply besides the prompt and the pair, as one line of text."""
        ours = {"base_url": self.base_url, "plain": self.plain, "logprobs": self.likeliest}
        ours |= {"max_tokens": self._max_tokens}
        settings = {**self.params, "repeats": self.repeats}
        settings |= {name: value for name, value in ours.items() if value}
        words = [f"{name}={value}" for name, value in sorted(settings.items())]
        return " ".join([self.spec, *words])

    def client(self) -> providers.Provider:
        """Return the model as it is asked once."""
        return providers.connect(
            self.provider, self.model, self.address, self.key_env, self.timeout
        )

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        self.store.close()

    # Scoring

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: Mapping[str, list] | None = None,
    ) -> pd.DataFrame:
        """Score pairs, and ask for what is not stored yet; each reply is committed when it comes.

        Parameters
        ----------
        pairs : DataFrame or list of dict
            With ``pair_id``, ``context``, ``response``, and what else the prompt has slots for.
        prompt : str, Path or Prompt
            A prompt, its name, or the path of a template.
        retry : collection of str
            Statuses to ask again, of `AGAIN`.
        first : int
            Index of the first reply to a pair; another index asks for another reply.
        ask : bool
            Whether to ask for what is not stored.
        examples : dict of str to list, or None
            For each ``pair_id`` the rated examples to show with it.

        Returns
        -------
        DataFrame
            The table of `frame`, with one row for each pair.

        Raises
        ------
        DreError
            If no further call could succeed, or none of the first ten replies can be read. What
            was answered is stored.
        """
        prompt = prompts.load(prompt)
        rows = rows_of(pairs)
        if examples is not None:
            if "examples" not in prompt.slots:
                raise DreError(f"prompt {prompt.name} has no slot {{{{examples}}}}: take another")
            rows = [{**row, "examples": examples[row["pair_id"]]} for row in rows]
        requests = self.requests(rows, prompt, first)
        self.last = Run()
        if ask:
            self._ask(requests, prompt, retry)
        stored = self.store.get({request.key for request in requests})
        outcomes: dict[str, list] = {row["pair_id"]: [] for row in rows}
        paid_keys = set()
        for request in requests:
            outcome = self._outcome(request, stored.get(request.key), prompt)
            if request.key in paid_keys:  # pairs with the same messages share a reply
                outcome = (outcome[0], 0.0)
            paid_keys.add(request.key)
            outcomes[request.pair_id].append(outcome)
        return frame(outcomes)

    def _ask(self, requests, prompt, retry):
        """Ask for what is not stored, and again for replies of a status in `retry`."""
        if not self.unanswered(requests, prompt, retry):
            return
        with self.store.held(self.spec, self.base_url):
            statuses = self._statuses(requests, prompt)  # by now
            if self._is_for_all_runs:
                self.budget.spent = self.store.spent(self.spec, self.base_url)
            is_read = any(status in ("ok", "refused") for status, _ in statuses.values())
            n_unread = -1 if is_read else len(statuses)
            unanswered = _unanswered(requests, statuses, retry)
            ask_all(self, unanswered, prompt, self.last, n_unread)

    def _statuses(self, requests, prompt):
        """Return the status of each stored reply, and whether a lower limit cut it, by key."""
        stored = self.store.get({request.key for request in requests})
        statuses = {}
        for request in requests:
            if request.key in stored and request.key not in statuses:
                reply, *_, limit = stored[request.key]
                is_cut = reply.outcome == "truncated" and limit < request.max_tokens
                status = self.verdict(reply, prompt, request.row).status
                statuses[request.key] = (status, is_cut)
        return statuses

    def _outcome(self, request, stored, prompt):
        """Return the verdict of a request, and what it cost."""
        error = self.last.errors.get(request.key)
        if stored is not None:  # if it failed now, an earlier reply stands
            return self.verdict(stored.reply, prompt, request.row), stored.cost
        return Verdict("error" if error else "missing", reason=error or _MISSING.reason), None

    def requests(
        self, pairs: pd.DataFrame | list[dict], prompt: str | Path | Prompt, first: int = 0
    ) -> list[Request]:
        """Return the requests that belong to pairs, in their order."""
        prompt = prompts.load(prompt)
        if self.likeliest:
            likelihoods.check_prompt(prompt)
        params = {**self.params, "schema": self.schema(prompt)}
        limit = self.max_tokens(prompt)
        requests = []
        for row in rows_of(pairs):
            messages = prompt.render(row)
            for repeat in range(first, first + self.repeats):
                key = key_of(self.spec, self.base_url, messages, params, repeat)
                about = (self.spec, self.base_url, prompt.name, row["pair_id"], row, messages)
                requests.append(Request(key, *about, limit, (self.account, self.run)))
        return requests

    def unanswered(
        self, requests: list[Request], prompt: Prompt, retry: Collection[str] = ()
    ) -> list[Request]:
        """Return the requests without a reply, or with one of a status in `retry`.

        A reply that was truncated under a lower limit of tokens is none.
        """
        if isinstance(retry, str) or not set(retry) <= set(AGAIN):
            raise DreError(f"retry is {retry!r}: expected a list of {', '.join(AGAIN)}")
        return _unanswered(requests, self._statuses(requests, prompt), retry)

    def verdict(self, reply: Reply, prompt: Prompt, row: dict) -> Verdict:
        """Return the verdict of a reply. An outcome that its provider gave it comes first."""
        if reply.outcome != "ok":
            text = reply.text
            is_white = len(text) - len(text.rstrip()) > _WHITE_TO_THE_LIMIT
            advice = ": --plain asks without structured output" if is_white else _MORE_TOKENS
            advice = advice if reply.outcome == "truncated" else ""
            return Verdict(reply.outcome, reason=f"the provider says {reply.outcome}{advice}")
        verdict = prompt.parse(reply.text, row, structured=self.schema(prompt) is not None)
        if self.likeliest:
            return likelihoods.rescore(verdict, reply.top, prompt, self.likeliest)
        return verdict

    # What a call takes

    def schema(self, prompt: Prompt) -> dict | None:
        """Return the JSON schema that goes with a request, or None."""
        return None if self.plain else prompt.schema

    def max_tokens(self, prompt: Prompt) -> int:
        """Return the longest reply that is paid for, in tokens, thinking included."""
        return self._max_tokens or prices.LONGEST[prompt.kind]

    def options(self, prompt: Prompt) -> tuple:
        """Return what goes to the provider with the messages."""
        return self.max_tokens(prompt), self.params, self.schema(prompt)

    def cost_usd(self, reply: Reply, most_usd: float) -> float | None:
        """Return the dollars that a reply cost: at most if its tokens are not counted.

        None if no price is known.
        """
        if self.price is None:
            return None
        if reply.input_tokens is None or reply.output_tokens is None:
            return most_usd
        return self.price.cost(reply.input_tokens, reply.output_tokens, reply.cached_tokens)

    def most_usd(self, request: Request, prompt: Prompt) -> float:
        """Return the most that a call can cost; 0 without a price."""
        if self.price is None:
            return 0.0
        tokens = prices.most_tokens(request.messages, self.schema(prompt))
        return self.price.cost(tokens, self.max_tokens(prompt))

    def expect(
        self, requests: list[Request], prompt: Prompt, typical_reply: int | None = None
    ) -> Expected:
        """Return what asking for replies takes, about and at most."""
        schema = self.schema(prompt)
        most = sum(prices.most_tokens(request.messages, schema) for request in requests)
        about = most // 4  # a token of English is about four bytes
        replies = len(requests) * (typical_reply or prices.REPLY[prompt.kind])
        usd = most_usd = math.nan
        if self.price:
            usd = self.price.cost(about, replies)
            most_usd = self.price.cost(most, len(requests) * self.max_tokens(prompt))
        return Expected(len(requests), about, replies, usd, most_usd)

    def estimate(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
    ) -> str:
        """Say in words what scoring would take: calls, tokens and dollars, about and at most."""
        prompt = prompts.load(prompt)
        requests = self.unanswered(self.requests(pairs, prompt), prompt, retry)
        if not requests:
            return "0 calls to make: all is stored"
        expected = self.expect(requests, prompt)
        money = "price unknown (give --price IN,OUT)"
        if self.price:
            money = f"{prices.in_words(expected.usd, expected.most_usd)} ({self.price.source})"
        return (
            f"{counted(expected.calls, 'call')} to make\n"
            f"about {expected.input_tokens:,} tokens in, {expected.output_tokens:,} out without "
            f"thinking (at most {self.max_tokens(prompt):,} per reply)\n{money}"
        )


# The table


def frame(outcomes_by_pair: Mapping[str, list[tuple[Verdict, float | None]]]) -> pd.DataFrame:
    """Return the table of verdicts, one row for each pair.

    ``n_samples`` replies came, of which ``n_ok`` are verdicts. ``score_llm`` and ``s_inf`` are
    their means, and ``label`` is what most of them say. A pair has a score only if all its replies
    came, and one of them is a score.
    """
    rows = [_row(pair_id, outcomes) for pair_id, outcomes in outcomes_by_pair.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(pair_id, outcomes):
    """Return the row of one pair."""
    verdicts = [verdict for verdict, _ in outcomes] or [_MISSING]
    absent = [verdict for verdict in verdicts if verdict.status in _ABSENT]
    scored = [verdict for verdict in verdicts if verdict.status == "ok"]
    decisive = absent or scored or verdicts
    example = decisive[0]
    costs = [cost for verdict, cost in outcomes if verdict.status not in _ABSENT]
    row = {"pair_id": pair_id, "score_llm": np.nan, "s_inf": np.nan, "label": None}
    if scored and not absent:
        numbers = [(verdict.score_llm, verdict.s_inf) for verdict in scored]
        row["score_llm"], row["s_inf"] = np.array(numbers, float).mean(axis=0)
        labels = statistics.multimode(verdict.label for verdict in scored)
        row["label"] = labels[0] if len(labels) == 1 else None
    return row | {
        "responses": example.responses,
        "status": example.status,
        "reason": example.reason,
        "cost": np.array(costs, float).sum() if costs else np.nan,
        "n_samples": len(verdicts) - len(absent),
        "n_ok": len(scored),
    }


def _unanswered(requests, statuses, retry):
    """Return the requests, each once, whose reply is not stored, was cut, or is asked again."""
    unanswered = {}
    for request in requests:
        status, is_cut = statuses.get(request.key, (None, True))
        if is_cut or status in retry:
            unanswered[request.key] = request
    return list(unanswered.values())


def rows_of(pairs: pd.DataFrame | list[dict]) -> list[dict]:
    """Return pairs as a list of dicts with different ``pair_id``s.

    A ``context`` that is one text becomes a tuple of turns, one for each line that is not empty.
    """
    is_table = isinstance(pairs, pd.DataFrame)
    rows = pairs.to_dict("records") if is_table else [dict(row) for row in pairs]
    if len({row.get("pair_id") for row in rows}) < len(rows):
        raise DreError("two pairs have the same pair_id, or none: expected a text of its own")
    for row in rows:
        if isinstance(row.get("context"), str):
            row["context"] = tuple(line for line in row["context"].split("\n") if line.strip())
    return rows
