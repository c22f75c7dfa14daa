"""One line that says where a score comes from, to be printed beside it."""

from dre.scoring.scorer import DIGITS


def parts(scorer, data=None):
    """Return what decides a score: name -> value, in the order of the line.

    Parameters
    ----------
    scorer : dre.scoring.scorer.Scorer
    data : str, optional
        Sha256 of what was scored.
    """
    from dre.slm.provenance import versions

    settings, found = scorer.settings, {"dre": scorer.settings.method}
    if scorer.slm is not None:
        about = scorer.slm.provenance
        found["model"] = about.get("fingerprint", "unknown")[:12]
        found |= {"recipe": scorer.slm.recipe.name, "seed": about.get("seed", "unknown")}
        found["encoder"] = str(about.get("encoder", "unknown")).rstrip("/").rsplit("/", 1)[-1]
        if settings.bf16:
            found["precision"] = "bf16"
    if scorer.judge is not None:
        found |= {"judge": settings.judge, "prompt": scorer.judge.prompt_sha256[:12]}
        if settings.accuracies:
            found["accuracies"] = ",".join(f"{value:.{DIGITS}g}" for value in settings.accuracies)
    if scorer.fusion is not None:
        found["fusion"] = scorer.fusion.sha256[:12]
    if data:
        found["data"] = data[:12]
    names = {"dre": "version", "torch": "torch", "sentence-transformers": "st", "transformers": "tf"}
    installed = versions()
    return found | {short: installed[package] for package, short in names.items()}
