"""Looking for all that a run needs, before anything is trained or paid."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import urlopen

from dre import judges
from dre.datasets import dialogues, ratings, recordings
from dre.errors import DreError
from dre.judges import prompts
from dre.paper import bill, judgements, plan, printed_metrics
from dre.paper.judgements import PanelJudge
from dre.paper.profile import RECORDED, Profile, TrainingSet
from dre.slm import recipes

_SECONDS = 10  # in which an address must answer


def check(settings: Profile) -> list[str]:
    """Open, reach and read all that a profile names, and return what was found, a line each.

    Absent data are fetched. No judge is asked anything.

    Parameters
    ----------
    settings : the profile.

    Raises
    ------
    DreError
        At the first fault that would end a run later, with the key of the profile.
    """
    lines = []
    place = f"profiles/{settings.name}.yaml"
    for name, model in settings.models.items():
        with _named(f"{place}, models, {name}"):
            recipes.get(model.recipe, model.epochs)
    for name, file in settings.prompts.items():
        with _named(f"{place}, prompts, {name}"):
            _expect([name], prompts.names())
            _fits(prompts.load(settings.root / file), prompts.load(name))
    with _named(f"{place}, metrics"):
        _expect(settings.metrics, printed_metrics.MODELS)
    with _named(f"{place}, extra"):
        _expect(settings.extra.dialogues, [*dialogues.PUBLIC, *dialogues.SPLITS])
        _expect(settings.extra.graded, recordings.names())
    with _named(f"{place}, cases"):
        plan.printed_replies(settings)
    have_answered = set(bill.calls(settings).query("replies > 0")["judge"])
    for judge in judgements.panel(settings):
        try:
            with _named(f"{place}, judges, {judge.name}"):
                lines += _reach(judge)
        except DreError as error:
            if judge.name not in have_answered:
                raise
            lines.append(f"{error}. What is stored of it is read")
    for entry in settings.sets:
        with _named(f"{place}, sets, {entry.key}"):
            lines += _read(entry)
    for name in settings.rated:
        with _named(f"{place}, rated, {name}"):
            lines.append(f"{name}: {len(ratings.rated(name)):,} rated replies")
    if settings.pcaf is not None and plan.is_run(settings, "11_"):
        from dre.paper import pcaf  # which loads PyTorch

        with _named(f"{place}, pcaf (`pcaf: null` does without it)"):
            lines += pcaf.check(settings)
    return lines


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Let an error within this name the place in the profile that it is about."""
    try:
        yield
    except DreError as error:
        raise DreError(f"{place}: {error}. Nothing was asked or trained") from None


def _expect(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise a DreError if a name is none of those that are known."""
    for name in names:
        if name not in known:
            raise DreError(f"there is no {name}, expected one of {', '.join(known)}")


def _fits(own: prompts.Prompt, built_in: prompts.Prompt) -> None:
    """Raise a DreError if a prompt of the user's has another scale than fusions and tables take."""
    if (own.kind, own.scale) != (built_in.kind, built_in.scale):
        raise DreError(
            f"{own.name} asks for a {own.kind} on {own.scale}, and what replaces {built_in.name} "
            f"has to ask for a {built_in.kind} on {built_in.scale}"
        )


def _reach(judge: PanelJudge) -> list[str]:
    """Open a judge; of a live one, find its key, and see that its address answers."""
    if not judge.is_live:
        judges.open(f"{RECORDED}{judge.recording}")
        return []
    opened = judge.open("good_response")  # with all its options
    opened.close()
    client = opened.client()
    client.close()
    try:
        urlopen(client.at, timeout=_SECONDS).close()  # without the key
    except HTTPError:
        pass  # which is an answer
    except (OSError, HTTPException) as error:
        raise DreError(
            f"{client.at} does not answer ({error}): start its server, or correct base_url"
        ) from None
    return [f"{judge.name}: {client.at} answers"]


def _read(entry: TrainingSet) -> list[str]:
    """Read all splits of a training set, and say how large they are."""
    lines = []
    splits = {"train": entry.train, "dev": entry.dev, "test": entry.test}
    if entry.more:
        splits["more"] = (entry.train[0], entry.more)
    for name, split in dict.fromkeys(splits.values()):
        if not dialogues.names_its_conversations(name):  # as the authors' files
            try:
                lines.append(dialogues.authors_reading(name, split).in_words())
            except DreError as error:
                raise DreError(
                    f"{error}. The set of profiles/public.yaml with this key comes with the "
                    "project: its lines can stand here, too"
                ) from None
    sizes = [f"{len(dialogues.load(*of)):,} contexts in {key}" for key, of in splits.items()]
    return [*lines, f"{entry.key}: {', '.join(sizes)}"]
