"""Files that are written whole or not at all."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dre.errors import DreError


def replace(path, content):
    """Write a file (text or bytes) and its folder: a reader sees the old one or the whole new one.

    Others who write it at the same time have another temporary file, and none stays behind. A
    file that cannot be written is a DreError.
    """
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise DreError(
            f"{path}: cannot be written ({error.strerror}): free space or give another place"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write(table, path):
    """Write a DataFrame as the ending of the name says: .csv, .parquet, else JSON Lines."""
    path = Path(path)
    if path.suffix == ".parquet":
        replace(path, table.to_parquet(None, index=False))
    elif path.suffix == ".csv":
        replace(path, table.to_csv(index=False, lineterminator="\n"))
    else:
        replace(
            path,
            table.to_json(orient="records", lines=True, force_ascii=False, double_precision=15),
        )
