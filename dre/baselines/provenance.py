"""What a baseline's number was computed with, to be printed beside it."""

from importlib.metadata import version

from dre.baselines.generative import BARTSCORE_MODEL, UNIEVAL_MODEL
from dre.baselines.overlap import METEOR, ROUGE
from dre.baselines.vectors import EMBEDDING


def signatures(encoder="minilm", layer=-1, bart=BARTSCORE_MODEL, direction="f", t5=UNIEVAL_MODEL):
    """Row name -> implementation, version, settings; arguments as the metrics were called with."""
    versions = {name: f"{name} {version(name)}" for name in ("sacrebleu", "rouge-score", "nltk", "transformers")}
    bleu = f"{versions['sacrebleu']}, sentence level, case:lc, eff:yes, tok:13a, smooth:exp, order "
    table = {f"BLEU-{n}": bleu + str(n) for n in (1, 2, 3, 4)}
    table |= {name: f"{versions['rouge-score']}, F-measure, no stemming" for name in ROUGE}
    table[METEOR] = f"{versions['nltk']}, exact and stem (Porter), no synonyms, alpha 0.9, beta 3, gamma 0.5"
    table |= {name: f"{versions['transformers']}, input word-piece embeddings of {encoder}" for name in EMBEDDING}
    table["BERTScore"] = f"{versions['transformers']}, F1, {encoder}, layer {layer}, no idf, no rescaling"
    table["BARTScore"] = f"{versions['transformers']}, {bart}, {direction}"
    table["UniEval"] = f"{versions['transformers']}, {t5}, mean of the dimensions"
    table["Response length"] = f"{versions['sacrebleu']}, number of tokens, tok:13a"
    return table
