"""The small model (SLM): an encoder with a head. Scoring (Eq. 17-19), saving and loading."""

import hashlib
import json
import os
import pkgutil
import secrets
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from huggingface_hub import snapshot_download
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load, save_model
from torch import Tensor, nn

from dre.datasets.dialogues import Context
from dre.datasets.dialogues import pairs as pairs_of
from dre.errors import DreError
from dre.slm import losses, recipes
from dre.slm.encoder import (
    Reader,
    context_text,
    doubles,
    ends,
    lengths,
    load_encoder,
    plain_text,
)
from dre.slm.provenance import DEFAULT as DEFAULT
from dre.slm.provenance import Extra, check_numbers, hashes_of_files

if TYPE_CHECKING:
    pass

#: Of the folder that `SLM.save` writes.
FORMAT = 1


class Head(nn.Module):
    """Separates embeddings into two parts (Eq. 17), and classifies pairs (Eq. 15).

    ``sep`` says how, as in `dre.slm.recipes.Recipe`: by two linear ``maps``, by ``halves``, or
    ``none``.
    """

    def __init__(self, dimension: int, sep: str = "maps"):
        super().__init__()
        self.sep = sep
        if sep == "maps":
            self.robust = nn.Linear(dimension, dimension)
            self.non_robust = nn.Linear(dimension, dimension)
            # As it starts from the identity, delta(h_c, h_robust) is the encoder's own distance at
            # step 0.
            nn.init.eye_(self.robust.weight)
            nn.init.zeros_(self.robust.bias)
        elif sep == "halves":
            self.project = nn.Linear(dimension, dimension)
        self.classifier = nn.Linear(2 * dimension, 2 if sep == "none" else 3)

    def forward(self, h: Tensor) -> dict[str, Tensor | None]:
        """Return h (n, d) as ``sentence_embedding``, and what `separate` makes of it by name."""
        names = ("sentence_embedding", "anchor", "robust", "non_robust")
        return dict(zip(names, (h, *self.separate(h))))

    def separate(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Separate embeddings, sep() of Eq. 17: (n, d) -> three of (n, d).

        The first, the anchor, is the embedding as that of a context. The robust and the non-robust
        part are those of a response; the latter is None where a recipe does not separate.
        """
        if self.sep == "maps":
            return h, self.robust(h), self.non_robust(h)
        if self.sep == "halves":
            projected = self.project(h)
            half = h.shape[-1] // 2
            # The missing half is filled with zeros, so that cosines are those of halves.
            robust = F.pad(projected[:, half:], (0, half))
            non_robust = F.pad(projected[:, :half], (0, h.shape[-1] - half))
            return projected, robust, non_robust
        return h, h, None

    def logits(self, h_c: Tensor, h_res: Tensor) -> Tensor:
        """Return Linear(concat(h_c, h_res)) of Eq. 15: (n, d), (n, d) -> (n, classes)."""
        return self.classifier(torch.cat([h_c, h_res], dim=-1))


class SLM:
    """An encoder (SentenceTransformer) with a head, both in ``parts``.

    Its ``provenance`` says what made it. Nothing in it learns until `learns` is called. While its
    encoder does not learn, it remembers the texts that it has read. If it was loaded, ``signature``
    is a hash of all that was loaded.
    """

    signature = ""

    def __init__(self, encoder, head, recipe, provenance=None):
        self.encoder = encoder.requires_grad_(False)
        self.head = head.to(encoder.device)
        self.parts = nn.ModuleDict({"encoder": self.encoder, "head": self.head})
        self.recipe = recipe
        self.provenance = dict(provenance or {})
        self.reader = Reader(encoder)

    @classmethod
    def untrained(cls, encoder: str = "minilm", recipe: recipes.Recipe = recipes.PLAIN) -> Self:
        """Return an encoder before any training, with a fresh head.

        Without a ``recipe`` its distances are those of the encoder.
        """
        base = load_encoder(encoder, recipe.max_seq_length)
        return cls(base, Head(base.get_embedding_dimension() or 0, recipe.sep), recipe)

    def learns(self, modules: Collection[str]) -> None:
        """Let the named ``modules`` learn (encoder, head, classifier), and nothing else."""
        self.forget()
        self.encoder.requires_grad_("encoder" in modules)
        self.head.requires_grad_("head" in modules)
        self.head.classifier.requires_grad_(not {"head", "classifier"}.isdisjoint(modules))

    def forget(self) -> None:
        """Forget the texts that were read, since the encoder changes or memory is short."""
        self.reader.known.clear()

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Embed texts, and return what the head makes of them: (n, d) float32 tensors by name."""
        self.head.eval()
        return self.head(self.reader(texts))

    @torch.no_grad()
    def distances(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return ``pair_id, distance, s_p`` for a table of pairs.

        ``distance`` is the cosine distance that Eq. 18 normalises, ``s_p`` the probability that the
        response is a positive one.
        """
        contexts, responses = self.texts(self.readable(pairs))
        h = self.encode(contexts + responses)
        h_c = h["anchor"][: len(pairs)]
        h_r = h["robust"][len(pairs) :]
        d = losses.distance(h_c, h_r)
        p = torch.softmax(self.head.logits(h_c, h_r), dim=-1)[:, losses.POSITIVE]
        table = pd.DataFrame({"pair_id": list(pairs["pair_id"])})
        return table.assign(distance=doubles(d), s_p=doubles(p))

    def score(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Score pairs of context and response (Eq. 17-19).

        A score does not depend on the other pairs of the table, except for rounding, because d_min
        and d_max are those of the training data.

        Parameters
        ----------
        pairs
            A table with ``pair_id``, ``context`` (turns, oldest first) and ``response``.

        Returns
        -------
        A row for each pair, in order: ``pair_id``; ``distance``, a cosine distance in [0, 2];
        ``s_d``, the distance normalised to [0, 1] over the training pairs; ``s_p``, the probability
        that the response is a positive one; and ``score_slm`` = 1 - s_d + s_p, about [0, 2].
        ``s_d`` is outside [0, 1] where a pair is farther apart, or nearer, than all training pairs.

        Raises
        ------
        DreError
            If a text is empty or missing.
        """
        if not {"d_min", "d_max"} <= self.provenance.keys():
            raise DreError(
                "this SLM has no d_min and d_max: call set_range(training contexts) before scoring"
            )
        d_min = self.provenance["d_min"]
        d_max = self.provenance["d_max"]
        table = self.distances(pairs)
        table.insert(2, "s_d", (table["distance"] - d_min) / (d_max - d_min))
        return table.assign(score_slm=1 - table["s_d"] + table["s_p"])

    def set_range(self, contexts: Sequence[Context]) -> None:
        """Store d_min and d_max of Eq. 18.

        They are taken over the positive and adversarial pairs of training contexts (reading 6).
        """
        table = pairs_of(contexts, kinds="pa")
        d = np.asarray(self.distances(table)["distance"])
        if np.isnan(d).any() or d.min() == d.max():
            raise DreError(
                "the training distances are constant or not finite: the training has diverged"
            )
        self.provenance["d_min"] = d.min()
        self.provenance["d_max"] = d.max()

    def examples(self, contexts: Sequence[Context]) -> Sequence[Context]:
        """Return the contexts that are learned from: here the labelled contexts as they are."""
        return contexts

    def finish(self, contexts: Sequence[Context], extra: Extra, seed: int) -> None:
        """Do what is left to do after the last stage of training: here `set_range`."""
        self.set_range(contexts)

    def set_threshold(self, threshold: float) -> None:
        """Store the threshold: a response is accepted if its score_slm is not below it.

        It is chosen on held-out contexts.
        """
        self.provenance["threshold"] = float(threshold)

    def readable(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Check a table of pairs, and return it with texts that an encoder reads safely.

        A context becomes a tuple of turns. Whatever looks like a special token of the encoder, such
        as ``[SEP]``, becomes ordinary text. DreError if a text is empty or missing.
        """
        special_tokens = self.encoder.tokenizer.all_special_tokens
        contexts = []
        responses = []
        for pair_id, turns, response in zip(pairs["pair_id"], pairs["context"], pairs["response"]):
            turns = (turns,) if isinstance(turns, str) else tuple(turns)
            for name, text in (("context", " ".join(turns)), ("response", response)):
                if not isinstance(text, str) or not text.strip():
                    raise DreError(f"the {name} of pair {pair_id} is {text!r}: expected text")
            contexts.append(tuple(plain_text(turn, special_tokens) for turn in turns))
            responses.append(plain_text(response, special_tokens))
        return pairs.assign(context=contexts, response=responses)

    def texts(self, pairs: pd.DataFrame) -> tuple[list[str], list[str]]:
        """Return context strings and response strings of `readable` pairs as they are encoded."""
        contexts = self.contexts(pairs["context"])
        return contexts, list(pairs["response"])

    def contexts(self, dialogues: Iterable[Sequence[str]]) -> list[str]:
        """Return the turns of each dialogue as one text, cut to the end that the encoder reads."""
        most_words = max(200, self.encoder.max_seq_length or 0)  # each has a token at least
        texts = [context_text(turns, self._separator, most_words) for turns in dialogues]
        return ends(self.encoder, texts)

    def context(self, turns: Sequence[str]) -> str:
        """Return the turns of one dialogue as a text, see `contexts`."""
        return self.contexts([turns])[0]

    @property
    def _separator(self) -> str:
        """What comes between two turns."""
        return getattr(self.encoder.tokenizer, "sep_token", None) or "\n"

    def cut(self, responses: Iterable[str]) -> np.ndarray:
        """Return whether each response has more tokens than the encoder reads, a bool array."""
        return lengths(self.encoder, list(responses)) > self.encoder.max_seq_length

    def cut_contexts(self, dialogues: Iterable[Sequence[str]]) -> np.ndarray:
        """Return whether each dialogue is longer than the encoder reads, a bool array."""
        dialogues = list(dialogues)
        whole = [context_text(turns, self._separator, sys.maxsize) for turns in dialogues]
        return np.array(self.contexts(dialogues)) != np.array(whole)

    def save(self, path: str | Path) -> None:
        """Write a folder with what `write` writes, and ``slm.json`` with the hash of each file.

        It is written whole or not at all. DreError if the folder exists, or cannot be written.
        """
        path = Path(path)
        if path.exists():
            raise DreError(f"{path} exists already: name another folder or delete it")
        # Another process that saves the same model has a folder of its own.
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.mkdir(parents=True)
            self.write(partial)
            description = {
                "format": FORMAT,
                "recipe": self.recipe.as_dict(),
                "provenance": self.provenance,
                "sha256": hashes_of_files(partial),
            }
            text = json.dumps(description, indent=1, sort_keys=True) + "\n"
            (partial / "slm.json").write_text(text, encoding="utf-8")
            os.replace(partial, path)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            problem = f"{path} cannot be written ({error})"
            raise DreError(f"{problem}: free space, and give the same command again") from error

    @classmethod
    def load(cls, path: str | Path) -> "SLM":
        """Read a saved SLM from a folder or the Hub (``owner/name``).

        DreError if it is missing, incomplete or damaged, or a file is not the one that was saved.
        """
        # The Hub's client, the file system, JSON, safetensors and torch raise errors of many
        # classes. All of them mean that the model cannot be used.
        try:
            if not Path(path).is_dir():
                patterns = ["*.json", "*.txt", "*.safetensors"]
                path = snapshot_download(str(path), allow_patterns=patterns)
            content = (Path(path) / "slm.json").read_bytes()
            description = json.loads(content)
            if description["format"] != FORMAT:
                raise ValueError(f"its format is {description['format']!r}: expected {FORMAT}")
            provenance = description["provenance"]
            recipe = TypeAdapter(recipes.Recipe).validate_python(description["recipe"])
            if recipe.name not in recipes.RECIPES:
                raise ValueError(f"recipe {recipe.name!r} is none of {', '.join(recipes.RECIPES)}")
            check_numbers(provenance)
            _check_files(Path(path), description.get("sha256", {}))
            slm = class_for(recipe).read(Path(path), recipe, provenance)
            for name, weights in slm.parts.state_dict().items():
                if not weights.sum().isfinite():  # quicker than to look at each of them
                    raise ValueError(f"weights {name} are not all finite numbers")
            slm.signature = hashlib.sha256(content).hexdigest()
            return slm
        except DreError:  # of the encoder, which a model may name
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise DreError(
                f"{path} is not an SLM, here or on the Hub, or it is damaged ({reason}): "
                "train it again, fetch it again, or name another one"
            ) from error

    @classmethod
    def read(cls, path: Path, recipe: recipes.Recipe, provenance: dict) -> Self:
        """Read the parts that `write` wrote into a folder."""
        encoder = load_encoder(str(path), recipe.max_seq_length)
        head = Head(encoder.get_embedding_dimension() or 0, recipe.sep)
        # Python reads the file, not safetensors.
        head.load_state_dict(load((path / "head.safetensors").read_bytes()))
        return cls(encoder.eval(), head.eval(), recipe, provenance)

    def write(self, path: Path) -> None:
        """Write encoder and head into a folder."""
        self.encoder.save_pretrained(str(path), create_model_card=False)
        save_model(self.head, str(path / "head.safetensors"))


def _check_files(folder, expected):
    """Raise ValueError if a file is missing, changed or more than those with an expected hash."""
    found = hashes_of_files(folder)
    names = sorted(found.keys() | expected.keys())
    if different := [name for name in names if found.get(name) != expected.get(name)]:
        raise ValueError(
            f"{different[0]} has not the hash that slm.json has of it; if an earlier version saved "
            "the model without hashes, train it again"
        )


def class_for(recipe: recipes.Recipe) -> type[SLM]:
    """Return the class of the models that a recipe trains."""
    # The module of `Ours` imports this one.
    return SLM if recipe.mixture is None else pkgutil.resolve_name("dre.slm.ours:Ours")
