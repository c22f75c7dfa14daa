"""The reference-based and trained metrics of Table 4: from a table of pairs to one keyed by pair_id.

Columns are named as the rows of Table 4. G-EVAL and LLM-Chiang are prompts and live with the judges.
"""

from dre.baselines.generative import bartscore, unieval
from dre.baselines.overlap import bleu, length, meteor, rouge
from dre.baselines.provenance import signatures
from dre.baselines.vectors import bertscore, embedding

__all__ = [
    "bartscore",
    "bertscore",
    "bleu",
    "embedding",
    "length",
    "meteor",
    "rouge",
    "signatures",
    "unieval",
]
