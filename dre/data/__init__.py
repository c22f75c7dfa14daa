"""The data room: records, the registry of public sources, loaders and splits."""

from dre.data.fetch import home
from dre.data.records import Context, Rated, data_hash, pairs, rated_table
from dre.data.sets import contexts, load, rated

__all__ = ["Context", "Rated", "contexts", "data_hash", "home", "load", "pairs", "rated", "rated_table"]
