"""Recipe ``cross``: context and response are read together. Does the response fit, and how good is it?

The lower half of an encoder reads every text alone, once; its upper half, adapted by low-rank matrices, reads the
tokens of context and response together. From what it makes of both two answers are given: the probability that the
response fits, and the grade that a judge would give, as a share of the best one. Beside what was read together they see
what the encoder makes of the texts alone: products and differences of its embeddings.
"""

import random

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from dre.errors import DreError
from dre.slm.encoder import Reader, batches, doubles
from dre.slm.graded import Graded, endless, graded_table, imitations, shown
from dre.slm.heads import adapt, cosines, grade_loss
from dre.slm.model import sets_of

BLOCK = 2048  # pairs whose texts are held at once
CHUNK = 16  # pairs of similar length that are learned from together: little of a chunk is padding
ROOM = 2048  # tokens of pairs that are read together
KEPT = 2_000_000  # tokens that are remembered at most, 1.5 GB of an encoder with 384 dimensions
GRADED = 4  # with so many labelled contexts comes one whose replies were graded


class Cross(Graded):
    """An SLM of recipe ``cross``; its ``s_p`` is the probability of fitting, its distance 1 less the grade."""

    def __init__(self, base, recipe):
        super().__init__(base, recipe)
        for part in self.encoder.modules():
            if isinstance(part, nn.Dropout):  # hardly a pair is seen twice
                part.p = 0.0
        self.tokens = Tokens(base, len(_layers(base)) // 2)

    def adapt(self, encoder):
        """Put adapters into the upper half of the layers."""
        layers = _layers(encoder)
        adapt(layers[len(layers) // 2 :], self.recipe.mixture.rank)
        encoder[0].model.set_attn_implementation("eager")  # which takes a sum as its mask

    def head_of(self, dimension):
        """Return what gives the answers."""
        return CrossHead(dimension)

    def forget(self):
        """Forget what was read."""
        super().forget()
        self.tokens = Tokens(self.tokens.encoder, self.tokens.lower)

    def taught(self):
        """Return the part of the head that learns: all of it."""
        return self.head

    def answers(self, viewed):
        """Return (n, 2) logits, fit and grade, of whole contexts, last turns and responses, 3 n texts one by one."""
        n = len(viewed) // 3
        tokens, h = self.tokens(viewed)
        together = [self.head.joined(c, r) for c, r in zip(tokens[:n], tokens[2 * n :])]
        x = pad_sequence(together, batch_first=True).to(next(self.encoder.parameters()).dtype)
        place = torch.arange(x.shape[1], device=x.device)
        sizes = ([len(one) for one in some] for some in (tokens[:n], together))
        first, both = (torch.tensor(of, device=x.device)[:, None] for of in sizes)
        unread = torch.zeros(x.shape[:2]).to(x).masked_fill(place >= both, -1e4)[:, None, None]
        for layer in _layers(self.encoder)[self.tokens.lower :]:
            x = layer(x, unread)
        c, r = place < first, (place >= first) & (place < both)
        c, r = ((x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True) for mask in (c, r))
        return self.head(c, r, h.view(3, n, -1))

    @torch.no_grad()
    def parts(self, pairs, progress=False):
        """Return ``likeness`` (the encoder's own, [-1, 1]), ``fit`` (a probability), ``quality`` (a share) of pairs."""
        self.head.eval()
        viewed, n, found = (
            np.array(self._viewed(pairs), dtype=object).reshape(3, -1),
            len(pairs),
            [],
        )
        with tqdm(total=n, desc="pairs read", disable=not progress) as bar:
            for start in range(0, n, BLOCK):
                block = viewed[:, start : start + BLOCK]
                tokens, h = self.tokens(block.ravel().tolist())
                lengths = np.array([len(one) for one in tokens]).reshape(3, -1)[[0, 2]].sum(0)
                logits = torch.zeros(len(lengths), 2, device=h.device)
                for places in batches(lengths, ROOM):
                    logits[places] = self.answers(block[:, places].ravel().tolist()).float()
                    bar.update(len(places))
                fit, quality = torch.sigmoid(logits).T
                found.append(
                    {
                        "likeness": cosines(h.view(3, len(lengths), -1)).mean(0),
                        "fit": fit,
                        "quality": quality,
                    }
                )
        names = ("likeness", "fit", "quality")
        return pd.DataFrame(
            {name: np.concatenate([doubles(one[name]) for one in found]) for name in names}
        )

    def distances(self, pairs, progress=False):
        """Return ``pair_id, distance, s_p``: 1 - quality, and fit."""
        parts = self.parts(pairs, progress)
        return pd.DataFrame(
            {
                "pair_id": list(pairs["pair_id"]),
                "distance": 1 - parts["quality"],
                "s_p": parts["fit"],
            }
        )

    def ordered(self, table):
        """Return by name what the curves show: of a table's triplets whether the score orders them right."""
        return self.triplets(table, self.parts(table)[["fit", "quality"]].sum(axis=1))

    def passes(self, contexts, extra, number, seed):
        """Return for each pass over the contexts what is learned from: one list of pairs per labelled context.

        A pair is (turns, response, 1 if it fits, else 0, None) or (turns, response, None, grade). Each context brings a
        right response, the same one in another context of its set, an adversarial one and a copy of itself. Couples of
        dialogues of one set come with it, each with its own reply and the other's. So a response says nothing by
        itself, unless it is adversarial or a copy.
        """
        draw, mixture = random.Random(seed), self.recipe.mixture
        table = graded_table(extra.graded)
        graded = endless([own for _, own in table.groupby("context_id", sort=False)], draw)
        sets, found = by_set(contexts), [[] for _ in range(number)]
        dialogues = endless(extra.dialogues, draw)
        others = {name: endless(of, draw) for name, of in by_set(extra.dialogues).items()}
        for one_pass in found:
            for i, one in enumerate(contexts):
                right = draw.choice(one.positives)
                pairs = [(one.turns, right, 1.0, None), *misplaced(one, right, sets[one.set], draw)]
                wrong = draw.choice(one.adversarials), copied(one.turns, draw)
                pairs += [
                    (one.turns, response, 0.0, None)
                    for response in wrong
                    if response not in one.positives
                ]
                for _ in range(mixture.dialogues // 2):
                    a = next(dialogues)
                    b = next(others[a.set])
                    (c, reply), (d, other) = shown(a, mixture, draw), shown(b, mixture, draw)
                    pairs += [(c, reply, 1.0, None), (d, other, 1.0, None)]
                    pairs += [(d, reply, 0.0, None)] if reply not in b.positives else []
                    pairs += [(c, other, 0.0, None)] if other not in a.positives else []
                if i % GRADED == 0:
                    own = next(graded)
                    pairs += [
                        (turns, r, None, s)
                        for turns, r, s in zip(own["context"], own["response"], own["score"])
                    ]
                one_pass.append(pairs)
        return found

    def loss(self, rows, _):
        """Return how wrong both answers are on rows of `passes`: cross-entropy of fit, and `grade_loss`; a scalar."""
        table = pd.DataFrame([(i, *pair) for i, row in enumerate(rows) for pair in row])
        table.columns = ["context_id", "context", "response", "fits", "score"]
        table = table.assign(pair_id=range(len(table)))
        viewed = np.array(self._viewed(table), dtype=object).reshape(3, -1)
        order = np.argsort([len(c) + len(r) for c, _, r in viewed.T], kind="stable")
        chunks = np.array_split(order, max(len(order) // CHUNK, 1))
        logits = torch.cat(
            [self.answers(viewed[:, places].ravel().tolist()).float() for places in chunks]
        )
        table = table.iloc[order]
        fits = torch.tensor(table["fits"].to_numpy("float32"), device=logits.device)
        score = torch.tensor(table["score"].to_numpy("float32"), device=logits.device)
        known, own = (
            ~fits.isnan(),
            torch.tensor(table["context_id"].to_numpy(), device=logits.device),
        )
        terms = (
            [F.binary_cross_entropy_with_logits(logits[known, 0], fits[known])]
            if known.any()
            else []
        )
        terms += (
            [grade_loss(logits[~known, 1], score[~known], own[~known])] if not known.all() else []
        )
        return sum(terms)

    def finish(self, contexts, extra, seed):
        """Round what was learned; both answers are shares, so the range of Eq. 18 is from 0 to 1."""
        self.load_state(self.state())
        self.provenance |= {
            "base": self.base_hash(),
            "d_min": 0.0,
            "d_max": 1.0,
            "sets": sets_of(contexts),
        }


class CrossHead(nn.Module):
    """Marks tokens as those of context or response, and gives two answers from what was read, together and alone."""

    def __init__(self, dimension, hidden=96):
        super().__init__()
        self.segments = nn.Parameter(torch.zeros(2, dimension))
        self.layers = nn.Sequential(
            nn.Linear(8 * dimension, hidden), nn.GELU(), nn.Linear(hidden, 2)
        )

    def joined(self, context, response):
        """Return the tokens of both, marked, one after another: (k, d), (m, d) -> (k + m, d)."""
        return torch.cat([context + self.segments[0], response + self.segments[1]])

    def forward(self, c, r, h):
        """Return two logits of context and response read together, (n, d) each, and of views read alone, (3, n, d)."""
        c, r = (
            4 * F.normalize(x.float(), dim=-1) for x in (c, r)
        )  # entries of a size that suits a linear layer
        alone, last, reply = 4 * F.normalize(h, dim=-1)
        of = [(c, r), (alone, reply), (last, reply)]
        compared = [part for x, y in of for part in (x * y, (x - y).abs())]
        return self.layers(torch.cat([c, r, *compared], dim=-1))


class Tokens(Reader):
    """Reads texts alone, each distinct one once: its tokens after the lower layers, its embedding after all of them."""

    def __init__(self, encoder, lower):
        super().__init__(encoder)
        self.lower, self.held = lower, 0

    @torch.no_grad()
    def __call__(self, texts, progress=False):
        """Return a list of token tensors (k, d), and (n, d) embeddings, both float32."""
        self.encoder.eval()
        for batch in self.unread(texts):
            features = self.features(batch)
            read = self.encoder[0].model(**features, output_hidden_states=True).hidden_states
            mask = features["attention_mask"]
            pooled = self.encoder[1]({"token_embeddings": read[-1].float(), "attention_mask": mask})
            for text, h, own, embedding in zip(
                batch, read[self.lower].half(), mask, pooled["sentence_embedding"]
            ):
                self.known[text] = h[own.bool()].clone(), embedding
                self.held += len(self.known[text][0])
        found = [self.known[text] for text in texts]
        while self.held > KEPT and len(self.known) > len(texts):  # the oldest first
            self.held -= len(self.known.pop(next(iter(self.known)))[0])
        return [tokens.float() for tokens, _ in found], torch.stack(
            [embedding for _, embedding in found]
        )


def copied(turns, draw):
    """Return a reply that is taken from a context: its last turn, another one, one with gaps, or shuffled words."""
    near, shuffled = imitations(turns[-1], turns, draw)
    return draw.choice((turns[-1], draw.choice(turns), near, shuffled))


def by_set(contexts):
    """Return contexts by the name of their set, a dict."""
    found = {}
    for one in contexts:
        found.setdefault(one.set, []).append(one)
    return found


def misplaced(one, response, others, draw):
    """Return [the pair of a response with a context of others that it does not answer], [] if ten draws find none."""
    for other in (draw.choice(others) for _ in range(10)):
        if other.turns != one.turns and response not in other.positives:
            return [(other.turns, response, 0.0, None)]
    return []


def _layers(encoder):
    layers = getattr(getattr(encoder[0].model, "encoder", None), "layer", None)
    if layers is None or encoder[0].model.config.model_type not in (
        "bert",
        "roberta",
        "xlm-roberta",
    ):
        kind = encoder[0].model.config.model_type
        raise DreError(
            f"the encoder is a {kind}: recipe cross reads with BERT or RoBERTa, such as minilm"
        )
    return layers
