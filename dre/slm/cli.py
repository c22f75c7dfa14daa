"""``dre slm train``, alone or under ``torchrun``."""

import os

from dre.errors import DreError


def register(subparsers):
    """Add the ``slm`` command."""
    slm = subparsers.add_parser("slm", help="train the small model")
    actions = slm.add_subparsers(dest="action", required=True, metavar="action")
    train = actions.add_parser(
        "train",
        help="train one, or go on with a training that was interrupted",
        description="Several processes train one model together: torchrun --nproc-per-node N -m dre slm train ...",
    )
    add = train.add_argument
    what = train.add_mutually_exclusive_group(required=True)
    what.add_argument("--train", metavar="NAME:SPLIT", help="data to train on, such as dailydialog++:train")
    what.add_argument("--profile", metavar="NAME:SET", help="a model of `make paper`, which finds it: full:dailydialog")
    add("--dev", metavar="NAME:SPLIT", help="with --train: data the curves are measured on, too")
    add("--out", metavar="FOLDER", help="with --train: where the model goes")
    add("--encoder", help="with --train: minilm (default), distilbert, a Hub id or a folder")
    add("--epochs", type=int, metavar="N", help="with --train: of every stage, instead of the recipe's own")
    add("--recipe", default="paper", help="paper (default), released or context")
    add("--seed", type=int, default=0, metavar="N", help="default: 0")
    add("--plain", action="store_true", help="without disentanglement, the control of Figures 3 and 4")
    train.set_defaults(handler=_train)


def _train(args):
    from dre.slm import distributed

    distributed.join()
    try:
        slm = _of_profile(args) if args.profile else _of_data(args)
    except DreError:
        if int(os.environ.get("LOCAL_RANK", 0)) > 0:  # the first process of the machine says it
            return 2
        raise
    if distributed.rank() == 0:
        told = slm.provenance
        print(f"{told['contexts']['train']:,} contexts, fingerprint {told['fingerprint'][:12]}", end=", ")
        print(f"d in [{told['d_min']:.4f}, {told['d_max']:.4f}], trained by {told.get('processes', 1)} process(es)")


def _of_data(args):
    from dre.slm import fit

    if not args.out:
        raise DreError("--train needs --out, the folder the model goes to")
    train, dev = (_contexts(option, getattr(args, option)) for option in ("train", "dev"))
    encoder = args.encoder or "minilm"
    return fit(train, dev, args.out, args.recipe, args.seed, encoder, args.epochs, not args.plain)


def _contexts(option, named):
    from dre.data import load

    if not named:
        return []
    name, colon, split = named.partition(":")
    if not colon:
        raise DreError(f"--{option} {named!r}: expected NAME:SPLIT, such as mini:train")
    return load(name, split)


def _of_profile(args):
    from dre.pipeline.profile import profile
    from dre.slm.runs import train_or_load

    given = [f"--{name}" for name in ("dev", "out", "encoder", "epochs") if getattr(args, name) is not None]
    if given:
        raise DreError(f"--profile says all of that itself: leave {', '.join(given)} out")
    name, _, key = args.profile.partition(":")
    chosen = profile(name)
    entries = {entry.key: entry for entry in chosen.sets}
    if key not in entries or args.recipe not in chosen.epochs:
        known = ", ".join(f"{name}:{known}" for known in entries)
        named = f"--profile {args.profile!r} with --recipe {args.recipe!r}"
        raise DreError(f"{named}: expected one of {known}, with one of {', '.join(chosen.epochs)}")
    return train_or_load(chosen, entries[key], args.recipe, args.seed, not args.plain, progress=True)
