"""An SLM: a head on an encoder, scoring (Eq. 17-19), saving, loading."""

import json
import os
import pkgutil
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from huggingface_hub import snapshot_download
from pydantic import TypeAdapter
from safetensors.torch import load, save_model
from torch import nn

from dre.datasets.dialogues import Context
from dre.datasets.dialogues import pairs as pairs_of
from dre.errors import DreError
from dre.slm import losses, recipes
from dre.slm.encoder import (
    Reader,
    context_text,
    doubles,
    keep_end,
    load_encoder,
    plain_text,
    token_counts,
)
from dre.slm.provenance import DEFAULT as DEFAULT
from dre.slm.provenance import Extra

#: pairs that are scored at once, which bounds memory
BLOCK = 4096
#: the classes of recipes that have one of their own; their modules import this one
CLASSES = {"graded": "dre.slm.graded:Graded", "ours": "dre.slm.ours:Ours"}


class Head(nn.Module):
    """Separates embeddings (Eq. 17) and classifies pairs (Eq. 15); ``sep`` is a recipe's."""

    def __init__(self, dimension, sep="maps"):
        super().__init__()
        self.sep = sep
        if sep == "maps":
            self.robust, self.non_robust = (
                nn.Linear(dimension, dimension),
                nn.Linear(dimension, dimension),
            )
            # Starting from the identity keeps delta(h_c, h_robust) the encoder's own distance at step 0.
            nn.init.eye_(self.robust.weight)
            nn.init.zeros_(self.robust.bias)
        elif sep == "halves":
            self.project = nn.Linear(dimension, dimension)
        self.classifier = nn.Linear(2 * dimension, 2 if sep == "none" else 3)

    def forward(self, h):
        """Return h (n, d) and its parts by name: those of `separate` are ``anchor``, ``robust``, ``non_robust``."""
        return dict(
            zip(("sentence_embedding", "anchor", "robust", "non_robust"), (h, *self.separate(h)))
        )

    def separate(self, h):
        """Return (h as a context, robust part, non-robust part or None), each (n, d); sep() of Eq. 17."""
        if self.sep == "maps":
            return h, self.robust(h), self.non_robust(h)
        if self.sep == "halves":
            projected, half = self.project(h), h.shape[-1] // 2
            non_robust, robust = projected[:, :half], projected[:, half:]
            return projected, F.pad(robust, (0, half)), F.pad(non_robust, (0, h.shape[-1] - half))
        return h, h, None

    def logits(self, h_c, h_res):
        """Linear(concat(h_c, h_res)) of Eq. 15: (n, d), (n, d) -> (n, classes)."""
        return self.classifier(torch.cat([h_c, h_res], dim=-1))


