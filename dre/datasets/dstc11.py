"""DSTC11 Track 4: rated sets in three languages, with paraphrases and back-translations.

All of it lies in one archive on the Hub (source ``dstc11``, 1.17 GB). Its parts are read where they
are, and the archive is never unpacked. Three kinds of files are used:

- ``metadata/dev/en/<set>/<set>_eval.json``: contexts, responses and the ratings of each quality;
- ``task1/<split>/en_es/<set>_multilingual_en_es.csv``, and the same with ``zh``: a row for each
  turn of each dialogue, ``UID`` (dialogue and number of the turn), ``SEG`` (English) and
  ``TRANSLATION``;
- ``task2/<split>/<set>_paraphrases.csv``: the same with ``PARAPHRASES`` (a list in Python's
  notation, or None) and ``BACKTRANSLATION``. Where there is ``COS_SIM_MONO_SP``, the likeness of
  each paraphrase to the turn, it is read, too.

A file that is not needed is not opened. A rated response finds its versions by the texts of its
dialogue. What has no versions is counted and named. This project could not fetch the archive: the
form is that of its documentation and of programs that read it, and the reader has been tested on
small archives of that form alone.
"""

import ast
import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
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
#: The training corpora that PCAF takes, by the name of their files: DailyDialog,
#: EmpatheticDialogues, PersonaChat, Topical-Chat and Wizard of Wikipedia.
TRAINING = ("DAILYD", "MPATHY", "PERCHT", "TPCCHT", "WOWIKI")
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
    """The rated responses of a set that have some versions.

    Attributes
    ----------
    name : of the set in the archive.
    ratings : a column for each quality, the mean of its raters.
    versions : by version, a table with ``context`` (tuple of turns) and ``response``, in the same
        order.
    n_left_out : how many responses have not all of these versions.
    """

    name: str
    ratings: pd.DataFrame
    versions: dict[str, pd.DataFrame]
    n_left_out: int

    def in_words(self) -> str:
        """Say how much can be used."""
        n = len(self.ratings)
        versions = ", ".join(self.versions)
        return f"{self.name}: {n:,} of {n + self.n_left_out:,} rated responses in {versions}"


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
        """Return the rated sets of responses; sets of whole dialogues are not among them."""
        return [name for name in sorted(self._rated) if len(self.responses(name))]

    def responses(self, name: str) -> pd.DataFrame:
        """Return the rated responses of a set as they are in English.

        Returns
        -------
        ``context`` (tuple of turns), ``response``, and a column for each quality.
        """
        rows = []
        try:
            for record in filter(_is_rated, json.loads(self._zip.read(self._rated[name]))):
                row = {"context": turns_of(record["context"]), "response": record["response"]}
                for quality, values in record["annotations"].items():
                    row[quality] = mean(values if isinstance(values, list) else [values])
                rows.append(row)
        except (ValueError, AttributeError) as error:
            raise DreError(f"{self.path}: {name} is no list of responses ({error!r})") from None
        return pd.DataFrame(rows).dropna(axis="columns", how="all")

    def rated(self, name: str, versions: Sequence[str] = VERSIONS) -> RatedSet:
        """Return those rated responses of a set that have all of some versions."""
        dialogues = {
            _key(turns.versions["en"]): turns for turns in self.parallel(name, "dev", versions)
        }
        responses = self.responses(name)
        keys = [
            _key((*context, response))
            for context, response in zip(responses["context"], responses["response"])
        ]
        responses = responses[[key in dialogues for key in keys]].reset_index(drop=True)
        texts = {}
        for version in versions:
            spoken = [dialogues[key].versions[version] for key in keys if key in dialogues]
            rows = [(turns[:-1], turns[-1]) for turns in spoken]
            texts[version] = pd.DataFrame(rows, columns=["context", "response"])
        ratings = pd.DataFrame(responses.drop(columns=["context", "response"]))
        return RatedSet(name, ratings, texts, len(keys) - len(ratings))

    def parallel(self, name: str, split: str, versions: Sequence[str] = VERSIONS) -> list[Turns]:
        """Return the dialogues of a set, or of a training corpus, that have all of some versions.

        A dialogue is left out if a version lacks one of its turns, or has a blank one. A corpus
        that lacks the file of a version has no dialogue.

        Parameters
        ----------
        name : such as ``dailydialog-zhao`` or, of `TRAINING`, ``DAILYD``.
        split : dev or train.
        versions : English and others of `VERSIONS`. Only their files are opened.
        """
        texts = {version: {} for version in VERSIONS}  # by version and UID
        for language in LANGUAGES[1:]:
            if language in versions:
                file = f"task1/{split}/en_{language}/{name}_multilingual_en_{language}.csv"
                table = self._table(file, ("UID", "SEG", "TRANSLATION"))
                texts["en"] |= dict(zip(table["UID"], table["SEG"]))
                texts[language] = dict(zip(table["UID"], table["TRANSLATION"]))
        if not {"paraphrase", "back-translation"}.isdisjoint(versions):
            file = f"task2/{split}/{name}_paraphrases.csv"
            table = self._table(file, ("UID", "SEG", "PARAPHRASES", "BACKTRANSLATION"))
            texts["en"] |= dict(zip(table["UID"], table["SEG"]))
            texts["back-translation"] = dict(zip(table["UID"], table["BACKTRANSLATION"]))
            paraphrases = map(_paraphrase, table.to_dict("records"))
            texts["paraphrase"] = dict(zip(table["UID"], paraphrases))
        turns_by_dialogue = defaultdict(list)
        for uid in texts["en"]:
            turn = [texts[version].get(uid, "").strip() for version in versions]
            turns_by_dialogue[uid.rpartition("-")[0]].append(turn)
        return [
            Turns(dialogue, dict(zip(versions, zip(*turns))))
            for dialogue, turns in turns_by_dialogue.items()
            if all(map(all, turns))
        ]

    def _table(self, ending, columns) -> pd.DataFrame:
        """Return a table of texts; it is empty if there is no such file.

        The library raises an error if a file is damaged.
        """
        names = [name for name in self._names if f"/{name}".endswith(f"/{ending}")]
        if not names:
            return pd.DataFrame(columns=columns)
        content = io.BytesIO(self._zip.read(names[0]))
        table = pd.read_csv(content, keep_default_na=False, dtype=str)
        missing = [column for column in columns if column not in table]
        if missing:
            raise DreError(
                f"{self.path}: {names[0]} has no column {', '.join(missing)}: found "
                f"{', '.join(table)}"
            )
        return table


def _is_rated(record):
    """Whether a record is a response that people rated, and not a whole dialogue."""
    texts = [record.get("context"), record.get("response")]
    has_texts = all(isinstance(text, str) and text.strip() for text in texts)
    return has_texts and isinstance(record.get("annotations"), dict)


def _key(turns):
    """Return turns as they are compared: letters and digits, without marks of the speaker."""
    texts = [_SIGNS.sub("", _SPEAKER.sub("", turn.strip()).lower()) for turn in turns]
    return tuple(text for text in texts if text)


def _paraphrase(row):
    """Return the paraphrase that is nearest to its turn without being it.

    Without likenesses it is the first one. Without paraphrases that can be read it is the
    back-translation, as the organisers advise.
    """
    try:
        paraphrases = ast.literal_eval(row["PARAPHRASES"]) or []
        likeness = ast.literal_eval(row.get("COS_SIM_MONO_SP", "None")) or [0] * len(paraphrases)
        pairs = [(value, text) for value, text in zip(likeness, paraphrases) if value < _SAME]
        return max(pairs, key=lambda pair: pair[0])[1]
    except (ValueError, SyntaxError, TypeError):
        return row["BACKTRANSLATION"]
