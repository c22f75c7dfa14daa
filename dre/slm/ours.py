"""Recipe ``ours``, the small model that comes with the package.

It asks the three questions of recipe ``graded``: is a response like its dialogue, does it fit
there, is it good? Three things are different.

- Copies of the context are among the wrong responses that it learns from.
- It leaves quotes out before it scores.
- Likeness counts twice, fit and quality once, each in standard deviations over the graded training
  pairs.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from dre.datasets.dialogues import Context
from dre.slm.graded import Graded, graded_table, mean_and_sd
from dre.slm.model import sets_of
from dre.slm.provenance import Extra
from dre.slm.quotes import ContextWords, own_words

#: How often likeness counts, where fit and quality count once.
_LIKENESS = 2
#: How far a standard deviation of an answer that counts once moves the score. With this value, most
#: scores are in [0, 2].
_UNIT = 1 / 12


class Ours(Graded):
    """An SLM of recipe ``ours``.

    Its distance is 1 - likeness, and its ``s_p`` is the sum of fit and quality.
    """

    def examples(self, contexts: Sequence[Context]) -> list[Context]:
        """Return labelled contexts with copies of themselves among the adversarials."""
        return with_copies(contexts)

    def finish(self, contexts: Sequence[Context], extra: Extra, seed: int) -> None:
        """Train the heads on the encoder as it is saved, and set the units of the three answers."""
        self.load_state(self.state())
        self.learn_heads(contexts, extra.dialogues, extra.graded, seed)
        self.load_state(self.state())
        self.provenance["sets"] = sets_of(contexts)
        self._set_units(self.answers(graded_table(extra.graded)))

    def _set_units(self, answers: pd.DataFrame, likeness: float = _LIKENESS) -> None:
        """Store the mean and standard deviation that each answer has over some pairs.

        An ordinary pair then has ``s_d`` = ``s_p`` = 1/2. The range of ``s_d`` (Eq. 18) is so wide
        that a standard deviation of the likeness moves the score by ``likeness`` times `_UNIT`.
        ``answers`` are those of the pairs, as the method `answers` returns them.
        """
        mean, sd = mean_and_sd(answers["likeness"])
        half_range = sd / (2 * likeness * _UNIT)
        self.provenance["d_min"] = 1 - mean - half_range
        self.provenance["d_max"] = 1 - mean + half_range
        self.provenance["scales"] = {}
        for name in ("fit", "quality"):
            self.provenance["scales"][name] = list(mean_and_sd(answers[name]))

    def distances(self, pairs: pd.DataFrame, progress: bool = False) -> pd.DataFrame:
        """Return ``pair_id, distance, s_p, left_out`` for a table of pairs.

        ``distance`` is 1 - likeness. ``s_p`` is the sum of fit and quality, 1/2 for an ordinary
        pair. ``left_out`` has the words of a response that repeat its context and were not read.
        """
        pairs_without_quotes, left_out = without_quotes(self.readable(pairs))
        answers = self.answers(pairs_without_quotes, progress)
        s_p = 0.5
        for name, (mean, sd) in self.provenance["scales"].items():
            s_p = s_p + _UNIT * (answers[name] - mean) / sd
        return pd.DataFrame(
            {
                "pair_id": list(pairs["pair_id"]),
                "distance": 1 - answers["likeness"],
                "s_p": s_p,
                "left_out": left_out,
            }
        )


def without_quotes(pairs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return pairs whose responses do not repeat their context, and what each of them repeated."""
    responses = []
    left_out = []
    words_of_context = {turns: ContextWords.of(turns) for turns in set(pairs["context"])}
    for turns, response in zip(pairs["context"], pairs["response"]):
        words = own_words(words_of_context[turns], response)
        responses.append(words.text)
        left_out.append(words.left_out)
    return pairs.assign(response=responses), left_out


def with_copies(contexts: Sequence[Context]) -> list[Context]:
    """Return contexts with copies of themselves among the adversarial responses.

    The id of a context seeds what is drawn, so that it is the same in every training.
    """
    examples = []
    for context in contexts:
        distinct = dict.fromkeys(copies(context))
        added = [text for text in distinct if text not in context.positives]
        examples.append(replace(context, adversarials=(*context.adversarials, *added)))
    return examples


def copies(context: Context) -> tuple[str, ...]:
    """Return three responses that copy the context.

    The first is a turn, the second the same turn with words left out, and the third has words of
    all turns in random order.
    """
    rng = random.Random(context.context_id)
    turn = rng.choice(context.turns)
    remaining_words = [word for word in turn.split() if rng.random() > 0.2]
    with_gaps = " ".join(remaining_words) or turn
    context_words = " ".join(context.turns).split()
    n_words = min(len(context_words), rng.randint(4, 14))
    shuffled = " ".join(rng.sample(context_words, n_words))
    return turn, with_gaps, shuffled
