"""A cross-encoder: context and response read together, by an encoder that low-rank matrices adapt.

It gives two answers to a pair: does the response fit (a logit), and how good is it (a logit of the grade over 5). In
one pass over labelled contexts and half as many dialogues it learns what fits, and in every step what a judge would
give: about 49,000 pairs, an hour of one core.
"""

import copy
import itertools
import os
import random

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from transformers import get_linear_schedule_with_warmup

from dre.slm.encoder import batches, load_encoder, native_bf16, token_counts
from dre.slm.graded import graded_table
from dre.slm.heads import LowRank, adapt, grade_loss

CHUNK = 16  # pairs of similar length that are read together: little of a chunk is padding
BATCH, GRADED = 32, 2  # of a step: labelled pairs, and contexts whose replies were graded
OF_EACH = 3  # right and adversarial responses of a labelled context
HIDDEN = 128  # of the two layers
ROOM = 2048  # tokens read together when nothing is learned


class Cross(nn.Module):
    """A transformer with `dre.slm.heads.LowRank` matrices, and two layers on what it makes of context and response.

    Each is the mean of its own tokens, which have seen those of the other; beside them stand their product and their
    difference, so that a likeness is there from the first step on.
    """

    def __init__(self, encoder="minilm", rank=32, length=128):
        super().__init__()
        base = load_encoder(encoder, length)
        self.tokenizer, self.length = base.tokenizer, base.max_seq_length
        self.tokenizer.truncation_side = "left"  # the end of a dialogue matters most
        self.model = copy.deepcopy(base[0].model).requires_grad_(False)
        adapt(self.model, rank)
        self.answers = nn.Sequential(
            nn.Linear(4 * self.model.config.hidden_size, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 2)
        )

    def forward(self, contexts, responses):
        """Return (n, 2) logits of pairs of texts."""
        tokens = self.tokenizer(
            contexts, responses, truncation="longest_first", max_length=self.length, padding=True, return_tensors="pt"
        )
        h = self.model(**tokens).last_hidden_state
        second, read = tokens["token_type_ids"][..., None], tokens["attention_mask"][..., None]
        c, r = (4 * F.normalize((h * mask).sum(1), dim=-1) for mask in (read * (1 - second), read * second))
        return self.answers(torch.cat([c, r, c * r, (c - r).abs()], dim=-1))

    def text(self, turns):
        """Return the turns of a dialogue as the one text that is read."""
        return f" {self.tokenizer.sep_token} ".join(turns)

    @torch.no_grad()
    def parts(self, pairs):
        """Return ``fit`` and ``quality`` of a table of pairs, two logits."""
        self.eval()
        contexts, responses = pairs["context"].map(self.text).to_numpy(), pairs["response"].to_numpy()
        found = torch.zeros(len(pairs), 2)
        lengths = sum(token_counts(self, list(texts)) for texts in (contexts, responses)).clip(max=self.length)
        for places in batches(lengths, ROOM):
            found[places] = self(list(contexts[places]), list(responses[places]))
        return pd.DataFrame(found.double().numpy(), columns=["fit", "quality"])

    def learned(self):
        """Return what learns, name -> tensor in half precision; the rest is the encoder's."""
        return {name: p.detach().half() for name, p in self.named_parameters() if p.requires_grad}

    def load(self, learned):
        """Set what `learned` returned, and merge the matrices into the weights that they adapt."""
        self.load_state_dict({name: value.float() for name, value in learned.items()}, strict=False)
        for each in self.modules():
            if isinstance(each, LowRank):
                each.merge()


def judged(labelled, dialogues, copies, draw):
    """Return what fit is learned from, shuffled: (turns, response, 1 or 0).

    Of each labelled context some right and adversarial responses, a right one in another context, and one of
    ``copies(context)``; of half as many dialogues the reply, and that of another dialogue.
    """
    rows = []
    for one in labelled:
        other, right = draw.choice(labelled), draw.sample(one.positives, min(OF_EACH, len(one.positives)))
        rows += [(one.turns, response, 1.0) for response in right]
        rows += [(one.turns, r, 0.0) for r in draw.sample(one.adversarials, min(OF_EACH, len(one.adversarials)))]
        rows.append((one.turns, draw.choice(copies(one)), 0.0))
        if other.turns != one.turns:
            rows.append((other.turns, right[0], 0.0))
    some = draw.sample(dialogues, min(len(labelled) // 2, len(dialogues)))
    for one, other in zip(some, draw.sample(some, len(some))):
        turns = one.turns[-draw.choice((1, 2, 3, 4)) :]
        rows.append((turns, one.positives[0], 1.0))
        if other.positives[0] not in one.positives:
            rows.append((turns, other.positives[0], 0.0))
    return draw.sample(rows, len(rows))


def train(model, rows, graded, draw, steps=None, rate=5e-4):
    """Train a `Cross` on what `judged` returned and on graded pairs; yield the two losses of each step."""
    adapters = [p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("answers")]
    groups = [{"params": adapters, "lr": rate}, {"params": model.answers.parameters(), "lr": 2 * rate}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    starts = range(0, len(rows) - BATCH + 1, BATCH)[:steps]
    schedule = get_linear_schedule_with_warmup(optimizer, len(starts) // 20, len(starts))
    contexts = [own for _, own in graded_table(graded).groupby("context_id")]
    contexts = itertools.cycle(draw.sample(contexts, len(contexts)))
    model.train()
    for start in starts:
        some = sorted(rows[start : start + BATCH], key=lambda row: len("".join(row[0]) + row[1]))
        of_judge = pd.concat([next(contexts) for _ in range(GRADED)])
        with torch.autocast("cpu", torch.bfloat16, enabled=native_bf16()):
            found = [
                model([model.text(turns) for turns, _, _ in chunk], [response for _, response, _ in chunk])
                for chunk in (some[i : i + CHUNK] for i in range(0, BATCH, CHUNK))
            ]
            quality = model([*of_judge["context"].map(model.text)], [*of_judge["response"]])[:, 1]
        fits = torch.tensor([label for _, _, label in some])
        fit = F.binary_cross_entropy_with_logits(torch.cat(found)[:, 0].float(), fits)
        score = torch.tensor(of_judge["score"].to_numpy(), dtype=torch.float32)
        grade = grade_loss(quality.float(), score, torch.from_numpy(pd.factorize(of_judge["context_id"])[0]))
        (fit + grade).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield fit.item(), grade.item()


def fit(labelled, further, copies, file, seed):
    """Return the `Cross` that ``file`` holds, or train one into it."""
    torch.manual_seed(seed)
    model, draw = Cross(), random.Random(seed)
    if not file.exists():
        losses = list(train(model, judged(labelled, further.dialogues, copies, draw), further.graded, draw))
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"learned": model.learned(), "losses": losses}, unfinished := file.with_suffix(".partial"))
        os.replace(unfinished, file)
    model.load(torch.load(file)["learned"])  # rounded, as it would be shipped
    return model
