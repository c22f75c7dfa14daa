"""Judges: score pairs with any language model, lose no reply, replay for free."""


def open(spec, **options):
    """Return a judge.

    Parameters
    ----------
    spec : str
        ``openai:<model>``, ``anthropic:<model>``, ``gemini:<model>``, ``ollama:<model>``, ``files:<model>``
        (asked through files), or ``recorded:<name>`` (answers from a recording only).
    **options
        Of `dre.judges.judge.Judge`: ``store``, ``base_url``, ``mode``, ``repeats``, ``max_usd``, ``concurrency``, ...
        What only says how to ask is of no use to a recording, and ignored.

    Returns
    -------
    judge
        ``judge.score(pairs, prompt="llm_only")`` gives one table for all of them.
    """
    if spec.startswith("recorded:"):
        from dre.judges.replay import Recorded

        asking = {"store", "base_url", "key_env", "price", "max_usd", "policy", "concurrency"}
        return Recorded(spec.removeprefix("recorded:"), **{k: v for k, v in options.items() if k not in asking})
    from dre.judges.judge import Judge

    return Judge(spec, **options)
