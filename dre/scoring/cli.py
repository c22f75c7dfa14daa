"""``dre score``."""


def register(subparsers):
    """Add the ``score`` command."""
    score = subparsers.add_parser(
        "score",
        help="score the responses of your own dialogue systems",
        description="Score pairs of context and response: JSON Lines, CSV or Parquet in and out, by the names' "
        "endings. Run the same command again after an interruption: it goes on where it stopped.",
    )
    add = score.add_argument
    add("input", help="context (turns), response, and if there are any: id, system, reference")
    add("-o", "--output", required=True, metavar="FILE", help="write the scores there: .csv, .jsonl or .parquet")
    add("--slm", metavar="NAME", help="a folder, a Hub id, or the beginning of a model trained by `make paper`")
    add("--judge", metavar="PROVIDER:MODEL", help="openai, anthropic, gemini, ollama, or recorded:NAME")
    add("--method", default="slm", help="slm (default), slide, ex_dre, in_dre, dre, calibrated or non_dre")
    add("--prompt", metavar="NAME|FILE", help="ask the judge with another prompt than the method's own")
    add("--accuracies", metavar="SLM,LLM", help="in [0, 1]; the prompt of in_dre and dre states them")
    add("--fusion", metavar="FILE", help="of method calibrated: what dre calibrate wrote")
    add("--field", action="append", default=[], metavar="NAME=COLUMN", help="context=history: what a field is called")
    add("--skip-bad", action="store_true", help="write records that cannot be scored to <output>.bad.jsonl, and go on")
    add("--base-url", metavar="URL", help="of the judge: another server that speaks the provider's protocol")
    add("--key-env", metavar="NAME", help="environment variable that holds the judge's key")
    add("--store", help="file of the judgement store")
    add("--max-usd", type=float, metavar="X", help="stop before the judge costs more dollars")
    add("--concurrency", type=int, metavar="N", help="calls to the judge in flight (default: 16)")
    add("--bf16", action="store_true", help="embed in bfloat16: faster where the hardware has it, and less exact")
    add("--engine", choices=("local", "ray"), default="local", help="ray: every core or GPU of a machine or cluster")
    add("--workers", type=int, metavar="N", help="of Ray (default: one a GPU, else one a core)")
    score.set_defaults(handler=_score)

    calibrate = subparsers.add_parser(
        "calibrate",
        help="learn a fusion of your SLM and judge from people's ratings",
        description="Learn how much SLM and judge count from pairs that people have rated, so that in a bad case the "
        "fusion loses as little as possible against the better of the two; use it with dre score --method calibrated "
        "--fusion FILE.",
    )
    add = calibrate.add_argument
    add(
        "--set",
        dest="sets",
        action="append",
        required=True,
        nargs=2,
        metavar=("RATED", "SCORES"),
        help="a file of rated pairs, and what dre score --method ex_dre made of it; give two or more sets if you can",
    )
    add("-o", "--output", required=True, metavar="FILE", help="write the fusion there (.json)")
    add("--human", default="human", metavar="COLUMN", help="what the rated files call the rating (default: human)")
    add("--field", action="append", default=[], metavar="NAME=COLUMN", help="context=history: what a field is called")
    calibrate.set_defaults(handler=_calibrate)


def _calibrate(args):
    from dre.scoring.commands import calibrate

    return calibrate(args)


def _score(args):
    from dre.scoring.commands import score

    return score(args)
