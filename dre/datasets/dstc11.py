"""DSTC11 Track 4: rated sets in three languages, with paraphrases and back-translations.

All of it lies in one archive on the Hub (source ``dstc11``, 1.17 GB). Its parts are read where they
are, and the archive is never unpacked. Three kinds of files are used:

- ``metadata/dev/en/<set>/<set>_eval.json``: contexts, responses and the ratings of each quality;
- ``task1/<split>/en_es/<set>_multilingual_en_es.csv``, and the same with ``zh``: a row for each
  turn of each dialogue, ``UID`` (dialogue and number of the turn), ``SEG`` (English) and
  ``TRANSLATION``;
- ``task2/<split>/<set>_paraphrases.csv``: the same with ``PARAPHRASES`` (a list in Python's
  notation, or None), ``COS_SIM_MONO_SP`` (their likeness to the turn) and ``BACKTRANSLATION``.

A rated response finds its versions by the texts of its dialogue. What has no versions is counted
and named. This project could not fetch the archive: the form is that of its documentation and of
programs that read it, and the reader has been tested on small archives of that form alone.
"""

import ast
import functools
import io
import json
import re
import zipfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre.datasets.ratings import mean, turns_of
from dre.datasets.registry import fetch
from dre.errors import DreError

ARCHIVE = "DSTC_11_Track_4.zip"
#: The versions of a dialogue: languages, and English in other words.
VERSIONS = ("en", "es", "zh", "paraphrase", "back-translation")
LANGUAGES = VERSIONS[:3]
#: The rated sets of responses that PCAF names, by the name that they may have in the archive. The
#: archive may hold others, and lack some.
PCAF_SETS = {
    "convai2-grade": "CG",
    "dailydialog-grade": "DH",
    "dailydialog-gupta": "DG",
    "dailydialog-zhao": "DZ",
    "dstc7": "D7",
    "empathetic-grade": "EG",
    "fed-turn": "FT",
    "humod": "HM",
    "persona-usr": "PU",
    "persona-zhao": "PZ",
    "topical-usr": "TU",
    "jsalt": "JS",
    "esl": "CS",
    "ncm": "CS",
    "dstc10-persona": "D10",
    "dstc10-topical": "D10",
}
#: The training corpora that PCAF takes, by the name of their files.
TRAINING = {
    "DAILYD": "DailyDialog",
    "MPATHY": "EmpatheticDialogues",
    "PERCHT": "PersonaChat",
    "TPCCHT": "Topical-Chat",
    "WOWIKI": "Wizard of Wikipedia",
}
_RATED = re.compile(r"(?:^|/)metadata/dev/en/([^/]+)/\1_eval\.json$")
_SPEAKER = re.compile(r"^(user|system)\s*:", re.IGNORECASE)
_SIGNS = re.compile(r"[\W_]+")
#: A paraphrase that is as near to its turn as this is the turn itself.
_SAME = 1.0


class Turns(NamedTuple):
    """The turns of a dialogue in each of its versions, (turns,) each."""

    uid: str
    versions: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class RatedSet:
    """A rated set in all versions.

    Attributes
    ----------
    name : of the set in the archive.
    ratings : ``pair_id``, ``context_id`` (what shares a context is resampled together), and a
        column for each quality, the mean of its raters.
    versions : by version, a table with ``pair_id``, ``context`` (tuple of turns) and ``response``,
        in the same order.
    n_left_out : how many responses of the file cannot be used, by reason.
    """

    name: str
    ratings: pd.DataFrame
    versions: dict[str, pd.DataFrame]
    n_left_out: dict[str, int] = field(default_factory=dict)

    @property
    def qualities(self) -> list[str]:
        """The qualities that people rated."""
        return [name for name in self.ratings if name not in ("pair_id", "context_id")]

    def in_words(self) -> str:
        """Say how much can be used, and why the rest cannot."""
        n_all = len(self.ratings) + sum(self.n_left_out.values())
        text = f"{self.name}: {len(self.ratings):,} of {n_all:,} responses"
        reasons = [f"{n:,} {reason}" for reason, n in self.n_left_out.items()]
        return f"{text}; left out: {', '.join(reasons)}" if reasons else text


