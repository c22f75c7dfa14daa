"""A small archive in the form of DSTC11 Track 4, in words of our own."""

import csv
import io
import json
import zipfile

ROOT = "DSTC_11_Track_4"


def in_other_words(text, version):
    """Return a text in another version: words of that version, one for each word."""
    return " ".join(f"{word}-{version}" for word in text.split())


def rated_record(i, context, response, **qualities):
    """Return a rated response as the archive has it."""
    return {
        "dialogue_id": f"made-{i}",
        "context": "\n".join(context),
        "response": response,
        "annotations": {quality: list(values) for quality, values in qualities.items()},
    }


def turn_rows(name, dialogues):
    """Yield UID, speaker and text of each turn of dialogues."""
    for number, turns in enumerate(dialogues):
        for i, text in enumerate(turns):
            yield f"{name.upper()}-{number:06d}-{i:04d}", "AB"[i % 2], text


def table(columns, rows):
    """Return rows as the text of a CSV file."""
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerows([columns, *rows])
    return content.getvalue()


def translations(name, dialogues, language):
    """Return a table of turns with their translations."""
    rows = [
        (uid, speaker, text, in_other_words(text, language), "0.5")
        for uid, speaker, text in turn_rows(name, dialogues)
    ]
    return table(["UID", "SID", "SEG", "TRANSLATION", "COS_SIM_MULTI_1_ST"], rows)


def paraphrases(name, dialogues):
    """Return a table of turns with their paraphrases; every third turn has none."""
    rows = []
    for n, (uid, speaker, text) in enumerate(turn_rows(name, dialogues)):
        texts = [text, in_other_words(text, "far"), in_other_words(text, "near")]
        likeness = [1.0, 0.2, 0.8]
        if n % 3 == 2:
            texts = likeness = None
        back = in_other_words(text, "back")
        rows.append((uid, speaker, text, texts, [0, 9, 3], likeness, back, "0.9"))
    columns = ["UID", "SID", "SEG", "PARAPHRASES", "LEVENSHTEIN", "COS_SIM_MONO_SP"]
    return table([*columns, "BACKTRANSLATION", "COS_SIM_MONO_SB"], rows)


def write(path, rated, corpora):
    """Write an archive.

    Parameters
    ----------
    path : of the archive.
    rated : by name of a set, its records.
    corpora : by name of a training corpus, its dialogues (lists of turns).
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{ROOT}/README.md", "made for a test")
        for name, records in rated.items():
            folder = f"{ROOT}/metadata/dev/en/{name}"
            file.writestr(f"{folder}/{name}_eval.json", json.dumps(records, indent=1))
            file.writestr(f"__MACOSX/{folder}/._{name}_eval.json", b"\x00\x01")
            dialogues = []
            for record in records:
                if record.get("response") and "annotations" in record:
                    dialogues.append([*record["context"].split("\n"), record["response"]])
            write_versions(file, name, "dev", dialogues)
        for name, dialogues in corpora.items():
            write_versions(file, name, "train", dialogues)
    return path


def write_versions(file, name, split, dialogues):
    """Write the translations, paraphrases and back-translations of dialogues."""
    for language in ("es", "zh"):
        place = f"{ROOT}/task1/{split}/en_{language}/{name}_multilingual_en_{language}.csv"
        file.writestr(place, translations(name, dialogues, language))
    file.writestr(f"{ROOT}/task2/{split}/{name}_paraphrases.csv", paraphrases(name, dialogues))


def changed(path, ending, change):
    """Write the archive with one of its files changed, or left out if the change is None."""
    other = path.with_name(f"changed-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if not name.endswith(ending):
                new.writestr(name, content)
            elif change is not None:
                new.writestr(name, change(content))
    return other
