"""The model card of a saved SLM: ``README.md`` with the front matter the Hugging Face Hub reads."""

import re

from dre.slm.encoder import HUB_NAMES

#: what a model was trained to tell apart, without a mixture and with one
TOLD_APART = (
    "It was trained to tell fitting replies from replies that borrow the context's words; replies that have nothing to "
    "do with the context were no part of the training, and many of them are not rejected.",
    "It was trained to tell fitting replies from replies that borrow the context's words and from replies to other "
    "conversations; what makes a fitting reply a good one it knows only from a judge's scores of a few pairs.",
)
LIMITS = (
    "It reads at most {tokens} tokens of a text: of a context the last ones, of a response the first.",
    "Scores of two models, or of two recipes, are not on one scale: d_min and d_max are those of each one's training "
    "data, and a pair outside that range gets an s_d outside [0, 1].",
    "The texts it was trained on are in English. A score says nothing about facts, safety or offence.",
    "Use is bound by the licences of its training data and of its encoder.",
)


def card(recipe, provenance):
    """Return the text of the model card.

    Parameters
    ----------
    recipe : dre.slm.recipes.Recipe
    provenance : dict
        Of an `SLM`; what it does not hold is said to be unknown, or left out.

    Returns
    -------
    str
        YAML front matter and Markdown.
    """
    parts = [_front(provenance), _use(recipe), _training(recipe, provenance), _measured(provenance), _limits(recipe)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _front(provenance):
    from huggingface_hub import ModelCardData

    encoder = provenance.get("encoder", "")
    encoder = HUB_NAMES.get(encoder, encoder)
    data = ModelCardData(
        language="en",
        library_name="sentence-transformers",
        pipeline_tag="text-classification",
        tags=["dialogue", "dialogue-evaluation", "response-scoring", "dre"],
        base_model=encoder if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+|[\w-]+", encoder) else None,
    )
    return f"---\n{data.to_yaml()}\n---"


def _use(recipe):
    head = "separates robust from non-robust features" if recipe.disentangled else "classifies pairs"
    if recipe.head == "interaction":
        head = "reads products and differences of the two embeddings, trained so that the context counts"
    return f"""# A small model (SLM) that scores responses in a dialogue

An SLM after *DRE: An Effective Dual-Refined Method for Integrating Small and Large Language Models in Open-Domain
Dialogue Evaluation*: an encoder with a head that {head}.
For a context and a response it gives `s_d` (normalised cosine distance), `s_p` (probability that the response fits) and
`score_slm` = 1 - s_d + s_p, about 0 to 2; higher is better.

```python
from dre import DRE

metric = DRE.load("path/or/hub-id")
metric.score([["Do you like tea?"]], ["Only with milk."])
```

The encoder alone loads as an ordinary Sentence-Transformers model; the head is in `head.safetensors`, recipe and
provenance are in `slm.json`."""


def _training(recipe, provenance):
    counts = provenance.get("contexts", {})
    sets = ", ".join(f"{name} ({count:,} contexts)" for name, count in provenance.get("sets", {}).items())
    epochs = ", ".join(f"{stage.name} {stage.epochs}" for stage in recipe.stages)
    versions = ", ".join(f"{name} {version}" for name, version in provenance.get("versions", {}).items())
    rows = {
        "training data": sets or f"{counts.get('train', 'an unknown number of')} contexts",
        "sha256 of the training data": provenance.get("train_hash"),
        "sha256 of the held-out data": provenance.get("dev_hash"),
        "learned from beside them": _beside(provenance.get("beside")),
        "recipe": f"`{recipe.name}` (sep: {recipe.sep}; epochs: {epochs}; learning rate {recipe.learning_rate:g})",
        "encoder": str(provenance.get("encoder", "unknown")).rstrip("/").rsplit("/", 1)[-1],
        "seed": provenance.get("seed"),
        "bf16 in training": provenance.get("bf16"),
        "fingerprint": provenance.get("fingerprint"),
        "d_min, d_max (Eq. 18)": f"{provenance['d_min']:.6f}, {provenance['d_max']:.6f}"
        if "d_min" in provenance
        else None,
        "threshold on score_slm": provenance.get("threshold"),
        "versions": versions,
    }
    return "## Training\n\n" + _table(
        ("", ""), [(name, value) for name, value in rows.items() if value not in (None, "")]
    )


def _beside(found):
    return found and f"{found['dialogues']:,} dialogues, {found['graded']:,} pairs with a judge's score"


def _measured(provenance):
    """Accuracy and the last epoch of the curves, as far as they are stored."""
    curves = provenance.get("curves", [])
    last = {point["split"]: point for point in curves}  # in the order of training, so the last one stays
    names = ("contrastive_loss", "triplet_accuracy", "classification_loss", "classification_accuracy")
    rows = [(split, point["epoch"], *(f"{point[name]:.4f}" for name in names)) for split, point in last.items()]
    parts = []
    if provenance.get("accuracy") is not None:
        accuracy = f"{provenance['accuracy']:.4f}"
        parts.append(f"Accuracy at the threshold, on contexts that took no part in training or choice: {accuracy}.")
    if rows:
        parts.append(_table(("after the last epoch", "epoch", *(name.replace("_", " ") for name in names)), rows))
    return "## Measured\n\n" + "\n\n".join(parts) if parts else ""


def _limits(recipe):
    limits = [TOLD_APART[recipe.mixture is not None], *LIMITS]
    return "## Limits\n\n" + "\n".join(f"- {limit.format(tokens=recipe.max_seq_length)}" for limit in limits)


def _table(head, rows):
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
