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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
    n_left_out : how many responses have no ratings or no versions.
    """

    name: str
    ratings: pd.DataFrame
    versions: dict[str, pd.DataFrame]
    n_left_out: int

    @property
    def qualities(self) -> list[str]:
        """The qualities that people rated."""
        return [name for name in self.ratings if name not in ("pair_id", "context_id")]

    def in_words(self) -> str:
        """Say how much can be used."""
        n = len(self.ratings)
        return f"{self.name}: {n:,} of {n + self.n_left_out:,} responses have ratings and versions"


class Archive:
    """The archive, opened for reading.

    Parameters
    ----------
    path : of the archive; by default the registered file, which is fetched if it is absent.

    Raises
    ------
    DreError
        If it cannot be fetched, has no rated set, or a file has another form.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path) if path else fetch(f"/{ARCHIVE}")
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise DreError(f"{self.path} is not a zip archive ({error}): fetch it again") from None
        self._names = [name for name in self._zip.namelist() if "__MACOSX" not in name]
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
        return [name for name in names if any(map(_is_rated, self._records(name)))]

    def rated(self, name: str) -> RatedSet:
        """Return a rated set in all versions; DreError if a file is missing or of another form."""
        dialogues = defaultdict(list)
        for turns in self.parallel(name, "dev"):
            dialogues[_key(turns.versions["en"])].append(turns)
        rows = []
        texts = defaultdict(list)
        context_numbers = {}
        records = self._records(name)
        for i, record in enumerate(records):
            context = turns_of(record["context"])
            candidates = dialogues.get(_key((*context, record.get("response", ""))))
            if not _is_rated(record) or not candidates:
                continue
            # Equal texts have equal versions; each is taken once, and the last one again.
            turns = candidates.pop(0) if len(candidates) > 1 else candidates[0]
            number = context_numbers.setdefault(_key(context), len(context_numbers))
            pair_id = f"dstc11-{name}/{i}"
            row: dict = {"pair_id": pair_id, "context_id": f"dstc11-{name}/context-{number}"}
            for quality, values in record["annotations"].items():
                row[quality] = mean(values if isinstance(values, list) else [values])
            rows.append(row)
            for version, (*before, response) in turns.versions.items():
                texts[version].append((pair_id, tuple(before), response))
        if not rows:
            raise DreError(f"{self.path}: no response of {name} has ratings and versions")
        ratings = pd.DataFrame(rows).dropna(axis="columns", how="all")
        columns = ["pair_id", "context", "response"]
        versions = {version: pd.DataFrame(rows, columns=columns) for version, rows in texts.items()}
        return RatedSet(name, ratings, versions, len(records) - len(rows))

    def parallel(self, name: str, split: str) -> list[Turns]:
        """Return the dialogues of a set, or of a training corpus, in all versions that it has.

        A dialogue is left out if a version lacks one of its turns, or has a blank one.

        Parameters
        ----------
        name : such as ``dailydialog-zhao`` or, of `TRAINING`, ``DAILYD``.
        split : dev or train.
        """
        texts = {version: {} for version in VERSIONS}
        for language in LANGUAGES[1:]:
            file = f"task1/{split}/en_{language}/{name}_multilingual_en_{language}.csv"
            for row in self._rows(file, ("UID", "SEG", "TRANSLATION")):
                texts["en"][row["UID"]] = row["SEG"]
                texts[language][row["UID"]] = row["TRANSLATION"]
        file = f"task2/{split}/{name}_paraphrases.csv"
        for row in self._rows(file, ("UID", "SEG", "PARAPHRASES", "BACKTRANSLATION")):
            texts["en"][row["UID"]] = row["SEG"]
            texts["back-translation"][row["UID"]] = row["BACKTRANSLATION"]
            texts["paraphrase"][row["UID"]] = _paraphrase(row)
        uids_by_dialogue = defaultdict(list)
        for uid, text in texts["en"].items():
            if text.strip():
                uids_by_dialogue[uid.rpartition("-")[0]].append(uid)
        dialogues = []
        for dialogue, uids in uids_by_dialogue.items():
            versions = {
                version: tuple(of_version.get(uid, "").strip() for uid in uids)
                for version, of_version in texts.items()
                if of_version
            }
            if all(map(all, versions.values())):
                dialogues.append(Turns(dialogue, versions))
        return dialogues

    def _records(self, name) -> list[dict]:
        content = self._content(self._rated.get(name, name))
        try:
            records: list = json.loads(content)
            return [record for record in records if isinstance(record["context"], str)]
        except (ValueError, TypeError, KeyError) as error:
            raise DreError(f"{self.path}: {name} is no list of responses ({error!r})") from None

    def _rows(self, ending, columns) -> list[dict[str, Any]]:
        """Return the rows of a table whose texts are all there; none if there is no such file."""
        names = [name for name in self._names if f"/{name}".endswith(f"/{ending}")]
        if not names:
            return []
        content = io.BytesIO(self._content(names[0]))
        table = pd.read_csv(content, keep_default_na=False, dtype=str)
        missing = [column for column in columns if column not in table]
        if missing:
            raise DreError(f"{self.path}: {names[0]} has no column {', '.join(missing)}")
        return table.to_dict("records")

    def _content(self, name) -> bytes:
        """Return a file of the archive, whose checksum zipfile compares."""
        try:
            return self._zip.read(name)
        except (KeyError, zipfile.BadZipFile, zlib.error, OSError) as error:
            raise DreError(f"{self.path}: {name} is damaged ({error}): fetch it again") from None


@functools.lru_cache(maxsize=2)
def archive(path: str | Path | None = None) -> Archive:
    """Return the `Archive` of a path, opened once in a process."""
    return Archive(path)


def _is_rated(record):
    """Whether a record is a response that people rated, and not a whole dialogue."""
    response = record.get("response")
    is_text = isinstance(response, str) and bool(response.strip())
    return is_text and isinstance(record.get("annotations"), dict)


def _key(turns):
    """Return turns as they are compared: letters and digits, without marks of the speaker."""
    texts = [_SIGNS.sub("", _SPEAKER.sub("", str(turn).strip()).lower()) for turn in turns]
    return tuple(text for text in texts if text)


def _paraphrase(row):
    """Return the paraphrase that is nearest to its turn without being it.

    Without likenesses it is the first one; without paraphrases the back-translation, as the
    organisers advise.
    """
    try:
        paraphrases = ast.literal_eval(row["PARAPHRASES"]) or []
        likeness = ast.literal_eval(row.get("COS_SIM_MONO_SP", "None")) or [0] * len(paraphrases)
        pairs = [(value, text) for value, text in zip(likeness, paraphrases) if value < _SAME]
        return max(pairs, key=lambda pair: pair[0])[1]
    except (ValueError, SyntaxError, TypeError):
        return row["BACKTRANSLATION"]