class SLM:
    """An encoder (SentenceTransformer) with a head beside it; ``provenance`` says what made it.

    Nothing in it learns until `learns` says what; while its encoder does not, it remembers what it has read.
    """

    def __init__(self, encoder, head, recipe, provenance=None):
        self.encoder, self.head = encoder.requires_grad_(False), head.to(encoder.device)
        self.recipe, self.provenance, self.reader = recipe, dict(provenance or {}), Reader(encoder)

    @classmethod
    def untrained(cls, encoder: str = "minilm", recipe: recipes.Recipe | None = None) -> Self:
        """Return an encoder before any training, a fresh head on it; without a ``recipe`` distances are its own."""
        recipe = recipe or recipes.get("paper", disentangled=False)
        base = load_encoder(encoder, recipe.max_seq_length)
        return cls(base, Head(base.get_embedding_dimension(), recipe.sep), recipe)

    def learns(self, parts: Collection[str]) -> None:
        """Let those ``parts`` learn that a stage of training names, and nothing else."""
        self.forget()
        self.encoder.requires_grad_("encoder" in parts)
        self.head.requires_grad_("head" in parts)
        self.head.classifier.requires_grad_(not {"head", "classifier"}.isdisjoint(parts))

    def bfloat16(self) -> None:
        """Embed in bfloat16 from now on; the head beside the encoder stays exact."""
        self.encoder.bfloat16()
        self.forget()

    def forget(self) -> None:
        """Forget what was read."""
        self.reader.known.clear()

    @torch.no_grad()
    def encode(self, texts: Sequence[str], progress: bool = False) -> dict[str, torch.Tensor]:
        """Embed texts, each distinct one once; return what the head makes of them: (n, d) float32 tensors by name."""
        self.head.eval()
        return self.head(self.reader(texts, progress))

    @torch.no_grad()
    def distances(self, pairs: pd.DataFrame, progress: bool = False) -> pd.DataFrame:
        """Return columns ``pair_id, distance, s_p`` for a table of pairs: what Eq. 18 needs before normalisation."""
        contexts, responses = self.texts(self.readable(pairs))
        h = self.encode(contexts + responses, progress)
        h_c, h_r = h["anchor"][: len(pairs)], h["robust"][len(pairs) :]
        d = losses.distance(h_c, h_r)
        p = torch.softmax(self.head.logits(h_c, h_r), dim=-1)[:, losses.POSITIVE]
        return pd.DataFrame(
            {"pair_id": list(pairs["pair_id"]), "distance": doubles(d), "s_p": doubles(p)}
        )

    def score(self, pairs: pd.DataFrame, progress: bool = False) -> pd.DataFrame:
        """Score a table of ``pair_id, context`` (turns, oldest first), ``response``, Eq. 17-19.

        d_min and d_max are those of the training data, stored with the model, so a score does not depend on the other
        pairs (beyond rounding). One farther or nearer than any training pair gets an s_d outside [0, 1].

        Returns one row per pair, in order: ``pair_id, distance`` (cosine, [0, 2]), ``s_d`` (normalised distance),
        ``s_p`` (probability of a positive), ``score_slm`` = 1 - s_d + s_p, about [0, 2]. DreError for an empty text.
        """
        if "d_min" not in self.provenance:
            raise DreError(
                "this SLM has no d_min and d_max: call set_range(training contexts) before scoring"
            )
        low, high = self.provenance["d_min"], self.provenance["d_max"]
        starts = range(0, max(len(pairs), 1), BLOCK)
        blocks = [pairs.iloc[start : start + BLOCK] for start in starts]
        tables = [self.distances(block, progress) for block in blocks]
        table = pd.concat(tables, ignore_index=True)
        table.insert(2, "s_d", (table["distance"] - low) / (high - low))
        return table.assign(score_slm=1 - table["s_d"] + table["s_p"])

    def set_range(self, contexts: Sequence[Context]) -> None:
        """Store d_min and d_max of Eq. 18 from the positive and adversarial pairs of training contexts (reading 6)."""
        d = np.asarray(self.distances(pairs_of(contexts, kinds="pa"))["distance"])
        if np.isnan(d).any() or d.min() == d.max():
            raise DreError(
                "the training distances are constant or not finite: the training has diverged"
            )
        self.provenance |= {
            "d_min": float(d.min()),
            "d_max": float(d.max()),
            "sets": sets_of(contexts),
        }

    def examples(self, contexts: Sequence[Context]) -> Sequence[Context]:
        """Return what is learned from labelled contexts: here, they themselves."""
        return contexts

    def passes(self, contexts: Sequence[Context], extra: Extra, number: int, seed: int) -> list:
        """Return the rows of each pass over the contexts; only recipes with a mixture have this."""
        raise NotImplementedError(f"recipe {self.recipe.name} learns from triplets")

    def loss(self, rows: Sequence, vectors: Callable) -> torch.Tensor:
        """Return the loss of some rows of `passes`; only recipes with a mixture have this."""
        raise NotImplementedError(f"recipe {self.recipe.name} learns from triplets")

    def finish(self, contexts: Sequence[Context], extra: Extra, seed: int) -> None:
        """Do what a recipe does after its stages of training: here, `set_range`."""
        self.set_range(contexts)

    def set_threshold(self, threshold: float) -> None:
        """Store the score_slm from which on a response counts as accepted, chosen on held-out contexts."""
        self.provenance["threshold"] = float(threshold)

    def readable(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Check a table of pairs and return it as texts that an encoder reads.

        A context becomes a tuple of turns, and what looks like a special token of the encoder, such
        as ``[SEP]``, becomes ordinary text. DreError if a column or a text is missing.
        """
        missing = {"pair_id", "context", "response"} - set(pairs.columns)
        if missing:
            raise DreError(
                f"the pairs lack {', '.join(sorted(missing))}: "
                "expected columns pair_id, context, response"
            )
        special_tokens = self.encoder.tokenizer.all_special_tokens
        contexts = []
        responses = []
        for pair_id, turns, response in zip(pairs["pair_id"], pairs["context"], pairs["response"]):
            turns = (turns,) if isinstance(turns, str) else tuple(turns)
            _check_text("context", pair_id, " ".join(turns))
            _check_text("response", pair_id, response)
            contexts.append(tuple(plain_text(turn, special_tokens) for turn in turns))
            responses.append(plain_text(response, special_tokens))
        return pairs.assign(context=contexts, response=responses)

    def texts(self, pairs: pd.DataFrame) -> tuple[list[str], list[str]]:
        """Return context strings and response strings of `readable` pairs as they are encoded."""
        context_of = cache(self.context)  # several pairs share a context
        contexts = [context_of(turns) for turns in pairs["context"]]
        responses = list(pairs["response"])
        n_cut = self.cut(responses).sum()
        if n_cut:
            limit = f"{self.encoder.max_seq_length} tokens"
            warnings.warn(
                f"{n_cut} response(s) have more than {limit}: only the first {limit} are read",
                stacklevel=3,
            )
        return contexts, responses

    def context(self, turns: Iterable[str]) -> str:
        """Return the turns of a dialogue as the one text that is encoded; the end of it where it is too long."""
        separator = getattr(self.encoder.tokenizer, "sep_token", None) or "\n"
        limit = self.encoder.max_seq_length
        most_words = max(200, limit)  # each has a token at least
        text = context_text(turns, separator, most_words)
        return keep_end(text, self.encoder.tokenizer, limit)

    def cut(self, responses: Collection[str]) -> np.ndarray:
        """Return for each response whether it has more tokens than the encoder reads, a bool array."""
        distinct = list(dict.fromkeys(responses))
        long = dict(
            zip(distinct, token_counts(self.encoder, distinct) > self.encoder.max_seq_length)
        )
        return np.array([long[text] for text in responses], dtype=bool)

    def save(self, path: str | Path) -> None:
        """Write, whole or not at all, a folder with what `write` writes and ``slm.json``."""
        path = Path(path)
        if path.exists():
            raise DreError(f"{path} exists already: name another folder or delete it")
        partial = path.with_name(path.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self.write(partial)
        about = {"format": 1, "recipe": self.recipe.as_dict(), "provenance": self.provenance}
        (partial / "slm.json").write_text(
            json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        os.replace(partial, path)

    @classmethod
    def load(cls, path: str | Path) -> "SLM":
        """Read a saved SLM, a folder or a Hub id (``owner/name``); DreError if it is missing, incomplete or damaged."""
        try:
            if not Path(path).is_dir():
                path = snapshot_download(
                    str(path), allow_patterns=["*.json", "*.txt", "*.safetensors"]
                )
            about = json.loads((Path(path) / "slm.json").read_text(encoding="utf-8"))
            recipe = TypeAdapter(recipes.Recipe).validate_python(about["recipe"])
            return class_for(recipe).read(Path(path), recipe, about["provenance"])
        except DreError:  # of the encoder, which a model may name
            raise
        except (
            Exception
        ) as error:  # of the Hub's client, the file system, JSON, safetensors or torch
            reason = str(error).strip().partition("\n")[0]
            raise DreError(
                f"{path} is no SLM, here or on the Hub, or a damaged one ({reason})"
            ) from error

    @classmethod
    def read(cls, path: Path, recipe: recipes.Recipe, provenance: dict) -> Self:
        """Read the parts that `write` wrote into a folder."""
        encoder = load_encoder(str(path), recipe.max_seq_length)
        head = Head(encoder.get_embedding_dimension(), recipe.sep)
        # Opened by Python: `dre.paper.state` hears it, which safetensors' own opening it would not.
        head.load_state_dict(load((path / "head.safetensors").read_bytes()))
        return cls(encoder.eval(), head.eval(), recipe, provenance)

    def write(self, path: Path) -> None:
        """Write encoder and head into a folder."""
        self.encoder.save_pretrained(str(path), create_model_card=False)
        save_model(self.head, str(path / "head.safetensors"))


def _check_text(name, pair_id, text):
    """Raise DreError if a context or a response is no text, or an empty one."""
    if not isinstance(text, str) or not text.strip():
        raise DreError(
            f"the {name} of pair {pair_id} is {text!r}: expected text; leave the pair out"
        )


def sets_of(contexts):
    """Return how many contexts are of each set and split, a dict."""
    return dict(Counter(f"{context.set} {context.split}" for context in contexts))


def class_for(recipe: recipes.Recipe) -> type[SLM]:
    """Return the class of the models that a recipe trains."""
    if recipe.name not in CLASSES:
        return SLM
    return pkgutil.resolve_name(CLASSES[recipe.name])
