"""``dre augment lexical | report | sheet``: augmentation without an LLM, and checks of any augmented set."""

from dre.errors import DreError

CONTEXTS = (
    "JSONL with id, context (turns), positive_responses, ...; or NAME:SPLIT such as dailydialog++-positives:train; or "
    "a public pool such as convai2-valid"
)


def register(subparsers):
    """Add the actions to ``dre augment``."""
    lexical = subparsers.add_parser(
        "lexical", help="retrieve negatives that share words with the context, without an LLM"
    )
    lexical.add_argument("contexts", help=CONTEXTS)
    lexical.add_argument("-o", "--output", required=True, metavar="FILE", help="contexts with their negatives: .jsonl")
    lexical.add_argument("--retrieved", metavar="FILE", help="write what was retrieved there: .csv")
    lexical.add_argument("-n", type=int, default=5, metavar="N", help="adversarial negatives a context (default: 5)")
    lexical.add_argument("--randoms", type=int, default=5, metavar="N", help="random negatives a context (default: 5)")
    lexical.add_argument("--method", choices=("bm25", "tfidf"), default="bm25", help="default: bm25")
    lexical.add_argument("--seed", type=int, default=0, metavar="S", help="of the random negatives (default: 0)")
    lexical.set_defaults(handler=run_lexical)
    report = subparsers.add_parser("report", help="overlap, give-aways, diversity and repeats of augmented sets")
    report.add_argument("contexts", nargs="+", help=CONTEXTS)
    report.add_argument("--slm", metavar="FOLDER", help="a trained SLM, for its accuracy")
    report.add_argument("--threshold", type=float, metavar="X", help="of Score_SLM, chosen on held-out contexts")
    report.add_argument("--at-most", type=int, default=1000, metavar="N", help="contexts of a set (default: 1000)")
    report.add_argument("-o", "--output", metavar="FILE", help="write the table there: .csv")
    report.set_defaults(handler=run_report)
    _register_sheet(subparsers)


def _register_sheet(subparsers):
    sheet = subparsers.add_parser("sheet", help="a sheet for people to check an augmented set on")
    steps = sheet.add_subparsers(dest="step", required=True, metavar="step")
    write = steps.add_parser("write", help="draw pairs and write the sheet and its key")
    write.add_argument("contexts", help=CONTEXTS)
    write.add_argument("-o", "--output", required=True, metavar="FILE", help="the sheet: .csv")
    write.add_argument("-n", type=int, default=100, metavar="N", help="pairs (default: 100)")
    write.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample and its order (default: 0)")
    write.set_defaults(handler=write_sheet)
    read = steps.add_parser("read", help="compare filled sheets with the design and with each other")
    read.add_argument("sheets", nargs="+", help="one file an annotator")
    read.add_argument("--key", required=True, metavar="FILE", help="the key that was written with the sheet")
    read.set_defaults(handler=read_sheets)


def run_lexical(args):
    """Retrieve, write, and say how many contexts have all they should."""
    from dre.augment import labelled, lexical

    found, retrieved = lexical.negatives(
        labelled.named(args.contexts), args.n, args.method, args.seed, args.randoms, progress=True
    )
    if args.retrieved:
        _write(args.retrieved, retrieved)
    print(f"{labelled.write(args.output, found):,} contexts written to {args.output}")
    short = sum(len(context.adversarials) < args.n for context in found)
    print(
        f"{len(retrieved):,} adversarial negatives; {short:,} contexts share words with fewer than {args.n} responses"
    )


def run_report(args):
    """Print the quality report, a line a measure, and write it if asked."""
    from dre.augment import labelled, quality

    if (args.slm is None) != (args.threshold is None):
        raise DreError("--slm and --threshold go together: the threshold belongs to the model")
    slm = None
    if args.slm:
        from dre.slm import SLM

        slm = SLM.load(args.slm)
    sets = {name: labelled.named(name) for name in args.contexts}
    table = quality.report(sets, slm=slm, threshold=args.threshold, at_most=args.at_most)
    if args.output:
        _write(args.output, table)
    for _, row in table.iterrows():
        print(f"{row['set']}: {row['contexts']:,} contexts, {row['measured']:,} measured")
        for measure in quality.MEASURES:
            low, high = row[f"{measure}_low"], row[f"{measure}_high"]
            if row[measure] == row[measure]:
                print(f"  {measure.replace('_', ' '):<22} {row[measure]:6.1f} %  [{low:.1f}, {high:.1f}]")


def write_sheet(args):
    """Write a sheet and its key."""
    from dre.augment import labelled, sheet

    key = sheet.write(labelled.named(args.contexts), args.output, args.n, args.seed)
    print(f"{args.n} pairs to answer with yes or no in column fits: {args.output}; keep the key apart: {key}")


def read_sheets(args):
    """Print accuracy against the design and agreement between annotators."""
    from dre.augment import sheet

    _, summary = sheet.read(args.sheets, args.key)
    for row in summary.itertuples():
        print(f"{row.annotator}: {row.measure} {row.value:.2f} [{row.low:.2f}, {row.high:.2f}] (n = {row.n})")


def _write(path, table):
    from dre.judges.files import write_atomically

    write_atomically(path, table.to_csv(index=False, lineterminator="\n").removesuffix("\n").split("\n"))
