"""Loading a data set by name."""

from dre.errors import DreError

SPLITS = {
    "mini": ("train", "dev", "test"),
    "dailydialog++": ("train", "dev", "test"),
    "dailydialog++-positives": ("train",),
    "convai2-augmented": ("train", "test"),
    "topicalchat-augmented": ("train", "test"),
}
RATED = ("personachat-usr", "topicalchat-usr", "dailydialog-zhao", "fed-turn")
CONTEXTS = ("convai2-valid", "topicalchat-valid_freq", "topicalchat-test_freq")


def load(name, split):
    """Return the contexts of a split of a data set as a list of `Context`.

    Parameters
    ----------
    name : {"mini", "dailydialog++", "dailydialog++-positives", "convai2-augmented", "topicalchat-augmented"}
    split : {"train", "dev", "test"}
        As far as the set has it.

    Raises
    ------
    DreError
        Unknown name or split; a file that is absent and cannot be fetched, has another hash, or is malformed.
    """
    if split not in splits(name):
        raise DreError(f"{name} has no split {split!r}: use one of {', '.join(splits(name))}")
    from dre.data import augmented, dailydialog, mini

    if name == "mini":
        return mini.load(split)
    if name == "dailydialog++":
        return dailydialog.load(split)
    if name == "dailydialog++-positives":
        return dailydialog.load_positives()
    return augmented.load(name, split)


def splits(name):
    """Return the splits a data set has."""
    if name not in SPLITS:
        raise DreError(f"unknown data set {name!r}: use one of {', '.join(SPLITS)}")
    return SPLITS[name]


def files(name, split):
    """Return the registered files that `load` reads."""
    from dre.data.dailydialog import FILES
    from dre.data.registry import find, group

    if split not in splits(name):
        raise DreError(f"{name} has no split {split!r}: use one of {', '.join(splits(name))}")
    if name == "mini":
        return ()
    if name == "dailydialog++":
        return (find(*FILES[split]),)
    if name == "topicalchat-augmented":
        return (find("topical-chat", "valid_freq.json"),)
    return group("convai2" if name == "convai2-augmented" else name)


def rated(name):
    """Return the human-rated responses of a data set as a list of `Rated`.

    Parameters
    ----------
    name : {"personachat-usr", "topicalchat-usr", "dailydialog-zhao", "fed-turn"}
    """
    from dre.data import human

    if name in human.USR_FILES:
        return human.usr(name)
    if name == "dailydialog-zhao":
        return human.zhao()
    if name == "fed-turn":
        return human.fed()
    raise DreError(f"unknown rated data set {name!r}: use one of {', '.join(RATED)}")


def contexts(name):
    """Return public contexts with their original reply as the one positive, for augmentation and training.

    Parameters
    ----------
    name : {"convai2-valid", "topicalchat-valid_freq", "topicalchat-test_freq"}
    """
    from dre.data import public

    if name == "convai2-valid":
        return public.convai2()
    if name in CONTEXTS:
        return public.topical_chat(name)
    raise DreError(f"unknown contexts {name!r}: use one of {', '.join(CONTEXTS)}")
