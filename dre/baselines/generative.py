"""Metrics that ask a sequence-to-sequence model: BARTScore and UniEval. The user provides the weights."""

import re

import numpy as np
import pandas as pd

from dre.baselines.texts import batches, clean, score_pairs
from dre.errors import DreError

BARTSCORE_MODEL = "facebook/bart-large-cnn"
UNIEVAL_MODEL = "MingZhong/unieval-dialog"
DIRECTIONS = ("f", "precision", "recall", "context")
#: what UniEval shows the model for each of its five dimensions of a dialogue response, beside the response
DIMENSIONS = {
    "naturalness": (),
    "coherence": ("dialogue history",),
    "engagingness": ("dialogue history", "fact"),
    "groundedness": ("fact",),
    "understandability": (),
}


def bartscore(table, model=BARTSCORE_MODEL, direction="f", batch_size=8, device=None):
    """BARTScore (Yuan et al. 2021): mean log-likelihood a token, special tokens too (as the authors do).

    Parameters
    ----------
    table : DataFrame with pair_id, response and reference (str or None) or context (tuple of turns)
    model : str, Hub id or folder of an encoder-decoder, or a (tokenizer, model) pair
    direction : "f", "precision", "recall" or "context"
        log p(response | reference) is precision, log p(reference | response) recall, f their mean;
        log p(response | context) needs no reference.

    Returns
    -------
    DataFrame : pair_id, BARTScore in (-inf, 0], reason
    """
    if direction not in DIRECTIONS:
        raise DreError(f"direction is {direction!r}; choose among {', '.join(DIRECTIONS)}")
    tokenizer, network = _seq2seq(model, device, "BARTScore")
    ways = {"f": ("precision", "recall")}.get(direction, (direction,))
    if direction == "context":
        if "context" not in table:
            raise DreError("BARTScore with direction='context' needs the column 'context' (a tuple of turns)")
        table = table.assign(reference=["\n".join(turns) for turns in table["context"]])

    def score(responses, references):
        values = []
        for way in ways:
            given = (responses, references) if way == "recall" else (references, responses)
            values.append(log_likelihood(*given, tokenizer, network, batch_size))
        return np.mean(values, axis=0)[:, None]

    return score_pairs(table, ["BARTScore"], score)


def log_likelihood(sources, targets, tokenizer, network, batch_size=8):
    """Mean log-probability a target token given its source, shape (n,)."""
    import torch

    out = np.empty(len(sources))
    for batch in batches([s + t for s, t in zip(sources, targets)], batch_size):
        source, target = (_encode([texts[i] for i in batch], tokenizer, network) for texts in (sources, targets))
        with torch.inference_mode():
            logits = network(**source, labels=target["input_ids"]).logits
        chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, target["input_ids"][..., None])[..., 0]
        mask = target["attention_mask"]
        out[batch] = ((chosen * mask).sum(dim=1) / mask.sum(dim=1)).cpu().numpy()
    return out


def unieval(table, questions, model=UNIEVAL_MODEL, batch_size=8, device=None):
    """UniEval for dialogue responses (Zhong et al. 2022): p(yes) / (p(yes) + p(no)) of a T5, five questions.

    Engagingness is summed over the response's sentences, as in the authors' code; sentences end at . ! or ?
    followed by a space. A response without facts has neither engagingness nor groundedness, and ``UniEval``
    is then the mean of the other three; ``reason`` says so.

    Parameters
    ----------
    table : DataFrame with pair_id, response, context (tuple of turns) and, where known, facts (str)
    questions : dict of dimension -> question
        In the exact wording the checkpoint was trained with, e.g. {"naturalness": "Is this ...?"}: see
        function add_question in utils.py of the repository maszhongming/UniEval.
    model : str, Hub id or folder, or a (tokenizer, model) pair

    Returns
    -------
    DataFrame : pair_id, UniEval (mean of the dimensions), naturalness, coherence, engagingness, groundedness,
    understandability, reason
    """
    if set(questions) != set(DIMENSIONS):
        raise DreError(f"questions has {sorted(questions)}; UniEval needs one for each of {sorted(DIMENSIONS)}")
    absent = [name for name in ("pair_id", "response", "context") if name not in table]
    if absent:
        raise DreError(f"UniEval needs the column {absent[0]!r}; the table has {', '.join(map(str, table.columns))}")
    tokenizer, network = _seq2seq(model, device, "UniEval")
    facts = table["facts"] if "facts" in table else [None] * len(table)
    rows, prompts = [], []
    for response, turns, fact in zip(table["response"], table["context"], facts):
        rows.append(_unieval_prompts(clean(response), "\n".join(turns), clean(fact), questions))
        prompts += [prompt for group in rows[-1].values() for prompt in group]
    prompts = list(dict.fromkeys(prompts))
    yes = dict(zip(prompts, probability_of_yes(prompts, tokenizer, network, batch_size)))
    scored = [{name: sum(yes[p] for p in group) for name, group in row.items()} for row in rows]
    out = pd.DataFrame(scored, columns=list(DIMENSIONS), index=table.index, dtype=float)
    out.insert(0, "UniEval", out.mean(axis=1))
    out.insert(0, "pair_id", table["pair_id"])
    reasons = {0: "empty response", 3: "no facts: mean of three dimensions", 5: ""}
    return out.assign(reason=[reasons[len(row)] for row in rows]).reset_index(drop=True)


def probability_of_yes(prompts, tokenizer, network, batch_size=8):
    """p(Yes) / (p(Yes) + p(No)) as the first token of the answer, shape (n,)."""
    import torch

    answers = torch.tensor([tokenizer(word)["input_ids"][0] for word in ("Yes", "No")])
    out = np.empty(len(prompts))
    for batch in batches(prompts, batch_size):
        source = _encode([prompts[i] for i in batch], tokenizer, network)
        start = torch.full((len(batch), 1), network.config.decoder_start_token_id, device=network.device)
        with torch.inference_mode():
            logits = network(**source, decoder_input_ids=start).logits[:, 0, answers].float()
        out[batch] = torch.softmax(logits, dim=-1)[:, 0].cpu().numpy()
    return out


def _unieval_prompts(response, history, fact, questions):
    """Dimension -> prompts for one response; engagingness has one a sentence."""
    if response is None:
        return {}
    shown = {"dialogue history": history, "fact": fact}
    prompts = {}
    for name, parts in DIMENSIONS.items():
        if "fact" in parts and fact is None:
            continue
        pieces = re.split(r"(?<=[.!?])\s+", response) if name == "engagingness" else [response]
        rest = "".join(f" </s> {part}: {shown[part]}" for part in parts)
        prompts[name] = [f"question: {questions[name]} </s> response: {piece}{rest}" for piece in pieces]
    return prompts


def _encode(texts, tokenizer, network):
    options = {"padding": True, "truncation": True, "max_length": 1024, "return_tensors": "pt"}
    inputs = tokenizer(texts, **options).to(network.device)
    return {name: inputs[name] for name in ("input_ids", "attention_mask")}


def _seq2seq(model, device, metric):
    """Tokenizer and network from a Hub id, a folder, or a pair of both; on the GPU where there is one."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not isinstance(model, str):
        tokenizer, network = model
        return tokenizer, network.to(device).eval()
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = AutoModelForSeq2SeqLM.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise DreError(
            f"{metric} needs the weights of {model!r}, which are neither a folder here nor could be fetched; "
            "give model= a folder with them, or allow access to the Hugging Face Hub"
        ) from error
    return tokenizer, network.to(device).eval()