class Archive:
    """The archive, opened for reading.

    Parameters
    ----------
    path : of the archive; by default the registered file, which is fetched if it is absent.

    Raises
    ------
    DreError
        If it cannot be fetched, is no archive, or has no rated set.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path) if path else fetch(f"/{ARCHIVE}")
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise DreError(f"{self.path} is not a zip archive ({error}): fetch it again") from None
        names = [name for name in self._zip.namelist() if "__MACOSX" not in name]
        self._names = [name for name in names if not name.endswith("/")]
        matches = map(_RATED.search, self._names)
        self._rated = {match[1]: match.string for match in matches if match}
        if not self._rated:
            raise DreError(
                f"{self.path} has no metadata/dev/en/<set>/<set>_eval.json: it is not the archive "
                "of DSTC11 Track 4, or it has another form than this reader knows"
            )

    def rated_names(self) -> list[str]:
        """Return the rated sets of responses, in the order of `PCAF_SETS`; others come last.

        Sets of whole dialogues are not among them.
        """
        names = [name for name in PCAF_SETS if name in self._rated]
        names += sorted(self._rated.keys() - PCAF_SETS.keys())
        return [name for name in names if any(map(_is_rated, self._json(self._rated[name])))]

    def rated(self, name: str) -> RatedSet:
        """Return a rated set in all versions.

        Raises
        ------
        DreError
            If a file is missing or of another form, or if no response has its versions.
        """
        if name not in self._rated:
            raise DreError(f"{self.path} has no rated set {name!r}: {', '.join(self._rated)}")
        dialogues = defaultdict(list)
        for turns in self.parallel(name, "dev"):
            dialogues[_key(turns.versions["en"])].append(turns)
        n_left_out = defaultdict(int)
        rows = []
        texts = {version: [] for version in VERSIONS}
        context_numbers = {}
        for i, record in enumerate(self._json(self._rated[name])):
            if not _is_rated(record):
                n_left_out["without a response or ratings"] += 1
                continue
            context = turns_of(record["context"])
            candidates = dialogues.get(_key((*context, record["response"])))
            if not candidates:
                n_left_out["without its versions"] += 1
                continue
            # Equal texts have equal versions; each is taken once, and the last one again.
            turns = candidates.pop(0) if len(candidates) > 1 else candidates[0]
            number = context_numbers.setdefault(_key(context), len(context_numbers))
            pair_id = f"dstc11-{name}/{i}"
            row: dict = {"pair_id": pair_id}
            row["context_id"] = f"dstc11-{name}/context-{number}"
            for quality, values in record["annotations"].items():
                row[quality] = mean(values if isinstance(values, list) else [values])
            rows.append(row)
            for version, spoken in turns.versions.items():
                *turns_before, response = spoken
                pair = {"pair_id": pair_id, "context": tuple(turns_before), "response": response}
                texts[version].append(pair)
        if not rows:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in n_left_out.items())
            raise DreError(f"{self.path}: no response of {name} can be used: {reasons}")
        ratings = pd.DataFrame(rows).dropna(axis="columns", how="all")
        versions = {version: pd.DataFrame(pairs) for version, pairs in texts.items() if pairs}
        return RatedSet(name, ratings, versions, n_left_out)

    def parallel(self, name: str, split: str) -> list[Turns]:
        """Return the dialogues of a set, or of a training corpus, in all versions that it has.

        Parameters
        ----------
        name : such as ``dailydialog-zhao`` or, of `TRAINING`, ``DAILYD``.
        split : dev or train.

        Raises
        ------
        DreError
            If it has no translations, or a file has another form.
        """
        tables = {}
        for language in LANGUAGES[1:]:
            file = f"task1/{split}/en_{language}/{name}_multilingual_en_{language}.csv"
            table = self._csv(file, ["UID", "SEG", "TRANSLATION"])
            if table is not None:
                tables[language] = table
        robust = self._csv(
            f"task2/{split}/{name}_paraphrases.csv",
            ["UID", "SEG", "PARAPHRASES", "COS_SIM_MONO_SP", "BACKTRANSLATION"],
        )
        if not tables and robust is None:
            raise DreError(
                f"{self.path} has no translations and no paraphrases of {name} in {split}"
            )
        return _joined(tables, robust)

    def _json(self, name) -> list[dict]:
        content = self._content(name)
        try:
            records = json.loads(content)
        except ValueError as error:
            raise DreError(f"{self.path}: {name} is not JSON ({error}): fetch it again") from None
        if not isinstance(records, list):
            raise DreError(f"{self.path}: {name} is not a list of responses")
        return [record for record in records if isinstance(record, dict)]

    def _csv(self, ending, columns) -> pd.DataFrame | None:
        """Return columns of a table, whose texts are all there; None if there is no such file."""
        names = [name for name in self._names if name == ending or name.endswith(f"/{ending}")]
        if not names:
            return None
        content = self._content(names[0])
        table = pd.read_csv(io.BytesIO(content), keep_default_na=False, dtype=str)
        missing = [column for column in columns if column not in table]
        if missing:
            raise DreError(
                f"{self.path}: {names[0]} has no column {', '.join(missing)}: found "
                f"{', '.join(table)}"
            )
        return table.loc[:, columns]

    def _content(self, name) -> bytes:
        """Return a file of the archive, whose checksum zipfile compares."""
        try:
            return self._zip.read(name)
        except (zipfile.BadZipFile, zlib.error, OSError) as error:
            raise DreError(f"{self.path}: {name} is damaged ({error}): fetch it again") from None


@functools.lru_cache(maxsize=2)
def archive(path: str | Path | None = None) -> Archive:
    """Return the `Archive` of a path, opened once in a process."""
    return Archive(path)


def _is_rated(record):
    """Whether a record is a response that people rated, and not a whole dialogue."""
    response = record.get("response")
    has_texts = isinstance(response, str) and isinstance(record.get("context"), str)
    return has_texts and bool(response.strip()) and isinstance(record.get("annotations"), dict)


def _key(turns):
    """Return turns as they are compared: letters and digits, without marks of the speaker."""
    texts = []
    for turn in turns:
        said = _SPEAKER.sub("", turn.strip())
        texts.append(_SIGNS.sub("", said.lower()))
    return tuple(text for text in texts if text)


def _joined(tables, robust) -> list[Turns]:
    """Return the dialogues of the tables of languages and of the table of paraphrases, by UID.

    A dialogue is left out if a version lacks one of its turns, or has a blank one.
    """
    texts = {version: {} for version in VERSIONS}
    for language, table in tables.items():
        texts["en"] |= dict(zip(table["UID"], table["SEG"]))
        texts[language] = dict(zip(table["UID"], table["TRANSLATION"]))
    if robust is not None:
        texts["en"] |= dict(zip(robust["UID"], robust["SEG"]))
        texts["back-translation"] = dict(zip(robust["UID"], robust["BACKTRANSLATION"]))
        for row in robust.to_dict("records"):
            texts["paraphrase"][row["UID"]] = _paraphrase(row)
    uids_by_dialogue = defaultdict(list)
    for uid in texts["en"]:
        uids_by_dialogue[uid.rpartition("-")[0]].append(uid)

    present = [version for version in VERSIONS if texts[version]]
    dialogues = []
    for dialogue, uids in uids_by_dialogue.items():
        uids = [uid for uid in uids if texts["en"][uid].strip()]
        versions = {}
        for version in present:
            versions[version] = tuple(texts[version].get(uid, "").strip() for uid in uids)
        if uids and all(map(all, versions.values())):
            dialogues.append(Turns(dialogue, versions))
    return dialogues


def _paraphrase(row):
    """Return the paraphrase that is nearest to its turn without being it.

    Where there is none, it is the back-translation, as the organisers advise.
    """
    try:
        paraphrases = ast.literal_eval(row["PARAPHRASES"]) or []
        likeness = ast.literal_eval(row["COS_SIM_MONO_SP"]) or []
    except (ValueError, SyntaxError):
        return row["BACKTRANSLATION"]
    likeness_by_text = {}
    for text, value in zip(paraphrases, likeness):
        if isinstance(text, str) and isinstance(value, int | float) and value < _SAME:
            likeness_by_text[text] = value
    return max(likeness_by_text, key=likeness_by_text.__getitem__, default=row["BACKTRANSLATION"])
