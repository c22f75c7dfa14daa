"""What tests share: no model is looked up on the Hub, and tests of public data skip where it is absent."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from dre import fetch

_absent = [
    name for name, source in fetch.sources().items() if "sha256" in source and not (fetch.home() / name).is_file()
]

needs_data = pytest.mark.skipif(
    bool(_absent),
    reason=f"{len(_absent)} public files are not in {fetch.home()}: set DRE_DATA_HOME or run `dre data fetch`",
)
