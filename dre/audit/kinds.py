"""What must not be preferred to a good reply: makers of pairs, and what each kind of them may be used for."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import yaml

from dre.datasets import ratings
from dre.datasets.dialogues import VERSIONS, load, parallel
from dre.datasets.recordings import hash_of
from dre.datasets.registry import read_jsonl, repository_file

WORDS = 12  # of a shuffled context


class Kind(NamedTuple):
    """What stands against a good reply and what it may be used for, as ``kinds.yaml`` explains."""

    what: str
    use: list = ()
    base: str = "good"
    equal: bool = False


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
KINDS = {name: Kind(**about) for name, about in _TABLE["kinds"].items()}
FILLER, GENERIC, VERDICTS = _TABLE["filler"], _TABLE["generic"], _TABLE["verdicts"]


def made(good: pd.DataFrame, seed: int = 0, source: str = "own") -> list[tuple]:
    """Make what can be made from any table of good replies, ``context_id, context`` (turns), ``response``.

    One reply of each context is used, with its ``reference``, if there is one; ``wrong`` is a wrong reply, by default
    one to another context. Returns cases: (kind, source, context_id, right, other), the latter two a pair as (context,
    response, reference). What cannot be made is left out, such as an earlier turn of a conversation of two.
    """
    good, cases = good.drop_duplicates("context_id").to_dict("records"), []
    for i, row in enumerate(good):
        turns, reply, draw = (
            row["context"],
            row["response"],
            random.Random(f"{seed}/{row['context_id']}"),
        )
        words, half = " ".join(turns).split(), reply.split()
        elsewhere = [one["response"] for one in good if one["context"] != turns]
        elsewhere = draw.choice(elsewhere) if elsewhere else ""
        if wrong := row.get("wrong") or elsewhere:
            wrong += f" {VERDICTS[i % len(VERDICTS)]}"
        others = {
            "echo_last": turns[-1],
            "echo_other": turns[0] if len(turns) > 1 else "",
            "shuffle": " ".join(draw.sample(words, min(WORDS, len(words)))),
            "other_context": elsewhere,
            "generic": GENERIC[i % len(GENERIC) - 1],
            "longer": f"{reply} {FILLER}",
            "cut": " ".join(half[: len(half) // 2]),
            "injection": wrong,
            "injection_alone": VERDICTS[(i + 3) % len(VERDICTS)],
        }
        right = turns, reply, row.get("reference")
        found = [(kind, right, (turns, other, right[2])) for kind, other in others.items()]
        if len(turns) > 2:  # what was said there, and what comes two turns later
            found.append(("other_turn", *((turns[:-2], one, None) for one in (turns[-2], reply))))
        keep = [case for case in found if case[2][1] not in ("", case[1][1])]
        cases += [(kind, source, row["context_id"], *pairs) for kind, *pairs in keep]
    return cases


def corpus() -> list[tuple]:
    """Return the cases on the 32 test contexts of the embedded corpus, fixed texts that a judge was recorded on."""
    versions = {"original": load("mini", "test")} | {
        name: parallel("test")[name] for name in VERSIONS[1:]
    }
    second = {(name, c.context_id): c.positives[1] for name, some in versions.items() for c in some}
    pairs = {}
    for record in read_jsonl(repository_file("recorded", ratings.NAME, "audit.jsonl")):
        id, kind = record["context_id"], record["kind"]
        version = kind.removesuffix("_adversarial")
        reference = second[version if version in versions else "original", id]
        pairs[id, kind] = tuple(record["context"]), record["response"], reference
    cases = [
        (kind, "corpus", id, pairs[id, KINDS[kind].base], pair)
        for (id, kind), pair in pairs.items()
        if kind in KINDS
    ]
    good = [(id, pair[0], pair[1]) for (id, kind), pair in pairs.items() if kind == "good"]
    more = made(pd.DataFrame(good, columns=["context_id", "context", "response"]), source="corpus")
    return cases + [case for case in more if case[0] == "other_turn"]


def graded() -> list[tuple]:
    """Return the cases on contexts of public data that nothing was trained on, one of each conversation."""
    table = ratings.graded()
    table = table[table["for_choice"]].drop_duplicates(["conversation", "kind"])
    cases = []
    for id, rows in table.groupby("context_id", sort=False):
        said = dict(zip(rows["kind"], zip(rows["context"], rows["response"])))
        reference = said.get("reference", (None, None))[1]
        for kind in [kind for kind in ("contradicts", "off") if {kind, "good"} <= said.keys()]:
            cases.append((kind, "public", id, (*said["good"], reference), (*said[kind], reference)))
    return cases


def tables(cases: Iterable[tuple], n: int | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (cases, pairs), two tables, of at most ``n`` contexts of each kind.

    ``cases``: ``kind, source, context_id`` and the ids of the pairs ``right`` and ``other``; ``pairs``: each distinct
    pair once, ``pair_id`` (a hash of its texts), ``context_id, context, response, reference``.
    """
    cases = pd.DataFrame(cases, columns=["kind", "source", "context_id", "right", "other"])
    cases = cases.groupby("kind").head(n) if n else cases
    pairs = {}
    for side in ("right", "other"):
        ids = []
        for id, (context, response, reference) in zip(cases["context_id"], cases[side]):
            row = {
                "context_id": id,
                "context": context,
                "response": response,
                "reference": reference,
            }
            ids.append(hash_of(row))
            pairs.setdefault(ids[-1], {"pair_id": ids[-1]} | row)
        cases = cases.assign(**{side: ids})
    return cases, pd.DataFrame(pairs.values())
