"""Training sets that a profile has written for it: Algorithm 1 by a live judge, before notebooks.

Every reply is kept in the store, so a run that was ended goes on where it was, and a set that is
complete costs nothing again.
"""

import dataclasses
import random
from pathlib import Path
from typing import Any

from dre import judges
from dre.augment import algorithm
from dre.datasets import dialogues, overlap, ratings
from dre.datasets.dialogues import Context
from dre.errors import DreError
from dre.paper import bill
from dre.paper.profile import Augmentation, Profile

#: The share of the contexts of each split that must be accepted, so that a set can be trained on.
_LEAST_SHARE = 0.5


def write_sets(profile: Profile, run: str | None = None) -> None:
    """Bring the training sets of ``profile.augment`` up to date.

    Parameters
    ----------
    profile : the profile.
    run : str, optional
        The run that pays, as `dre.judges.judge.new_run` returns it; by default one of its own.

    Raises
    ------
    DreError
        If a judge cannot be asked, its budget is used up, a reply did not come, or fewer than half
        of the contexts were accepted.
    """
    for entry in profile.augment:
        judge = open_writer(entry)
        judge.run = run or ""
        judge.account = bill.account(profile, f"training set {Path(entry.file).stem}")
        try:
            _write_set(profile, entry, judge)
        finally:
            judge.close()


def open_writer(entry: Augmentation) -> Any:
    """Return the live judge that writes a set, and checks what it wrote."""
    settings = entry.judge
    return judges.open(settings.model, temperature=settings.temperature, **settings.connection)


def _write_set(profile, entry, judge):
    """Let a judge write the responses of one training set; `DreError` if it is not complete."""
    contexts = contexts_to_write_for(profile, entry)
    result = algorithm.generate(contexts, judge, max_rounds=entry.rounds)
    counts = result.report["status"].value_counts().to_dict()
    absent = counts.get("missing", 0) + counts.get("error", 0)
    if result.stopped or absent:
        reason = f": {judge.last.why}" if judge.last.why else ""
        raise DreError(
            f"{entry.file} is not complete, {absent} of {len(contexts)} contexts lack a reply"
            f"{reason}. What was answered is kept, and the same command goes on"
        )
    _check_acceptance(profile, entry, result)
    is_public = entry.contexts in dialogues.PUBLIC
    path = profile.root / entry.file
    path.parent.mkdir(parents=True, exist_ok=True)
    n_written = result.save(path, turns=not is_public)
    in_words = ", ".join(f"{n:,} {status}" for status, n in counts.items())
    print(
        f"{entry.file}: {n_written:,} of {len(contexts):,} contexts, written by {judge.spec} "
        f"({in_words})",
        flush=True,
    )


def _check_acceptance(profile, entry, result):
    """Raise a DreError if the check accepted few of the contexts that are asked for."""
    wanted = {"train": entry.train, "test": entry.test}
    accepted = [context.split for context in result.contexts]
    counts = [f"{accepted.count(split):,} of {n:,} for {split}" for split, n in wanted.items()]
    if all(accepted.count(split) >= _LEAST_SHARE * n for split, n in wanted.items()):
        return
    raise DreError(
        f"{entry.file}: its judge, {entry.judge.label}, found its own responses right for "
        f"{' and '.join(counts)}; expected {_LEAST_SHARE:.0%} of each, so the set is not written. "
        f"In profiles/{profile.name}.yaml give it another judge, or more 'rounds', which go on "
        "from the replies that are stored"
    )


def contexts_to_write_for(profile: Profile, entry: Augmentation) -> list[Context]:
    """Return the contexts of a set, drawn with the profile's first seed, split into train and test.

    No conversation is in both. Public conversations that share an utterance with a rated set are
    left out.
    """
    pool = dialogues.contexts_by_name(entry.contexts)
    if entry.contexts in dialogues.PUBLIC:
        pool = overlap.without_overlap(pool, ratings.rated_tables(profile.rated))
    generator = random.Random(profile.seed)
    generator.shuffle(pool)
    conversation_of = overlap.conversations(context.context_id for context in pool)

    wanted = {"train": entry.train, "test": entry.test}
    test_share = entry.test / (entry.train + entry.test)
    split_of_conversation = {}
    chosen = {"train": [], "test": []}
    for context in pool:
        conversation = conversation_of(context.context_id)
        if conversation not in split_of_conversation:
            is_test = generator.random() < test_share
            split_of_conversation[conversation] = "test" if is_test else "train"
        split = split_of_conversation[conversation]
        if len(chosen[split]) < wanted[split]:
            chosen[split].append(dataclasses.replace(context, split=split))
    for split, contexts in chosen.items():
        if len(contexts) < wanted[split]:
            raise DreError(
                f"{entry.contexts} has {len(contexts)} contexts for {split} of {entry.file}, "
                f"{wanted[split]} were asked for: ask for fewer"
            )
    return chosen["train"] + chosen["test"]
