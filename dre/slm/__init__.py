"""The small language model: encoder, disentangling head, losses, training and scoring (Eq. 9-19)."""

__all__ = ["SLM", "fit"]


def __getattr__(name):
    # torch and Sentence-Transformers load only when one of these is asked for.
    if name == "SLM":
        from dre.slm.model import SLM

        return SLM
    if name == "fit":
        from dre.slm.training import fit

        return fit
    raise AttributeError(f"module 'dre.slm' has no attribute {name!r}")
