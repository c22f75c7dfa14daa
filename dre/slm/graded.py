"""Recipe ``graded``: is a response like its dialogue, does it fit there, is it good? Three answers that count alike.

Likeness is the cosine of a response with the whole context and with its last turn, the mean of two encoders: as it was,
and adapted by low-rank matrices that learned by contrast. Fit is a head on the adapted encoder, which learned to tell
right responses from adversarial ones and those of other contexts; quality one on the encoder as it was, which learned
what a judge would give.
"""

import copy
import random
from functools import cache
from itertools import islice, product

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from safetensors.torch import load, save_file

from dre.errors import DreError
from dre.slm.encoder import Reader, doubles, load_encoder
from dre.slm.heads import FITS, FOOLS, GradedHead, LowRank, adapt, cosines, grade_loss
from dre.slm.model import SLM
from dre.slm.provenance import weights_hash
from dre.slm.triplets import distinct

EPOCHS, BATCH = 15, 128  # of a head over its pairs
FILE = "adapter.safetensors"  # everything that was learned, in half precision


class Graded(SLM):
    """An SLM of recipe ``graded``; its ``s_p`` is fit and quality, each scaled to vary as much as ``s_d`` does.

    ``encoder`` is the adapted one, ``reader`` reads with it; ``base`` reads with the encoder as it was, which has the
    same weights, held once, without the adapters. With matrices of rank 0, and no stage of training, both are one.
    """

    def __init__(self, base, recipe):
        adapted = base
        if recipe.mixture.rank:
            shared = {id(part): part for part in (*base.parameters(), base.tokenizer)}
            adapted = copy.deepcopy(base, shared)
            self.recipe = recipe
            self.adapt(adapted)
        super().__init__(adapted, self.head_of(base.get_embedding_dimension()), recipe)
        self.base = Reader(base)
        if adapted is base:  # every text is read once
            self.reader = self.base

    def adapt(self, encoder):
        """Put adapters into all layers."""
        adapt(encoder[0].model, self.recipe.mixture.rank)

    def head_of(self, dimension):
        """Return a fresh head."""
        return GradedHead(dimension)

    @classmethod
    def untrained(cls, encoder="minilm", recipe=None):
        """Return an encoder with adapters that change nothing yet, a fresh head beside it."""
        assert recipe is not None, "give the recipe, which says what is adapted"
        return cls(load_encoder(encoder, recipe.max_seq_length), recipe)

    def forget(self):
        """Forget what was read."""
        super().forget()
        self.base.known.clear()

    def learns(self, parts):
        """Let adapters and weights of the views learn, of a stage of training (which it has one of)."""
        self.forget()
        self.encoder.requires_grad_(False)
        self.head.requires_grad_(False)
        self.taught().requires_grad_(True)
        for each in self._adapters():
            each.merged = None
            each.down.requires_grad_(True), each.up.requires_grad_(True)

    def taught(self):
        """Return the part of the head that learns in that stage: the weights of the views."""
        return self.head.views

    def _adapters(self):
        return [each for each in self.encoder.modules() if isinstance(each, LowRank)]

    def views(self, pairs, reader=None):
        """Return what a reader, by default the adapted one, makes of contexts, last turns and responses: (3, n, d)."""
        return (reader or self.reader)(self._viewed(pairs)).view(3, len(pairs), -1)

    def _viewed(self, pairs):
        pairs = self.readable(pairs)
        contexts, responses = self.texts(pairs)
        last_turn_of = cache(lambda turns: self.context(turns[-1:]))
        last_turns = [last_turn_of(turns) for turns in pairs["context"]]
        return contexts + last_turns + responses

    @torch.no_grad()
    def parts(self, pairs, progress=False):
        """Return the ``likeness, fit, quality`` of each pair: [-1, 1], a probability, and an unbounded number."""
        self.head.eval()
        texts = self._viewed(pairs)  # checked and cut once, for both encoders
        h, before = (
            reader(texts, progress).view(3, len(pairs), -1) for reader in (self.reader, self.base)
        )
        found = {"likeness": (self.head.likeness(h) + cosines(before).mean(0)) / 2}
        found |= {"fit": torch.sigmoid(self.head.fit(h)), "quality": self.head.quality(before)}
        return pd.DataFrame({name: doubles(part) for name, part in found.items()})

    def distances(self, pairs, progress=False):
        """Return ``pair_id, distance, s_p``: 1 - likeness, and the sum of fit and quality as `scale_parts` has them."""
        parts = self.parts(pairs, progress)
        s_p = 0.5 + sum(
            unit * (parts[name] - at)
            for name, (at, unit) in self.provenance.get("scales", {}).items()
        )
        return pd.DataFrame(
            {"pair_id": list(pairs["pair_id"]), "distance": 1 - parts["likeness"], "s_p": s_p}
        )

    def ordered(self, table):
        """Return by name what the curves show: of a table's triplets whether the adapted likeness orders them right."""
        return self.triplets(table, doubles(self.head.likeness(self.views(table))))

    def triplets(self, table, values):
        """Return by name of a table's triplets whether the positive one has the higher of some values."""
        table = table.assign(value=np.asarray(values))
        positive, adversarial = (
            table.loc[table["kind"] == kind, ["context_id", "value"]] for kind in "pa"
        )
        triplets = positive.merge(adversarial, on="context_id")
        return {
            "triplet_accuracy": torch.tensor((triplets["value_x"] > triplets["value_y"]).to_numpy())
        }

    def passes(self, contexts, extra, number, seed):
        """Return what is contrasted in each pass over the contexts; see `passes`."""
        return passes(contexts, extra.dialogues, self.context, self.recipe.mixture, number, seed)

    def loss(self, rows, vectors):
        """Return the contrast of rows of `passes`, a scalar; ``vectors`` embeds texts."""
        texts, index = pair_batch(rows)
        return self.head.contrast(vectors(texts), index.to(self.encoder.device))

    def finish(self, contexts, extra, seed):
        """Train the heads on what was contrasted, and set the scales of the three parts."""
        self.load_state(
            self.state()
        )  # rounded, so that heads learn on what is saved, and the model here is that one
        self.learn_heads(contexts, extra.dialogues, extra.graded, seed)
        self.load_state(self.state())
        self.provenance["base"] = self.base_hash()
        self.set_range(contexts)
        self.scale_parts(extra.graded)

    def learn_heads(self, contexts, dialogues, graded, seed):
        """Train both heads: fit on labelled contexts and some dialogues, quality on ``Extra.graded``."""
        fits = self.fitting(contexts, dialogues, seed)
        self.learn_fit(self.views(fits), fits["fits"], fits["context"], seed)
        table = graded_table(graded)
        self.learn_quality(self.views(table, self.base), table["score"], table["context_id"], seed)

    def fitting(self, contexts, dialogues, seed):
        """Return what fit is learned from, a table of pairs with ``fits``: 1 for right responses, 0 for adversarial."""
        pairs = [(one.turns, r, 1.0) for one in contexts for r in one.positives]
        pairs += [(one.turns, r, 0.0) for one in contexts for r in one.adversarials]
        draw = random.Random(seed)
        for one in draw.sample(dialogues, min(self.recipe.mixture.fits, len(dialogues))):
            pairs.append((*shown(one, self.recipe.mixture, draw), 1.0))
        table = pd.DataFrame(pairs, columns=["context", "response", "fits"])
        return table.assign(pair_id=range(len(table)))

    def scale_parts(self, graded):
        """Scale fit and quality so that over the graded pairs each varies as much as ``s_d``: all three count alike."""
        parts, spread = (
            self.parts(graded_table(graded)),
            self.provenance["d_max"] - self.provenance["d_min"],
        )
        unit = parts["likeness"].std() / spread
        scales = {
            name: [parts[name].mean(), unit / parts[name].std()] for name in ("fit", "quality")
        }
        self.provenance["scales"] = {
            name: [float(value) for value in each] for name, each in scales.items()
        }

    def learn_fit(self, h, fits, context, seed):
        """Train the fit head on views (3, n, d), 1 for right responses, which do not fit the contexts of others."""
        fits = torch.tensor(np.asarray(fits), dtype=torch.float32, device=h.device)
        context = torch.from_numpy(pd.factorize(context)[0]).to(h.device)

        def loss(batch, draw):
            own = batch[fits[batch].bool().cpu().numpy()]
            other = draw.permutation(batch)[: len(own)]
            elsewhere = (context[own] != context[other]).cpu().numpy()
            own, other = own[elsewhere], other[elsewhere]
            shown = torch.cat(
                [h[:, batch], torch.stack([h[0, other], h[1, other], h[2, own]])], dim=1
            )
            labels = torch.cat([fits[batch], fits.new_zeros(len(own))])
            return F.binary_cross_entropy_with_logits(self.head.fit(shown), labels)

        self._learn(self.head.fits, loss, len(fits), seed)

    def learn_quality(self, h, score, context_id, seed):
        """Train the quality head on embedded views (3, n, d), grades (0-5) and the ids of their contexts."""
        score = torch.tensor(np.asarray(score), dtype=torch.float32, device=h.device)
        context = torch.from_numpy(pd.factorize(context_id)[0])

        def loss(batch, _):
            return grade_loss(
                self.head.quality(h[:, batch]), score[batch], context[batch].to(h.device)
            )

        self._learn(self.head.layers, loss, len(score), seed, context)

    def _learn(self, layers, loss, n, seed, context=None):
        """Take a part of the head through `EPOCHS` over n pairs, those of a `context` (numbers, (n,)) together."""
        torch.manual_seed(seed)
        draw = np.random.default_rng(seed)
        self.head.requires_grad_(True).train()
        optimizer = torch.optim.AdamW(layers.parameters(), lr=5e-4, weight_decay=0.05)
        for _ in range(EPOCHS):
            order = draw.permutation(n if context is None else int(context.max()) + 1)
            order = order if context is None else np.argsort(order[context], kind="stable")
            for batch in np.array_split(order, max(n // BATCH, 1)):
                optimizer.zero_grad()
                loss(batch, draw).backward()
                optimizer.step()
        self.head.requires_grad_(False).eval()

    def state(self):
        """Return everything that was learned, in half precision, name -> tensor."""
        found = {f"head.{name}": value for name, value in self.head.state_dict().items()}
        for i, each in enumerate(self._adapters()):
            found |= {f"{i}.down": each.down.data, f"{i}.up": each.up.data}
        return {name: value.half().cpu().contiguous() for name, value in found.items()}

    def load_state(self, state):
        """Set what was learned, as `state` returns it; the adapters are merged into the weights that they adapt."""
        prefix = "head."
        head = {
            name.removeprefix(prefix): value.float()
            for name, value in state.items()
            if name.startswith(prefix)
        }
        self.head.load_state_dict(head)
        for i, each in enumerate(self._adapters()):
            each.down.data.copy_(state[f"{i}.down"])
            each.up.data.copy_(state[f"{i}.up"])
            each.merge()
        self.forget()

    def write(self, path):
        """Write what was learned into a folder; the encoder that it adapts is named and known by its hash."""
        save_file(self.state(), str(path / FILE))

    @classmethod
    def read(cls, path, recipe, provenance):
        """Read what `write` wrote; DreError if the encoder here is another one."""
        slm = cls.untrained(provenance["encoder"], recipe)
        if slm.base_hash() != provenance["base"]:
            raise DreError(
                f"encoder {provenance['encoder']!r} is another one here than the one that was adapted"
            )
        # Opened by Python: `dre.paper.state` hears it, which safetensors' own opening it would not.
        slm.load_state(load((path / FILE).read_bytes()))
        slm.head.requires_grad_(False).eval()
        slm.provenance = provenance
        return slm

    def base_hash(self):
        """Return the beginning of a sha256 over the weights of the encoder as it was."""
        return weights_hash(self.base.encoder)


def passes(contexts, dialogues, text, mixture, number, seed):
    """Return for each pass over the contexts what is contrasted: one list of pairs per labelled context.

    A pair is (kind, whole context, last turn, response), ``text`` making one text of turns. With each labelled context
    come some dialogues, of drawn length, with one response each; every one comes once before any comes twice.
    """
    draw, found = random.Random(seed), [[] for _ in range(number)]
    stream = endless(dialogues, draw)
    for one_pass, context in product(found, contexts):
        views = text(context.turns), text(context.turns[-1:])
        pairs = [(FITS, *views, response) for response in context.positives]
        pairs += [(FOOLS, *views, response) for response in context.adversarials]
        for one in islice(stream, mixture.dialogues):
            turns, response = shown(one, mixture, draw)
            pairs.append((FITS, text(turns), text(turns[-1:]), response))
        one_pass.append(pairs)
    return found


def pair_batch(rows):
    """Return the distinct texts of rows of `passes`, shortest first, and (m, 4): kind, three places among them."""
    some = [pair for row in rows for pair in row]
    texts, place = distinct(text for pair in some for text in pair[1:])
    return texts, torch.tensor([(kind, *(place[text] for text in views)) for kind, *views in some])


def shown(dialogue, mixture, draw):
    """Draw how many last turns of a dialogue are shown, and which of its right responses."""
    return dialogue.turns[-draw.choice(mixture.last_turns) :], draw.choice(dialogue.positives)


def endless(items, draw):
    """Yield items for ever, in a new order each time all have come."""
    while items:
        yield from draw.sample(items, len(items))


def graded_table(graded):
    """Return ``Extra.graded`` as a table of pairs with their ``score``."""
    table = pd.DataFrame(graded, columns=["context_id", "context", "response", "score"])
    return table.assign(pair_id=range(len(table)))
