"""Judges: score pairs with any language model, pay for no reply twice, replay what was recorded.

A pair goes through `prompts` (messages), `providers` (a call), `store` (the reply, committed), `parse` (its verdict)
and `judge` (the table); `recorded` gives the same table without a call.
"""


def open(spec, **options):
    """Return a judge: anything with ``score(pairs, prompt, retry=(), first=0, ask=True, examples=None) -> table``.

    `spec` is ``openai:<model>``, ``anthropic:<model>``, ``gemini:<model>``, ``ollama:<model>``, or ``recorded:<name>``
    (a folder of ``data/recorded``, or the path of one). Options are those of `dre.judges.judge.Judge`; a recording
    takes ``repeat`` and ``repeats`` of them. DreError if there is no such judge, or no price for a ceiling.
    """
    if spec.startswith("recorded:"):
        from dre.judges.recorded import Recorded

        taken = {name: options[name] for name in ("repeat", "repeats") if name in options}
        return Recorded(spec.removeprefix("recorded:"), **taken)
    from dre.judges.judge import Judge

    return Judge(spec, **options)
