"""Records of JSON Lines, CSV and Parquet files, one at a time: memory does not grow with the file."""

import contextlib
import csv
import json
import sqlite3
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dre.errors import DreError
from dre.scoring.rows import Bad, Unfit, row_of

#: the longest cell of a CSV file, in characters: an unclosed quote shall not read the whole file into one
LONGEST_CELL = 1 << 24
#: more systems than this are no systems but another column
MOST_SYSTEMS = 200
_BOM = b"\xef\xbb\xbf"


def read(path, names=None):
    """Yield the `Row` or `Bad` of every record of a file, in its order.

    Parameters
    ----------
    path : path
        ``.jsonl``, ``.csv`` or ``.parquet``.
    names : dict, optional
        Our field -> the file's, as for `dre.scoring.rows.row_of`.

    Raises
    ------
    DreError
        If the file cannot be read at all, or lacks a column.
    """
    path = Path(path)
    with contextlib.closing(_Seen()) as seen:
        for line, record in records(path, names or {}):
            found = record if isinstance(record, Bad) else _row(record, line, names)
            if not isinstance(found, Bad):
                found = seen.check(found, record)
            yield found


def blocks(found, size, start=0):
    """Yield lists of at most ``size`` rows of what `read` yields, from row ``start`` on; what is `Bad` is left out."""
    rows = islice((row for row in found if not isinstance(row, Bad)), start, None)
    while block := list(islice(rows, size)):
        yield block


@dataclass(frozen=True)
class Blocks:
    """The blocks of a file, read anew by whoever iterates; unlike a generator, it can be sent to another process.

    Attributes
    ----------
    path, names
        As for `read`.
    size, start : int
        As for `blocks`.
    """

    path: Path
    names: dict
    size: int
    start: int = 0

    def __iter__(self):
        return blocks(read(self.path, self.names), self.size, self.start)


def place(path, line):
    """Return how a record is named in a message: ``file:line``, or ``file, row n`` where there are no lines."""
    return f"{path}, row {line}" if Path(path).suffix == ".parquet" else f"{path}:{line}"


def _row(record, line, names):
    try:
        return row_of(record, line, names)
    except Unfit as error:
        return Bad(line, str(error), record)


def records(path, names):
    """Yield (line, record) of a file: a mapping as it stands there, or `Bad`; raises as `read` does."""
    forms = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in forms:
        raise DreError(f"{path}: expected a file whose name ends in {', '.join(forms)}")
    try:
        yield from forms[path.suffix](path, names)
    except OSError as error:
        raise DreError(f"{path}: cannot be read ({error.strerror or error})") from None


def _lines(path):
    """Yield (number, bytes) of every line; only a line feed ends one, and a byte order mark is no text."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            yield number, line.removeprefix(_BOM) if number == 1 else line


def _jsonl(path, names):
    for number, line in _lines(path):
        if not line.strip():
            continue
        text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        try:
            record = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            record = Bad(number, "not UTF-8 text: save the file as UTF-8", text)
        except (ValueError, RecursionError) as error:
            record = Bad(number, f"not JSON ({error}): expected one JSON object a line", text)
        if not isinstance(record, (dict, Bad)):
            record = Bad(number, f"a JSON {type(record).__name__}: expected one JSON object a line", text)
        yield number, record


def _csv(path, names):
    # What is no UTF-8 becomes lone surrogates, which the check of a row finds: the reader keeps its place.
    reader = csv.reader((line.decode("utf-8", "surrogateescape") for _, line in _lines(path)), strict=True)
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    header = None
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if header is None:
                raise DreError(f"{path}:{start}: no CSV header ({error})") from None
            yield start, Bad(start, f"not CSV ({error}): expected cells with quotes doubled inside quotes", "")
            continue
        if header is None:
            header = cells
            _need(path, header, names)
        elif cells and len(cells) != len(header):
            reason = f"{len(cells)} cells: expected the {len(header)} of the header {', '.join(header[:8])}"
            yield start, Bad(start, reason, _plain(cells))
        elif cells:
            yield start, {name: cell for name, cell in zip(header, cells)}


def _parquet(path, names):
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        _need(path, file.schema_arrow.names, names)
        row = 0
        for batch in file.iter_batches(1024):
            for record in batch.to_pylist():
                row += 1
                yield row, record
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DreError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def _need(path, header, names):
    for field in ("context", "response"):
        if names.get(field, field) not in header:
            raise DreError(
                f"{place(path, 1)}: there is no column {names.get(field, field)!r}, only {', '.join(header)}: name the "
                f"column that holds the {field} with --field {field}=COLUMN"
            )


def _plain(value):
    return [cell.encode("utf-8", "backslashreplace").decode() for cell in value]


class _Seen:
    """Which (system, id) were where: on disk, because a million of them are no small thing to keep in memory."""

    def __init__(self):
        self._base = sqlite3.connect("", isolation_level=None)  # no name: a file of its own that goes with it
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -4096"):
            self._base.execute(f"PRAGMA {pragma}")
        self._base.execute("CREATE TABLE seen (id TEXT, system TEXT, line INT, PRIMARY KEY (id, system)) WITHOUT ROWID")
        self._systems = set()

    def check(self, row, record):
        """Return the row, or why it cannot be taken."""
        if row.system not in self._systems:
            if len(self._systems) == MOST_SYSTEMS:
                reason = f"system is the {MOST_SYSTEMS + 1}st different one: expected the name of a system"
                return Bad(row.line, reason, record)
            self._systems.add(row.system)
        key = (row.id, row.system)
        added = self._base.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", (*key, row.line)).rowcount
        if added:
            return row
        first = self._base.execute("SELECT line FROM seen WHERE id = ? AND system = ?", key).fetchone()[0]
        system = f" of system {row.system!r}" if row.system else ""
        reason = f"id {row.id!r}{system} was in line {first} already: make ids unique, or leave them out"
        return Bad(row.line, reason, record)

    def close(self):
        """Forget everything."""
        self._base.close()
