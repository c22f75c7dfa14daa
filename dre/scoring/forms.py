"""Tables of scores as JSON Lines, CSV or Parquet, written piece by piece."""

import contextlib
import json
from itertools import islice

import pandas as pd

from dre.errors import DreError
from dre.scoring.scorer import NUMBERS

ENDINGS = (".csv", ".jsonl", ".parquet")


def check(output):
    """Refuse an output that cannot be written, before work is spent on it."""
    if output.suffix not in ENDINGS:
        raise DreError(f"{output}: expected a name that ends in {', '.join(ENDINGS)}")
    if not output.resolve().parent.is_dir():
        raise DreError(f"{output}: its folder is not there: create it first")


def tables(path, columns, size=4096):
    """Yield the rows of a JSON Lines file of scores as tables of at most ``size`` rows."""
    with open(path, encoding="utf-8") as file:
        while lines := list(islice(file, size)):
            table = pd.DataFrame(map(json.loads, lines), columns=list(columns))
            yield table.astype(dict.fromkeys(NUMBERS, float))


def read(path, columns):
    """Return a finished file of scores as one table that has certain columns.

    Raises
    ------
    DreError
        If it cannot be read, or is none.
    """
    import pyarrow as pa

    texts = dict.fromkeys(("id", "system", "context_id"), str)  # sixteen digits need not be a number
    readers = {
        ".csv": lambda path: pd.read_csv(path, dtype=texts),
        ".jsonl": lambda path: pd.read_json(path, lines=True, dtype=texts),
        ".parquet": pd.read_parquet,
    }
    if path.suffix not in ENDINGS:
        raise DreError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}")
    try:
        table = readers[path.suffix](path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DreError(f"{path}: cannot be read as a file of scores ({str(error).splitlines()[0]})") from None
    absent = [name for name in columns if name not in table]
    if absent:
        raise DreError(f"{path}: there is no column {absent[0]!r}: expected a file that dre score wrote")
    return table


@contextlib.contextmanager
def writer(path, ending, columns):
    """Give a function that appends a table to a file of the form of ``ending``."""
    if ending == ".parquet":
        with _parquet(path, columns) as write:
            yield write
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        if ending == ".jsonl":
            yield lambda table: file.write(jsonl(table))
        else:
            pd.DataFrame(columns=list(columns)).to_csv(file, index=False, lineterminator="\n")
            yield lambda table: table.to_csv(file, index=False, header=False, lineterminator="\n")


def jsonl(table):
    """Return a table as JSON Lines, a row a line."""
    return table.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)


@contextlib.contextmanager
def _parquet(path, columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = dict.fromkeys(columns, pa.string()) | dict.fromkeys(NUMBERS, pa.float64()) | {"line": pa.int64()}
    types |= {"accepted": pa.bool_()} if "accepted" in columns else {}
    schema = pa.schema([(name, types[name]) for name in columns])
    with pq.ParquetWriter(path, schema) as file:
        yield lambda table: file.write_table(pa.Table.from_pandas(table, schema, preserve_index=False))
