"""``dre judge compare``: what is known of a judge, on one page."""

import sys

import pandas as pd

from dre.audit import judge_agreement as trial
from dre.audit import kinds, scorers
from dre.audit import measures as audit
from dre.commands import audit as audit_cli
from dre.commands.outputs import check_output, own_output
from dre.datasets import readers
from dre.datasets.readers import rating
from dre.errors import DreError
from dre.files import replace
from dre.tables import Table

HEADERS = {
    "within": "Within systems",
    "machine": "Machine replies",
    "difference": "Less the judge asked",
}
HEADERS |= {"pairs": "Pairs to show 0.05"}


def run(args, judge):
    """Print a judge's row beside the recorded judges', and the rest of its passport; 1 if not all pairs were scored."""
    if args.output:
        check_output(args.output, (".csv",), *filter(None, [args.rated]))
        own_output(args.output, force=args.force)
    if args.rated and args.sets:
        raise DreError("--sets are public rated pairs, --rated are your own: give one of them")
    sets = args.sets.split(",") if args.sets else trial.SETS
    asked = trial.samples(sets, args.n, args.seed, rated(args.rated) if args.rated else None)
    cases, pairs = kinds.tables(kinds.corpus()) if args.audit else (None, None)
    if not args.judge.startswith("recorded:"):
        texts = pd.concat([*asked.values(), *([pairs] if args.audit else [])], ignore_index=True)
        print(f"each asked once:\n{judge.estimate(texts, args.prompt)}", file=sys.stderr)
    table, did = trial.compare(judge, asked, args.repeats or 2, args.seed, args.prompt)
    caption = f"Spearman with people, mean of {', '.join(asked)}: {did['pairs']} pairs, 95 % over contexts"
    headers = {name: text for name, text in HEADERS.items() if name in table}
    shown = Table(table, "compare", caption, headers=headers, digits={"pairs": 0})
    found = {"judge": judge.signature, "agreement": table.to_dict("records")} | did
    if args.audit:
        rows = audit.preferred(cases, scorers.by_judge(judge, pairs, args.prompt)[0])
        found["audit"] = rows.to_dict("records")
    if args.json:
        print(pd.Series(found).to_json(indent=1))
    else:
        print(f"{shown}\n{_said(judge, did)}\n")
        print(*([audit_cli.shown(rows, judge.spec)] if args.audit else []))
    if args.output:
        replace(args.output, shown.csv())
    if did["stopped"]:
        print(
            f"stopped ({did['stopped']}); what was answered is stored: the same command goes on",
            file=sys.stderr,
        )
    return int(bool(did["stopped"]))


def rated(path):
    """Return the rated pairs of a file: ``human`` is a number on whatever scale, or a list of them."""
    records = list(readers.records(path))
    found, bad = readers.pairs(records)
    if bad:
        raise DreError(f"{path}:{bad[0]['line']}: {bad[0]['reason']}")
    human = {line: rating(record, "human", f"{path}:{line}") for line, record in records}
    found = found.assign(human=pd.to_numeric(found["line"].map(human))).dropna(subset="human")
    if len(found) < 9:
        raise DreError(f"{path}: {len(found)} pairs have a rating, human: expected 9 or more")
    return found


def _said(judge, did):
    """What a passport says besides agreement, one line each."""
    level = "{level:.2f} [{level_low:.2f}, {level_high:.2f}]".format(**did)
    values = {
        "retest (Spearman of first and second replies)": f"{did['retest']:.2f}",
        "replies without a score": f"{did['malformed']:.1%}",
        "dollars per 1,000 replies": f"{did['usd']:.2f}",
        "tokens per 1,000 replies": f"{1000 * did['tokens']:,.0f}",
        "seconds per 1,000 replies": f"{did['seconds']:.0f}",
        **{
            f"contexts that show a difference of {gap:g}": f"{n:,.0f}"
            for gap, n in did["contexts"].items()
        },
        f"an SLM helps by Ex-DRE ({trial.ROWS}) if it agrees with people at": level,
        "asked now": f"{did['calls']:,} calls, ${did['spent']:.4f}",
    }
    lines = [
        f"{what}: {'unknown' if value.startswith('nan') else value}"
        for what, value in values.items()
    ]
    for name, score in did["constant"].items():
        lines.append(
            f"{judge.spec} gave every pair of {name} the score {score:g}, which correlates with nothing"
        )
    return "\n".join(lines)
