"""Replies that must not be preferred to a good one: how they are made, what they are used for."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import yaml

from dre.datasets import recordings
from dre.datasets.dialogues import parallel
from dre.datasets.recordings import hash_of
from dre.datasets.registry import read_jsonl, repository_file

_SHUFFLED_WORDS = 12  # words of a shuffled context
_FEW_WORDS = 3  # a reply of so few words may fit anywhere: "Yes.", "Me too!"
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


class Kind(NamedTuple):
    """A reply that is compared with a good one, as ``kinds.yaml`` explains.

    ``what`` describes it in words. ``use`` lists its uses besides the report. ``base`` is the kind
    of its good reply. ``equal`` is true if both replies are equally right. ``tie`` is how much a
    tie counts: 0.5, or more where a tie is the right result.
    """

    what: str
    use: tuple = ()
    base: str = "good"
    equal: bool = False
    tie: float = 0.5


class Pair(NamedTuple):
    """A context (turns, oldest first), a response, and what a person answered, if that is known."""

    context: tuple[str, ...]
    response: str
    reference: str | None = None


class Case(NamedTuple):
    """Two pairs of one kind: a score should prefer ``right`` to ``rival``."""

    kind: str
    source: str
    context_id: str
    right: Pair
    rival: Pair


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_bytes())
KINDS = {name: Kind(**fields) for name, fields in _TABLE["kinds"].items()}
_FILLER = _TABLE["filler"]
_GENERIC = _TABLE["generic"]
_VERDICTS = _TABLE["verdicts"]


def make_cases(
    good: pd.DataFrame, seed: int = 0, source: str = "own", strict: bool = True
) -> list[Case]:
    """Make all kinds that can be made from good replies alone.

    What cannot be made of a reply is left out, such as an earlier turn of a context of two turns.

    Parameters
    ----------
    good : DataFrame
        ``context_id, context`` (turns) and ``response``, of which the first of each context is
        taken; ``reference``, if there is one; ``wrong``, a wrong reply for the injections, by
        default a reply to another context.
    seed : int
        Of the replies, words and wishes that are drawn.
    source : str
        Where the replies come from, as the audit reports it.
    strict : bool
        Leave cases out in which the rival may be as good: replies to a context that shares
        a turn, a cut that is a whole sentence, another turn's reply of three words or fewer.
        False makes the cases of earlier recorded results, which lack some kinds.
    """
    rows = good.drop_duplicates("context_id").to_dict("records")
    cases = []
    for i, row in enumerate(rows):
        rng = random.Random(f"{seed}/{row['context_id']}")
        reply_elsewhere = _reply_elsewhere(row, rows, rng, strict)
        pairs = _fooling_pairs(row, i, reply_elsewhere, rng, strict)
        for kind, right, rival in pairs:
            if rival.response not in ("", right.response):
                cases.append(Case(kind, source, row["context_id"], right, rival))
    return cases


def _reply_elsewhere(row, rows, rng, strict):
    """Draw a good reply to another context, "" if there is none."""
    turns = row["context"]
    # Contexts that share a turn may be of one conversation, where the reply fits here, too.
    excluded_turns = turns if strict else ()
    replies = [
        candidate["response"]
        for candidate in rows
        if candidate["context"] != turns and set(excluded_turns).isdisjoint(candidate["context"])
    ]
    return rng.choice(replies) if replies else ""


def _fooling_pairs(row, i, reply_elsewhere, rng, strict):
    """Return (kind, right pair, rival pair) of all kinds; what cannot be made is empty."""
    turns = row["context"]
    reply = row["response"]
    reference = row.get("reference")
    right = Pair(turns, reply, reference)
    wrong = row.get("wrong") or reply_elsewhere
    wrong_with_wish = f"{wrong} {_VERDICTS[i % len(_VERDICTS)]}" if wrong else ""
    context_words = " ".join(turns).split()
    reply_words = reply.split()
    cut = " ".join(reply_words[: len(reply_words) // 2])
    if strict and cut.endswith(_SENTENCE_ENDS):
        cut = ""
    n_shuffled = min(_SHUFFLED_WORDS, len(context_words))
    rival_replies = {
        "echo_last": turns[-1],
        "echo_other": turns[0] if len(turns) > 1 else "",
        "shuffle": " ".join(rng.sample(context_words, n_shuffled)),
        "other_context": reply_elsewhere,
        "generic": _GENERIC[i % len(_GENERIC) - 1],
        "longer": f"{reply} {_FILLER}",
        "cut": cut,
        "injection": wrong_with_wish,
        "injection_alone": _VERDICTS[(i + 3) % len(_VERDICTS)],
    }
    if strict and reply_elsewhere:
        rival_replies["quoted"] = f"{turns[-1]} {reply_elsewhere}"
        rival_replies["quoted_last"] = f"{reply_elsewhere} {turns[-1]}"
    pairs = [
        (kind, right, Pair(turns, rival_reply, reference))
        for kind, rival_reply in rival_replies.items()
    ]

    # A wrong reply with a wish for a good score, against the same reply without it.
    if strict and wrong:
        wrong_alone = Pair(turns, wrong, reference)
        wishing = Pair(turns, wrong_with_wish, reference)
        pairs.append(("injection_gain", wrong_alone, wishing))

    # The reply two turns earlier, compared with the reply now.
    if len(turns) > 2:
        earlier_reply = turns[-2]
        is_too_short = len(earlier_reply.split()) <= _FEW_WORDS
        if not (strict and is_too_short):
            earlier = turns[:-2]
            right_earlier = Pair(earlier, earlier_reply)
            pairs.append(("other_turn", right_earlier, Pair(earlier, reply)))
    return pairs


def corpus() -> list[Case]:
    """Return the cases on the 32 test contexts of the embedded corpus.

    Most are fixed texts that a judge was recorded on. ``other_turn``, ``quoted`` and
    ``quoted_last`` are made from them, and no judge was recorded on these.
    """
    references = _corpus_references()
    pairs = {}
    for record in read_jsonl(repository_file("recorded", recordings.NAME, "audit.jsonl")):
        context_id = record["context_id"]
        kind = record["kind"]
        version = kind.removesuffix("_adversarial")
        reference = references.get((version, context_id), references["original", context_id])
        pairs[context_id, kind] = Pair(tuple(record["context"]), record["response"], reference)
    cases = [
        Case(kind, "corpus", context_id, pairs[context_id, KINDS[kind].base], pair)
        for (context_id, kind), pair in pairs.items()
        if kind in KINDS
    ]
    good = pd.DataFrame(
        {"context_id": context_id, **pair._asdict()}
        for (context_id, kind), pair in pairs.items()
        if kind == "good"
    )
    # These were scored by all recorded models, also where the good reply is short.
    other_turns = make_cases(good, source="corpus", strict=False)
    cases += [case for case in other_turns if case.kind == "other_turn"]
    quoted = make_cases(good, source="corpus")
    cases += [case for case in quoted if case.kind in ("quoted", "quoted_last")]
    for (context_id, kind), pair in pairs.items():
        if kind == "injection":
            wrong_alone = pairs[context_id, "adversarial"]
            cases.append(Case("injection_gain", "corpus", context_id, wrong_alone, pair))
    return cases


def _corpus_references():
    """Return (version, context id) -> the second good reply, which the first is compared with."""
    return {
        (version, context.context_id): context.positives[1]
        for version, contexts in parallel("test").items()
        for context in contexts
    }


def graded() -> list[Case]:
    """Return the cases on contexts of public data that nothing was trained on.

    There is one for each conversation and kind: replies that contradict, or are off the point.
    """
    graded_pairs = recordings.graded()
    held_out = graded_pairs.loc[graded_pairs["for_choice"]]
    table = held_out.drop_duplicates(["conversation", "kind"])
    cases = []
    for context_id, rows in table.groupby("context_id", sort=False):
        replies = {row["kind"]: row for row in rows.to_dict("records")}
        if "good" not in replies:
            continue
        reference = replies["reference"]["response"] if "reference" in replies else None
        good = replies["good"]
        right = Pair(good["context"], good["response"], reference)
        for kind in ("contradicts", "off"):
            if kind in replies:
                bad = replies[kind]
                rival = Pair(bad["context"], bad["response"], reference)
                cases.append(Case(kind, "public", str(context_id), right, rival))
    return cases


def tables(cases: Iterable[Case], n: int | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return cases and the distinct pairs in them as two tables.

    Parameters
    ----------
    cases : iterable of Case
    n : int or None
        Contexts of each kind, at most; None: all.

    Returns
    -------
    cases : DataFrame
        ``kind, source, context_id`` and the pair ids ``right`` and ``rival``.
    pairs : DataFrame
        ``pair_id`` (a hash of the texts), ``context_id, context, response, reference``.
    """
    table = pd.DataFrame(cases, columns=list(Case._fields))
    if n:
        table = table.groupby("kind").head(n)
    pairs = {}
    for side in ("right", "rival"):
        pair_ids = []
        for context_id, pair in zip(table["context_id"], table[side]):
            texts = {"context_id": context_id, **Pair(*pair)._asdict()}
            pair_id = hash_of(texts)
            pair_ids.append(pair_id)
            pairs.setdefault(pair_id, {"pair_id": pair_id, **texts})
        table = table.assign(**{side: pair_ids})
    return table, pd.DataFrame(pairs.values())


def recorded_scores(pairs: pd.DataFrame, public: bool = False) -> pd.Series:
    """Return what the recorded judge said of pairs of `tables`, from 0 to 5; NaN where nothing.

    Parameters
    ----------
    pairs : with ``pair_id``, which is a hash of the texts.
    public : whether there are pairs of `graded`.
    """
    records = read_jsonl(repository_file("recorded", recordings.NAME, "audit.jsonl"))
    records = [record for record in records if record["prompt"] == "llm_only"]
    if public:
        records += recordings.graded().to_dict("records")
    score_by_hash = {hash_of(record): float(record["score"]) for record in records}
    return pd.Series([score_by_hash.get(id) for id in pairs["pair_id"]], pairs.index, float)
