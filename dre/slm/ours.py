"""Recipe ``ours``, the small model that comes with the package.

It gives three answers: is a response like its dialogue, does it fit there, is it good?

- Likeness is the cosine of a response with the whole context and with its last turn. It is the mean
  over two encoders: the original one, and one that low-rank matrices adapt, which learned by
  contrast.
- Fit comes from a head on the adapted encoder. It learned to tell right responses from adversarial
  ones, from copies of the context, and from responses of other contexts.
- Quality comes from a head on the original encoder. It learned the grades of a judge.

Likeness counts twice, fit and quality once, each in standard deviations over the graded training
pairs. Quotes are left out before scoring.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from safetensors.torch import load, save_file
from torch import Tensor

from dre.datasets.dialogues import Context
from dre.slm.encoder import Reader, doubles, load_encoder
from dre.slm.heads import FITS, FOOLS, GradedHead, LowRank, adapt, cosines, grade_loss
from dre.slm.model import SLM
from dre.slm.provenance import Extra
from dre.slm.quotes import own_words
from dre.slm.recipes import OURS, Mixture, Recipe
from dre.slm.triplets import distinct

#: How often a head goes over its pairs.
EPOCHS = 15
#: Pairs in a step of a head.
_BATCH = 128
#: The file of everything that was learned, in half precision.
FILE = "adapter.safetensors"

#: How often likeness counts, where fit and quality count once.
_LIKENESS = 2
#: How far a standard deviation of an answer that counts once moves the score. With this value, most
#: scores are in [0, 2].
_UNIT = 1 / 12

#: Kind (`FITS` or `FOOLS`), whole context, last turn, response.
ContrastPair = tuple[int, str, str, str]


class Ours(SLM):
    """An SLM of recipe ``ours``.

    Its distance is 1 - likeness, and its ``s_p`` is the sum of fit and quality. ``encoder`` is the
    adapted encoder, and ``reader`` reads with it. ``base`` reads with the original encoder. The two
    share their weights.
    """

    def __init__(self, base, recipe: Recipe):
        assert recipe.mixture, f"recipe {recipe.name} has no mixture to learn from"
        self.mixture: Mixture = recipe.mixture
        shared = {id(parameter): parameter for parameter in base.parameters()}
        shared[id(base.tokenizer)] = base.tokenizer
        adapted = copy.deepcopy(base, shared)
        adapt(adapted[0].model, self.mixture.rank)
        super().__init__(adapted, GradedHead(base.get_embedding_dimension()), recipe)
        self.base = Reader(base)

    @classmethod
    def untrained(cls, encoder: str = "minilm", recipe: Recipe = OURS, weights: str = "") -> Self:
        """Return an encoder with adapters that change nothing yet, and a fresh head.

        ``weights`` are as of `load_encoder`.
        """
        return cls(load_encoder(encoder, recipe.max_seq_length, weights), recipe)

    def forget(self) -> None:
        """Forget the texts that both encoders have read."""
        super().forget()
        self.base.known.clear()

    def learns(self, modules) -> None:
        """Let the adapters and the weights of the two likenesses learn, in the only stage."""
        self.forget()
        self.encoder.requires_grad_(False)
        self.head.requires_grad_(False)
        self.head.views.requires_grad_(True)
        for adapter in self._adapters():
            adapter.down.requires_grad_(True)
            adapter.up.requires_grad_(True)

    def _adapters(self):
        return [module for module in self.encoder.modules() if isinstance(module, LowRank)]

    def views(self, pairs: pd.DataFrame, *readers: Reader) -> list[Tensor]:
        """Return embeddings of contexts, last turns and responses, (3, n, d) by each reader."""
        pairs = self.readable(pairs)
        contexts, responses = self.texts(pairs)
        last_turns = self.contexts(turns[-1:] for turns in pairs["context"])
        texts = contexts + last_turns + responses
        return [reader(texts).view(3, len(pairs), -1) for reader in readers]

    @torch.no_grad()
    def answers(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return the three answers for each pair.

        ``likeness`` is in [-1, 1], ``fit`` is a probability, and ``quality`` is not bounded.
        """
        self.head.eval()
        h, h_before = self.views(pairs, self.reader, self.base)
        likeness = (self.head.likeness(h) + cosines(h_before).mean(0)) / 2
        fit = torch.sigmoid(self.head.fit(h))
        answers = {"likeness": likeness, "fit": fit, "quality": self.head.quality(h_before)}
        return pd.DataFrame({name: doubles(answer) for name, answer in answers.items()})

    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return ``pair_id, distance, s_p, left_out`` for a table of pairs.

        ``distance`` is 1 - likeness. ``s_p`` is the sum of fit and quality, 1/2 for an ordinary
        pair. ``left_out`` has the words of a response that repeat its context and were not read.
        """
        pairs_without_quotes, left_out = without_quotes(self.readable(pairs))
        answers = self.answers(pairs_without_quotes)
        s_p = 0.5
        for name, (mean, sd) in self.provenance["scales"].items():
            s_p = s_p + _UNIT * (answers[name] - mean) / sd
        table = pd.DataFrame({"pair_id": list(pairs["pair_id"])})
        return table.assign(distance=1 - answers["likeness"], s_p=s_p, left_out=left_out)

    def ordered(self, table: pd.DataFrame) -> dict[str, Tensor]:
        """Return for the curves whether the adapted likeness orders each triplet right."""
        (h,) = self.views(table, self.reader)
        likeness = doubles(self.head.likeness(h))
        scored = table[["context_id", "kind"]].assign(likeness=likeness)
        positives, adversarials = (scored[scored["kind"] == kind] for kind in "pa")
        triplets = positives.merge(adversarials, on="context_id", suffixes=("_p", "_a"))
        is_right = triplets["likeness_p"] > triplets["likeness_a"]
        return {"triplet_accuracy": torch.tensor(is_right.to_numpy())}

    def examples(self, contexts: Sequence[Context]) -> Sequence[Context]:
        """Return labelled contexts with copies of themselves among the adversarials."""
        return with_copies(contexts) if self.mixture.copies else contexts

    def passes(self, contexts: Sequence[Context], extra: Extra, number: int, seed: int) -> list:
        """Return the pairs that are contrasted in each pass, a list for each labelled context.

        Some dialogues come with each labelled context, each with one response and a random number
        of its last turns. Every dialogue comes once before any of them comes twice.
        """
        text = self.context
        rng = random.Random(seed)
        stream = _endless(extra.dialogues, rng)
        all_passes = []
        for _ in range(number):
            rows = []
            for context in contexts:
                views = text(context.turns), text(context.turns[-1:])
                pairs = [(FITS, *views, response) for response in context.positives]
                pairs += [(FOOLS, *views, response) for response in context.adversarials]
                for dialogue in islice(stream, self.mixture.dialogues):
                    turns, response = _draw_pair(dialogue, self.mixture, rng)
                    pairs.append((FITS, text(turns), text(turns[-1:]), response))
                rows.append(pairs)
            all_passes.append(rows)
        return all_passes

    def loss(self, rows: list[list[ContrastPair]], vectors: Callable) -> Tensor:
        """Return the contrast of rows of `passes`, a scalar; ``vectors`` embeds texts."""
        pairs = [pair for row in rows for pair in row]
        texts, position = distinct(text for pair in pairs for text in pair[1:])
        index = [(kind, *(position[text] for text in own_texts)) for kind, *own_texts in pairs]
        return self.head.contrast(vectors(texts), torch.tensor(index, device=self.encoder.device))

    def finish(self, contexts: Sequence[Context], extra: Extra, seed: int) -> None:
        """Train the heads on the encoder as it is saved, and set the units of the three answers."""
        self.load_state(self.state())
        self.learn_heads(contexts, extra, seed)
        self.load_state(self.state())
        self._set_units(self.answers(graded_table(extra.graded)))

    def _set_units(self, answers: pd.DataFrame) -> None:
        """Store the mean and standard deviation of each answer over some pairs.

        An ordinary pair then has ``s_d`` = ``s_p`` = 1/2. The range of ``s_d`` (Eq. 18) is so wide
        that a standard deviation of the likeness moves the score by `_LIKENESS` times `_UNIT`.
        """
        of_answer: Any = answers.agg(["mean", "std"])
        scales = {name: values.tolist() for name, values in of_answer.items()}
        mean, sd = scales.pop("likeness")
        half_range = sd / (2 * _LIKENESS * _UNIT)
        self.provenance["d_min"] = 1 - mean - half_range
        self.provenance["d_max"] = 1 - mean + half_range
        self.provenance["scales"] = scales

    def learn_heads(self, contexts: Sequence[Context], extra: Extra, seed: int) -> None:
        """Train both heads: fit on labelled contexts and some dialogues, quality on grades."""
        pairs = self.fitting(contexts, extra, seed)
        (h,) = self.views(pairs, self.reader)
        self.learn_fit(h, pairs["fits"], pairs["context"], seed)
        grades = graded_table(extra.graded)
        (h_before,) = self.views(grades, self.base)
        self.learn_quality(h_before, grades["score"], grades["context_id"], seed)

    def fitting(self, contexts: Sequence[Context], extra: Extra, seed: int) -> pd.DataFrame:
        """Return the pairs that fit is learned from, a table with ``fits``.

        It is 1 for right responses, also those of some dialogues, and 0 for adversarial ones.
        """
        pairs = []
        for kind, fits in (("positives", 1.0), ("adversarials", 0.0)):
            for context in contexts:
                pairs += [(context.turns, text, fits) for text in getattr(context, kind)]
        rng = random.Random(seed)
        n_dialogues = min(self.mixture.fits, len(extra.dialogues))
        for dialogue in rng.sample(extra.dialogues, n_dialogues):
            pairs.append((*_draw_pair(dialogue, self.mixture, rng), 1.0))
        table = pd.DataFrame(pairs, columns=["context", "response", "fits"])
        return table.assign(pair_id=range(len(table)))

    def learn_fit(self, h: Tensor, fits: ArrayLike, contexts: ArrayLike, seed: int) -> None:
        """Train the fit head.

        Parameters
        ----------
        h
            Embeddings of the views, (3, n, d).
        fits
            1 for right responses, 0 for wrong ones, (n,). A right response is also shown in the
            context of another pair, where it does not fit.
        contexts
            The context of each pair, (n,).
        seed
            Of the order of pairs and of dropout.
        """
        labels = torch.tensor(np.asarray(fits), dtype=torch.float32, device=h.device)
        context_numbers = torch.from_numpy(pd.factorize(contexts)[0]).to(h.device)

        def loss(batch, rng):
            # Right responses of the batch are moved to the contexts of other pairs of the batch.
            is_right = labels[batch].bool().cpu().numpy()
            right = batch[is_right]
            elsewhere = rng.permutation(batch)[: len(right)]
            is_other_context = context_numbers[right] != context_numbers[elsewhere]
            is_other_context = is_other_context.cpu().numpy()
            right = right[is_other_context]
            elsewhere = elsewhere[is_other_context]
            misplaced = torch.stack([h[0, elsewhere], h[1, elsewhere], h[2, right]])

            logits = self.head.fit(torch.cat([h[:, batch], misplaced], dim=1))
            targets = torch.cat([labels[batch], labels.new_zeros(len(right))])
            return F.binary_cross_entropy_with_logits(logits, targets)

        self._learn(self.head.fits, loss, len(labels), seed)

    def learn_quality(
        self, h: Tensor, scores: ArrayLike, context_ids: ArrayLike, seed: int
    ) -> None:
        """Train the quality head on embeddings (3, n, d), grades (0-5) and ids of contexts."""
        grades = torch.tensor(np.asarray(scores), dtype=torch.float32, device=h.device)
        context_numbers = torch.from_numpy(pd.factorize(context_ids)[0])

        def loss(batch, rng):
            quality = self.head.quality(h[:, batch])
            return grade_loss(quality, grades[batch], context_numbers[batch].to(h.device))

        self._learn(self.head.layers, loss, len(grades), seed, context_numbers)

    def _learn(self, layers, loss, n, seed, context_numbers=None):
        """Train layers of the head for `EPOCHS` over n pairs.

        Where ``context_numbers`` (n,) are there, all pairs of a context come one after another.
        """
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        self.head.requires_grad_(True).train()
        optimizer = torch.optim.AdamW(layers.parameters(), lr=5e-4, weight_decay=0.05)
        for _ in range(EPOCHS):
            if context_numbers is None:
                order = rng.permutation(n)
            else:
                place_of_context = rng.permutation(int(context_numbers.max()) + 1)
                order = np.argsort(place_of_context[context_numbers], kind="stable")
            for batch in np.array_split(order, max(n // _BATCH, 1)):
                optimizer.zero_grad()
                loss(batch, rng).backward()
                optimizer.step()
        self.head.requires_grad_(False).eval()

    def _learned(self) -> dict[str, Tensor]:
        """Return everything that is learned, by name: the weights themselves."""
        learned = {f"head.{name}": value for name, value in self.head.state_dict().items()}
        for i, adapter in enumerate(self._adapters()):
            learned[f"{i}.down"] = adapter.down.data
            learned[f"{i}.up"] = adapter.up.data
        return learned

    def state(self) -> dict[str, Tensor]:
        """Return everything that was learned, in half precision, by name."""
        return {name: value.half().cpu().contiguous() for name, value in self._learned().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Set what was learned, as `state` returns it, and merge the adapters into their layers.

        ValueError if it has other names or shapes than this model.
        """
        learned = self._learned()
        for name in learned.keys() | state.keys():
            if name not in learned or name not in state or learned[name].shape != state[name].shape:
                raise ValueError(f"{FILE} has other weights {name} than recipe {self.recipe.name}")
            learned[name].copy_(state[name])
        for adapter in self._adapters():
            adapter.merge()
        self.forget()

    def write(self, path: Path) -> None:
        """Write what was learned into a folder.

        The encoder is not copied. The hash of its weights identifies it.
        """
        save_file(self.state(), str(path / FILE))

    @classmethod
    def read(cls, path: Path, recipe: Recipe, provenance: dict) -> Self:
        """Read what `write` wrote.

        DreError if the encoder on this machine is not the one that was adapted.
        """
        if set(provenance["scales"]) != {"fit", "quality"}:
            raise ValueError("slm.json lacks scales of fit or quality")
        slm = cls.untrained(provenance["encoder"], recipe, provenance["base"])
        # Python reads the file, not safetensors.
        slm.load_state(load((path / FILE).read_bytes()))
        slm.head.requires_grad_(False).eval()
        slm.provenance = provenance
        return slm


def _draw_pair(
    dialogue: Context, mixture: Mixture, rng: random.Random
) -> tuple[tuple[str, ...], str]:
    """Draw a number of last turns of a dialogue and one of its right responses, and return both."""
    n_turns = rng.choice(mixture.last_turns)
    return dialogue.turns[-n_turns:], rng.choice(dialogue.positives)


def _endless(items: Sequence, rng: random.Random) -> Iterator:
    """Yield items for ever, in a new random order whenever all of them have come."""
    while items:
        yield from rng.sample(items, len(items))


def graded_table(graded: Sequence[tuple]) -> pd.DataFrame:
    """Return ``Extra.graded`` as a table of pairs with their ``score``."""
    table = pd.DataFrame(list(graded), columns=["context_id", "context", "response", "score"])
    return table.assign(pair_id=range(len(table)))


def without_quotes(pairs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return pairs whose responses do not repeat their context, and what each of them repeated."""
    own = [*map(own_words, pairs["context"], pairs["response"])]
    without = pairs.assign(response=[words.text for words in own])
    return without, [words.left_out for words in own]


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
