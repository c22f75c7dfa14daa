import pytest


@pytest.fixture(scope="session")
def data_home():
    """The data directory holding the public files; the test is skipped where one is absent."""
    from dre.data import fetch, registry

    wanted = [source for source in registry.sources() if source.name != "dailydialog++-train"]
    absent = sum(not fetch.present(source) for source in wanted)
    if absent:
        pytest.skip(f"{absent} of {len(wanted)} public files absent: set DRE_DATA_HOME or run `dre data fetch`")
    return fetch.home()
