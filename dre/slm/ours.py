"""Recipe ``ours``, the small model that comes with the package.

It asks the three questions of recipe ``graded``: is a response like its dialogue, does it fit
there, is it good? Three things are its own. Copies and quotes of the context are among the wrong
responses that it learns from. (The weights in the package have learned from the copies alone.) It
leaves quotes out before it scores. And likeness counts twice, fit and quality once, each in
standard deviations over the graded training pairs.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pandas as pd

from dre.datasets.dialogues import Context
from dre.slm.graded import Graded, graded_table
from dre.slm.model import sets_of
from dre.slm.quotes import own_words

#: how often likeness counts, where fit and quality count once
LIKENESS = 2
#: a standard deviation of an answer that counts once, in units of the score: nearly all scores lie in [0, 2]
UNIT = 1 / 12


class Ours(Graded):
    """An SLM of recipe ``ours``: its distance is 1 - likeness, its ``s_p`` is the sum of fit and quality."""

    def examples(self, contexts: Sequence[Context]) -> list[Context]:
        """Return labelled contexts with copies and quotes of themselves among the adversarials."""
        return with_copies(contexts)

    def finish(self, contexts, extra, seed):
        """Train the heads on the encoder as it is saved, and set the units of the three answers."""
        self.load_state(self.state())
        self.learn_heads(contexts, extra.dialogues, extra.graded, seed)
        self.load_state(self.state())
        self.provenance["sets"] = sets_of(contexts)
        self.set_units(self.parts(graded_table(extra.graded)))

    def set_units(self, parts: pd.DataFrame, likeness: float = LIKENESS) -> None:
        """Store the mean and standard deviation that each of three answers has over some pairs.

        An ordinary pair has then ``s_d`` = ``s_p`` = 1/2. The range of ``s_d`` (Eq. 18) is so wide
        that a standard deviation of the likeness moves the score by ``likeness`` times `UNIT`.
        """
        mean, sd = _mean_and_sd(pd.Series(parts["likeness"]))
        half = sd / (2 * likeness * UNIT)
        self.provenance["d_min"] = 1 - mean - half
        self.provenance["d_max"] = 1 - mean + half
        self.provenance["scales"] = {
            name: list(_mean_and_sd(pd.Series(parts[name]))) for name in ("fit", "quality")
        }

    def distances(self, pairs: pd.DataFrame, progress: bool = False) -> pd.DataFrame:
        """Return ``pair_id, distance, s_p, left_out`` for a table of pairs.

        ``distance`` is 1 - likeness, ``s_p`` the sum of fit and quality, 1/2 for an ordinary pair;
        ``left_out`` says what of a response repeats its context and was not read.
        """
        read, left_out = without_quotes(self.readable(pairs))
        parts = self.parts(read, progress)
        s_p = 0.5
        for name, (mean, deviation) in self.provenance["scales"].items():
            s_p = s_p + UNIT * (parts[name] - mean) / deviation
        return pd.DataFrame(
            {
                "pair_id": list(pairs["pair_id"]),
                "distance": 1 - parts["likeness"],
                "s_p": s_p,
                "left_out": left_out,
            }
        )


def without_quotes(pairs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table of pairs with only the own words of responses, and what was left out of each."""
    read = []
    for turns, response in zip(pairs["context"], pairs["response"]):
        read.append(own_words(turns, response))
    responses = [own.text for own in read]
    return pairs.assign(response=responses), [own.left_out for own in read]


def with_copies(contexts: Sequence[Context]) -> list[Context]:
    """Return contexts with copies and quotes of themselves among the adversarial responses.

    They are drawn by the id of a context, so that they are the same in every training.
    """
    contexts_of_set = defaultdict(list)
    for context in contexts:
        contexts_of_set[context.set].append(context)
    examples = []
    for context in contexts:
        wrong = quoted(context, contexts_of_set[context.set])
        added = dict.fromkeys((*copies(context), *wrong))
        added = [text for text in added if text not in context.positives]
        examples.append(replace(context, adversarials=(*context.adversarials, *added)))
    return examples


def _mean_and_sd(values: pd.Series) -> tuple[float, float]:
    """Return the mean and the standard deviation of values, in their unit."""
    sd = cast(float, values.std())
    return float(values.mean()), float(sd)


def copies(context: Context) -> tuple[str, ...]:
    """Return three responses that copy: a turn, a turn with words left out, shuffled words."""
    draw = random.Random(context.context_id)
    turn = draw.choice(context.turns)
    with_gaps = " ".join(word for word in turn.split() if draw.random() > 0.2) or turn
    context_words = " ".join(context.turns).split()
    n_words = min(len(context_words), draw.randint(4, 14))
    return turn, with_gaps, " ".join(draw.sample(context_words, n_words))


def quoted(context: Context, others: Sequence[Context]) -> tuple[str, str]:
    """Return two wrong replies, one behind a quoted turn and one before it.

    One of them is an adversarial response, the other a reply to one of the ``others``; if ten of
    them are all the same context, both are adversarial responses.
    """
    draw = random.Random(f"quoted {context.context_id}")
    turn = draw.choice((context.turns[-1], draw.choice(context.turns)))
    adversarial = draw.choice(context.adversarials)
    drawn = draw.sample(others, min(10, len(others)))
    strangers = [draw.choice(other.positives) for other in drawn if other.turns != context.turns]
    wrong = [adversarial, strangers[0] if strangers else draw.choice(context.adversarials)]
    draw.shuffle(wrong)
    return f"{turn} {wrong[0]}", f"{wrong[1]} {turn}"
