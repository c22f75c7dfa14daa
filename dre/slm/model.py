"""A trained SLM: scoring (Eq. 17-19), saving, loading."""

import json
import os
import shutil
import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from dre.errors import DreError
from dre.slm import hub, losses, recipes
from dre.slm.card import card
from dre.slm.encoder import check_text, context_text, keep_end, load_encoder
from dre.slm.head import Head
from dre.slm.precision import native_bf16
from dre.slm.recipes import Recipe


class SLM:
    """Encoder plus head, with the range of distances it saw in training.

    Parameters
    ----------
    model : SentenceTransformer
        Transformer, pooling, :class:`Head`.
    recipe : Recipe
    provenance : dict
        Data hash, seed, encoder, versions, curves; after :meth:`calibrate` also ``d_min`` and ``d_max``.
    """

    def __init__(self, model, recipe, provenance=None):
        self.model, self.recipe, self.provenance = model, recipe, dict(provenance or {})
        self.folder = None  # where it was saved, or loaded from
        self.bf16 = False  # whether to embed in bfloat16, where the hardware multiplies that itself; see :meth:`faster`

    @classmethod
    def untrained(cls, encoder="minilm", recipe=None, device=None):
        """Return an encoder before any training as an SLM, with a fresh head.

        Parameters
        ----------
        encoder : str
            See :func:`dre.slm.encoder.load_encoder`.
        recipe : Recipe, optional
            Default: one without disentanglement, so that :meth:`distances` are those of the encoder itself.
        device : str, optional
            As PyTorch names it; default: a GPU if there is one.

        Returns
        -------
        SLM

        Raises
        ------
        DreError
            If there is no such encoder.
        """
        recipe = recipe or recipes.get("paper", disentangled=False)
        base = load_encoder(encoder, recipe.max_seq_length, device)
        head = Head(base.get_embedding_dimension(), recipe.sep, recipe.head)
        return cls(SentenceTransformer(modules=[*base, head], device=base.device), recipe)

    @property
    def head(self):
        """The :class:`Head` behind the encoder."""
        return self.model[-1]

    def encode(self, texts, batch_size=64, progress=False, cache=None):
        """Embed each distinct text once; returns {"sentence_embedding", "anchor", "robust", "non_robust"} of (n, d)
        float32 tensors in the order of ``texts`` (``non_robust`` is None without sep).

        ``cache``, with ``find(texts)`` -> {text: (d,) tensor} and ``keep(texts, (n, d) tensor)``, remembers
        embeddings from call to call; see :class:`dre.scoring.cache.Embeddings`.
        """
        distinct = list(dict.fromkeys(texts))
        with self._without_dropout(), torch.no_grad():
            whole = self._embed(distinct, batch_size, progress, cache)
            row = {text: i for i, text in enumerate(distinct)}
            parts = (whole, *self.head.separate(whole))
            index = torch.tensor([row[text] for text in texts], device=whole.device)
            names = ("sentence_embedding", "anchor", "robust", "non_robust")
            return {name: None if part is None else part[index] for name, part in zip(names, parts)}

    @contextmanager
    def _without_dropout(self):
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(was_training)

    def _embed(self, texts, batch_size, progress, cache):
        """(n, d) embeddings of distinct texts; those the cache knows are not encoded."""
        encoder = SentenceTransformer(modules=list(self.model)[:-1], device=self.model.device)
        known = cache.find(texts) if cache is not None else {}
        new = [text for text in texts if text not in known]
        if new:
            # not enabled=self.bf16: False would end an autocast that the caller has begun
            with torch.autocast(self.model.device.type, torch.bfloat16) if self.bf16 else nullcontext():
                found = encoder.encode(new, batch_size=batch_size, convert_to_tensor=True, show_progress_bar=progress)
            found = found.float().to(self.model.device)
            if cache is not None:
                cache.keep(new, found)
            if not known:
                return found
            known |= dict(zip(new, found))
        return torch.stack([known[text].to(self.model.device) for text in texts])

    def distances(self, pairs, batch_size=64, progress=False, cache=None):
        """Columns ``pair_id, distance, s_p`` for a table of pairs: what Eq. 18 needs before normalisation."""
        contexts, responses = self.texts(pairs)
        n = len(pairs)
        h = self.encode(contexts + responses, batch_size, progress, cache)
        h_c, h_r = h["anchor"][:n], h["robust"][n:]
        with self._without_dropout(), torch.no_grad():
            d = losses.distance(h_c, h_r)
            p = torch.softmax(self.head.logits(h_c, h_r), dim=-1)[:, losses.POSITIVE]
        return pd.DataFrame(
            {
                "pair_id": list(pairs["pair_id"]),
                "distance": d.double().cpu().numpy(),
                "s_p": p.double().cpu().numpy(),
            }
        )

    def score(self, pairs, batch_size=64, progress=False, cache=None):
        """Score pairs, Eq. 17-19.

        d_min and d_max are those of the training data, stored with the model, so a pair's score does not depend on
        which other pairs are in the call (beyond rounding of about 1e-6). A pair farther or nearer than any training
        pair gets an s_d outside [0, 1].

        Parameters
        ----------
        pairs : DataFrame
            ``pair_id``, ``context`` (sequence of turns, oldest first), ``response``.
        cache : optional
            See :meth:`encode`.

        Returns
        -------
        DataFrame
            ``pair_id, distance`` (cosine distance, [0, 2]), ``s_d`` (normalised distance), ``s_p`` (probability of
            being positive), ``score_slm`` = 1 - s_d + s_p, about [0, 2]; one row a pair, in the order of ``pairs``.

        Raises
        ------
        DreError
            On an empty or non-string text, a missing column, or a model that was never calibrated.
        """
        if "d_min" not in self.provenance:
            raise DreError("this SLM has no d_min and d_max: call calibrate(training contexts) before scoring")
        low, high = self.provenance["d_min"], self.provenance["d_max"]
        table = self.distances(pairs, batch_size, progress, cache)
        table.insert(2, "s_d", (table["distance"] - low) / (high - low))
        table["score_slm"] = 1 - table["s_d"] + table["s_p"]
        return table

    def faster(self):
        """Embed in bfloat16 from now on: faster where the hardware multiplies it itself, and less exact.

        Raises
        ------
        DreError
            Where the hardware does not.
        """
        if not native_bf16():
            raise DreError("this machine does not multiply bfloat16 itself, so it would be slower: leave bf16 out")
        self.bf16 = True

    def calibrate(self, contexts):
        """Store d_min and d_max of Eq. 18 from the positive and adversarial pairs of training contexts (reading 6)."""
        from dre.data import pairs

        d = self.distances(pairs(contexts, kinds="pa"))["distance"].to_numpy()
        if not np.isfinite(d).all() or d.min() == d.max():
            raise DreError("the training distances are constant or not finite: the training has diverged")
        sets = Counter(f"{context.set} {context.split}" for context in contexts)
        self.provenance |= {"d_min": float(d.min()), "d_max": float(d.max()), "sets": dict(sets)}

    def set_threshold(self, threshold, accuracy=None):
        """Store the score_slm from which on a response counts as accepted; `save` keeps it with the model.

        Parameters
        ----------
        threshold : float
            Chosen on held-out contexts, by :func:`dre.classification.choose_threshold` for one.
        accuracy : float, optional
            Share of right decisions at it, in [0, 1], on positive and adversarial responses to contexts that took part
            neither in training nor in its choice; the model card states it.
        """
        if not np.isfinite(threshold) or not (accuracy is None or 0 <= accuracy <= 1):
            raise DreError(f"threshold {threshold}, accuracy {accuracy}: expected a number, and one in [0, 1] or None")
        self.provenance |= {"threshold": float(threshold), "accuracy": None if accuracy is None else float(accuracy)}

    def texts(self, pairs):
        """Check a table of pairs and return (context strings, response strings)."""
        missing = {"pair_id", "context", "response"} - set(pairs.columns)
        if missing:
            raise DreError(
                f"the pairs lack the column(s) {', '.join(sorted(missing))}: expected pair_id, context, response"
            )
        contexts, responses, long = [], [], 0
        for pair_id, turns, response in zip(pairs["pair_id"], pairs["context"], pairs["response"]):
            turns = (turns,) if isinstance(turns, str) else turns
            if not hasattr(turns, "__iter__"):
                raise DreError(
                    f"the context of pair {pair_id} is of type {type(turns).__name__}: expected a list of turns"
                )
            for turn in turns:
                if not isinstance(turn, str):
                    raise DreError(f"a turn of pair {pair_id} is of type {type(turn).__name__}: expected a string")
            contexts.append(check_text(self.context(turns), f"the context of pair {pair_id}"))
            responses.append(check_text(response, f"the response of pair {pair_id}"))
            long += len(response.split()) > self.model.max_seq_length
        if long:
            warnings.warn(
                f"{long} response(s) have more than {self.model.max_seq_length} words: only the first "
                f"{self.model.max_seq_length} tokens are read",
                stacklevel=3,
            )
        return contexts, responses

    def context(self, turns):
        """Return the turns of a dialogue as the one text that is encoded; of a long one the end."""
        return keep_end(context_text(turns, self.separator()), self.model)

    def separator(self):
        """Return the token between turns: the encoder's separator, or a line break where it has none."""
        return getattr(self.model.tokenizer, "sep_token", None) or "\n"

    def save(self, path):
        """Write the SLM to a folder: the encoder as an ordinary Sentence-Transformers model, ``head.safetensors``
        ``slm.json`` and a model card beside it. The folder appears only when it is complete; there is no pickle in it.
        """
        path = Path(path)
        if path.exists():
            raise DreError(f"{path} exists already: name another folder or delete it")
        partial = path.with_name(path.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        SentenceTransformer(modules=list(self.model)[:-1]).save_pretrained(str(partial), create_model_card=False)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.head.state_dict().items()}
        save_file(weights, partial / "head.safetensors")
        self._describe(partial)
        os.replace(partial, path)
        self.folder = path

    def restate(self):
        """Write ``slm.json`` and the model card anew where this SLM was saved: with the threshold set since, say."""
        if self.folder is None:
            raise DreError("this SLM lies in no folder yet: save(path) first")
        self._describe(self.folder)

    def _describe(self, folder):
        about = {"format": 1, "recipe": self.recipe.as_dict(), "provenance": self.provenance}
        texts = {
            "slm.json": json.dumps(about, indent=1, sort_keys=True) + "\n",
            "README.md": card(self.recipe, self.provenance),
        }
        for name, text in texts.items():
            partial = folder / f"{name}.partial"
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, folder / name)

    @classmethod
    def load(cls, path, device=None):
        """Read a saved SLM.

        Parameters
        ----------
        path : str or path
            A folder, or the Hub id (``owner/name``) of one that was uploaded.

        Raises
        ------
        DreError
            When the folder is missing, incomplete or damaged, or cannot be fetched.
        """
        path = Path(path) if Path(path).is_dir() else hub.fetch(str(path))
        try:
            about = json.loads((path / "slm.json").read_text())
            recipe = Recipe.from_dict(about["recipe"])
            weights = load_file(path / "head.safetensors")
        except FileNotFoundError as error:
            raise DreError(f"{path} is no saved SLM: {Path(error.filename or '').name or error} is missing") from error
        except (json.JSONDecodeError, KeyError, TypeError, SafetensorError) as error:
            raise DreError(f"{path} is a damaged SLM ({error}): train or download it again") from error
        base = load_encoder(str(path), recipe.max_seq_length, device)
        head = Head(base.get_embedding_dimension(), recipe.sep, recipe.head)
        try:
            head.load_state_dict(weights)
        except RuntimeError as error:
            raise DreError(f"{path}: head.safetensors does not fit the recipe {recipe.name} ({error})") from error
        model = SentenceTransformer(modules=[*base, head], device=device)
        model.eval()
        slm = cls(model, recipe, about["provenance"])
        slm.folder = path
        return slm
