"""A judge: scores pairs through the store; asks only for what is missing, within a budget, many calls in flight."""

import json
import re
import statistics

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.judges import asking, likelihoods, parse, prices, prompts, providers
from dre.judges.store import Asked, Store, key_of, messages_sha256, setting_sha256

# What --param may not set: the bound on the cost of a call hangs on it, or the request is ours to make.
_OURS = {"max_completion_tokens", "max_output_tokens", "num_predict", "n", "candidate_count"}
_OURS |= {"messages", "model", "stream", "response_format", "output_config"}
AGAIN = ("malformed", "refused", "truncated", "empty")  # statuses that may be asked again
COLUMNS = ["pair_id", "score_llm", "s_inf", "label", "responses", "status", "reason", "cost", "n_samples", "n_ok"]


class Judge:
    """A language model as a judge of dialogue responses.

    Parameters
    ----------
    spec : str
        ``openai:<model>``, ``anthropic:<model>``, ``gemini:<model>`` or ``ollama:<model>``.
    store : Store, path or None
        None: the default store (``DRE_STORE``, or a file in the user's data folder).
    base_url, key_env : str
        Another server that speaks the provider's protocol; the environment variable with its key.
    price, max_usd : Price or str, float, or None
        ``"IN,OUT"``, dollars per million tokens (default: as listed); the most that one call of `score` may spend.
    concurrency, timeout : int and float, or None
        Calls in flight at most (default 16) and seconds that one may take, without those it waits behind others (120);
        4 and 600 at servers of one's own, which often answer one at a time.
    attempts, repeats : int
        Calls for one reply at most, where a failure may pass; replies for each pair, whose mean is the score.
    plain, **params
        Ask for no structured output; what the provider's API takes (``max_tokens, temperature, ...``).
    logprobs : int
        Score by log-probabilities (`dre.judges.likelihoods`): of a rating, the mean of so many of the likeliest ratings
        (True: 3), of a label p(yes) in [0, 1]. OpenAI and Ollama give them, and servers that speak their protocols.

    ``last`` says what the last call of `score` did: a `dre.judges.asking.Run`.
    """

    def __init__(self, spec, store=None, base_url="", key_env=None, price=None, max_usd=None, concurrency=None,
                 timeout=None, attempts=8, repeats=1, plain=False, logprobs=0, **params):  # fmt: skip
        self.spec = spec
        self.provider, _, self.model = spec.partition(":")
        if not self.model or self.provider not in providers.KEYS:
            known = ", ".join(f"{name}:<model>" for name in (*providers.KEYS, "recorded"))
            raise DreError(f"judge {spec!r}: expected one of {known}")
        # It is stored, so no key may be in it.
        if base_url and not re.fullmatch(r"https?://[^/@?#]+(/[^@?#]*)?", base_url):
            raise DreError("the base URL must look like http://host:port/path, without user name, password or query")
        self.base_url, self.key_env = base_url.rstrip("/"), key_env
        self.price = prices.given(price) if isinstance(price, str) else price
        self.price = self.price or prices.find(self.provider, self.model, self.base_url)
        slow = self.provider == "ollama" or (self.base_url and not providers.known(self.base_url))
        self.concurrency = (4 if slow else 16) if concurrency is None else concurrency
        self.timeout = (600.0 if slow else 120.0) if timeout is None else timeout
        self.max_usd, self.attempts, self.repeats, self.plain = max_usd, attempts, repeats, plain
        self.likeliest = 3 if logprobs is True else int(logprobs or 0)
        if self.likeliest and self.provider not in likelihoods.PROVIDERS:
            raise DreError(f"judge {spec!r}: {self.provider} gives no log-probabilities: {likelihoods.INSTEAD}")
        self.params = {"logprobs": True, "top_logprobs": likelihoods.TOP} if self.likeliest else {}
        self.params |= {name: value for name, value in params.items() if value is not None}
        if not min(self.concurrency, self.timeout, attempts, repeats) > 0:
            raise DreError("concurrency, timeout, attempts and repeats must be more than 0")
        if spoilt := sorted(_OURS & self.params.keys()):
            raise DreError(f"parameter {spoilt[0]}: has an option of its own, or would break the count of money")
        if max_usd is not None and not (max_usd >= 0 and self.price):
            why = f"no price is known for {spec}" if max_usd >= 0 else f"max_usd is {max_usd}"
            raise DreError(f"{why}, so --max-usd cannot be kept: give dollars, and --price IN,OUT per million tokens")
        self.store = store if isinstance(store, Store) else Store(store)
        self.last = asking.Run()

    @property
    def signature(self):
        """All that can change a reply besides the prompt and the pair, as one line of text."""
        how = {"base_url": self.base_url, "repeats": self.repeats, "plain": self.plain} | self.params
        how |= {"logprobs": self.likeliest} if self.likeliest else {}
        told = [f"{name}={value}" for name, value in sorted(how.items()) if value is not False and value != ""]
        return " ".join([self.spec, *told])

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Score pairs; only what is not stored yet is asked, and each reply is committed when it comes.

        Parameters
        ----------
        pairs : pandas.DataFrame or list of mapping
            ``pair_id, context, response`` and whatever else the prompt (a name, path or `Prompt`) has slots for.
        retry, first, ask : collection of str, int, bool
            Statuses to ask again (``malformed, refused, truncated, empty``); repeat index of the first reply, another
            one of which asks for another reply to the same prompt; False: only what is stored.
        examples : dict, or None
            Rated items to show with each pair, as `dre.judges.examples.select` returns them; in place of a column
            ``examples`` of the pairs. The prompt needs a slot for them.

        Returns the table of `frame`. Raises `DreError` if the judge cannot be asked, or the store is being written.
        """
        prompt, rows, self.last = prompts.load(prompt), rows_of(pairs), asking.Run()
        if examples is not None:
            if "examples" not in prompt.slots:
                raise DreError(f"prompt {prompt.name} has no slot {{{{examples}}}}: use quality_overall, say")
            rows = [row | {"examples": examples[row["pair_id"]]} for row in rows]
        found = self.replies(rows, prompt, first)
        if ask and (retry or any(reply is None for *_, reply in found)):
            with self.store.held():  # and others may have asked in the meantime
                if missing := self.missing(rows, prompt, retry, first):
                    asking.ask_all(self, missing, prompt, self.last)
            found = self.replies(rows, prompt, first)
        said = {row["pair_id"]: ([], [], []) for row in rows}
        for asked, row, reply in found:
            verdicts, costs, errors = said[row["pair_id"]]
            if reply:
                verdicts.append(self.verdict(reply, prompt, row))
                costs.append(reply.cost)
            errors += [self.last.errors[asked.key]] if asked.key in self.last.errors else []
        return frame(said)

    def missing(self, pairs, prompt="llm_only", retry=(), first=0):
        """Return ``(Asked, row)`` of each reply that is not stored, or is of a status in `retry`."""
        if isinstance(retry, str) or not set(retry) <= set(AGAIN):
            raise DreError(f"retry is {retry!r}: expected a list of {', '.join(AGAIN)}")
        prompt, lacking = prompts.load(prompt), {}
        for asked, row, reply in self.replies(pairs, prompt, first):
            if reply is None or (retry and self.verdict(reply, prompt, row).status in retry):
                lacking.setdefault(asked.key, (asked, row))  # pairs whose prompts are the same share a reply
        return list(lacking.values())

    def replies(self, pairs, prompt="llm_only", first=0):
        """Return ``(Asked, row, Reply or None)`` of each reply that belongs to some pairs, in their order."""
        prompt = prompts.load(prompt)
        how = self.params | {"max_tokens": self.max_tokens(prompt)}
        how["structured"] = prompt.schema is not None and not self.plain
        setting = setting_sha256(self.spec, self.base_url, prompt.sha256, how)
        about, wanted = (self.spec, self.base_url, prompt.name, json.dumps(how, sort_keys=True)), []
        for row in rows_of(pairs):
            digest = messages_sha256(prompt.render(row))
            for n in range(first, first + self.repeats):
                wanted.append((Asked(key_of(setting, digest, n), *about, row["pair_id"], n), row))
        found = self.store.get({asked.key for asked, _ in wanted})
        return [(asked, row, found.get(asked.key)) for asked, row in wanted]

    def estimate(self, pairs, prompt="llm_only", retry=()):
        """Say in words what scoring would take: calls, tokens and dollars, about and at most."""
        prompt = prompts.load(prompt)
        missing = self.missing(pairs, prompt, retry)
        if not missing:
            return "0 calls to make: all is stored"
        limit, thoughts = self.max_tokens(prompt), 1000 * prices.thinks(self.model, self.params)
        most = sum(prices.most_tokens(prompt.render(row), prompt.schema) for _, row in missing)
        read, written = most // 4, len(missing) * min(limit, prices.REPLY[prompt.kind] + thoughts)
        money = "price unknown (give --price IN,OUT)"
        if self.price:
            about, ceiling = self.price.cost(read, written), self.price.cost(most, len(missing) * limit)
            money = f"about ${about:.2f}, at most ${ceiling:.2f} ({self.price.source})"
        tokens = f"about {read:,} tokens in, {written:,} out (at most {limit:,} per reply)"
        return f"{len(missing):,} calls to make\n{tokens}\n{money}"

    def max_tokens(self, prompt):
        """Return the longest reply to a prompt, in tokens."""
        return self.params.get("max_tokens") or prices.longest(prompt.kind, self.provider, self.model, self.params)

    def verdict(self, reply, prompt, row):
        """Return the `Verdict` of a stored reply; the provider's own word for it goes before the parser's."""
        if reply.outcome != "ok":
            return parse.Verdict(reply.outcome, reason=f"the provider says {reply.outcome}")
        said = prompt.parse(reply.text, row, structured=prompt.schema is not None and not self.plain)
        return likelihoods.read(reply.top, said, prompt, self.likeliest) if self.likeliest else said


def frame(said):
    """Return the table of ``{pair_id: (verdicts, costs, errors)}``.

    Of ``n_samples`` replies ``n_ok`` are scores; ``score_llm`` and ``s_inf`` are their means, ``label`` what most say.
    ``status`` is ok if there is one, else what most replies were, missing (not asked) or error (none came).
    """
    rows = []
    for pair_id, (verdicts, costs, errors) in said.items():
        good = [one for one in verdicts if one.status == "ok"]
        one = parse.Verdict("error", reason=errors[0]) if errors else parse.Verdict("missing", reason="not asked yet")
        if verdicts:
            most = statistics.mode(one.status for one in good or verdicts)
            one = next(one for one in verdicts if one.status == most)
        scores = np.array([(one.score_llm, one.s_inf) for one in good] or [(None, None)], float).mean(axis=0)
        label = statistics.mode(one.label for one in good) if good else None
        counts = np.array(costs or [None], float).sum(), len(verdicts), len(good)
        rows.append((pair_id, *scores, label, one.responses, one.status, one.reason, *counts))
    return pd.DataFrame(rows, columns=COLUMNS)


def rows_of(pairs):
    """Return the rows of a table or a list of mappings, ``context`` as a tuple of turns; each with its own pair_id."""
    rows = pairs.to_dict("records") if hasattr(pairs, "columns") else [dict(row) for row in pairs]
    seen = set()
    for number, row in enumerate(rows):
        pair_id = row.get("pair_id")
        if not isinstance(pair_id, str) or pair_id in seen:
            raise DreError(f"row {number}: pair_id is {pair_id!r}, expected a text that no other row has")
        seen.add(pair_id)
        if isinstance(row.get("context"), str):  # turns on lines of their own
            row["context"] = tuple(line for line in row["context"].split("\n") if line.strip())
    return rows
