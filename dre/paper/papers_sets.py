"""What a profile takes from the Hub: fetched and read before anything is paid for.

These are the papers' own training sets and DSTC11's archive. What can be used of them is said. If
they are not to be had, the message names the lines of the profile that do without them.
"""

from dre.datasets import dialogues
from dre.errors import DreError
from dre.paper import plan
from dre.paper.profile import Profile

#: Our sets in the place of the papers', as a profile names them.
OURS = {"personachat-gpt4": "convai2-augmented", "topicalchat-gpt4": "topicalchat-augmented"}


def check(settings: Profile) -> list[str]:
    """Fetch and read what a profile takes from the Hub, and say what can be used of it.

    Parameters
    ----------
    settings : the profile.

    Returns
    -------
    A line for each file of the papers' sets, and for each set and corpus of DSTC11.

    Raises
    ------
    DreError
        If something cannot be fetched, or too little of it can be used.
    """
    lines = []
    for entry in settings.sets:
        for name, split in dict.fromkeys([entry.train, entry.dev, entry.test]):
            if dialogues.names_its_conversations(name):
                continue
            try:
                lines.append(dialogues.authors_reading(name, split).in_words())
            except DreError as error:
                raise DreError(f"{error}\n{_instead(settings, entry, name)}") from None
    if settings.pcaf is not None and plan.is_run(settings, "11_"):
        from dre.paper import pcaf  # which loads PyTorch

        try:
            lines += pcaf.check(settings)
        except DreError as error:
            raise DreError(
                f"{error}\nNothing was asked or trained. To do without DSTC11, take pcaf out of "
                f"profiles/{settings.name}.yaml"
            ) from None
    return lines


def _instead(settings, entry, name):
    """Return the lines of a profile that take our set in the place of one of the papers'."""
    place = f"profiles/{settings.name}.yaml, in sets, key {entry.key}"
    if name not in OURS:
        return f"Nothing was asked or trained. {place} names the file: name another"
    ours = OURS[name]
    return (
        f"Nothing was asked or trained. To take the set that comes with the project instead, write "
        f"in {place}:\n"
        f"    train: [{ours}, train+paper]\n"
        f"    more: balanced\n"
        f"    dev: [{ours}, train]\n"
        f"    test: [{ours}, test]"
    )
