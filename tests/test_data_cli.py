import re

import pytest

from dre import cli
from dre.data import fetch, registry
from dre.errors import DreError

HEX = re.compile(r"[0-9a-f]+")


def test_registry_entries_are_whole():
    sources = registry.sources()
    assert len({source.relative for source in sources}) == len(sources)
    for source in sources:
        assert len(source.commit) == 40 and HEX.fullmatch(source.commit)
        assert (source.sha256 is None) != (source.git_blob is None)
        identity = source.sha256 or source.git_blob
        assert len(identity) == (64 if source.sha256 else 40) and HEX.fullmatch(identity)
        assert source.licence and source.citation and source.what
        assert source.size or source.path == "dataset/train.json"  # whose size is not known here
    train = registry.find("dailydialog++-train", "train.json")
    assert train.commit == registry.find("dailydialog++", "test.json").commit


def test_unknown_source():
    with pytest.raises(DreError, match="unknown data source 'nothing': use one of dailydialog"):
        registry.group("nothing")
    with pytest.raises(DreError, match="2 files of source 'dailydialog\\+\\+' end in 'json'"):
        registry.find("dailydialog++", "json")


def test_registry_covers_every_file_at_hand(data_home):
    registered = {str(source.relative) for source in registry.sources()}
    at_hand = {str(path.relative_to(data_home)) for path in (data_home / "github").rglob("*") if path.is_file()}
    assert at_hand <= registered
    for source in registry.sources():
        if fetch.present(source) and source.size:
            assert (data_home / source.relative).stat().st_size == source.size


def test_list_names_every_source(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path))
    assert cli.main(["data", "list"]) == 0
    out = capsys.readouterr().out
    for name in registry.names():
        assert re.search(rf"^{re.escape(name)} .* no ", out, re.M)
    assert str(tmp_path) in out


def test_verify_tells_absent_wrong_and_right(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path))
    dev, test = registry.group("dailydialog++")
    (tmp_path / dev.relative).parent.mkdir(parents=True)
    (tmp_path / dev.relative).write_text("not the file")
    assert cli.main(["data", "verify", "dailydialog++"]) == 1
    out = capsys.readouterr().out
    assert f"wrong: {tmp_path / dev.relative} has sha256" in out
    assert f"absent: {test.relative}" in out
    assert "0 right, 1 absent, 1 wrong" in out
    (tmp_path / dev.relative).unlink()
    assert cli.main(["data", "verify", "dailydialog++"]) == 1  # asked for by name, and absent
    assert cli.main(["data", "verify"]) == 0  # nothing that is here is wrong


def test_verify_passes_on_good_files(data_home, capsys):
    names = [name for name in registry.names() if name != "dailydialog++-train"]
    assert cli.main(["data", "verify", *names]) == 0
    assert "0 absent, 0 wrong" in capsys.readouterr().out


def test_fetch_of_files_at_hand_needs_no_network(data_home, capsys, monkeypatch):
    monkeypatch.setattr(fetch, "RAW", "http://127.0.0.1:9")
    assert cli.main(["data", "fetch", "dailydialog++", "usr"]) == 0
    assert "4 files are in" in capsys.readouterr().out


def test_fetch_without_network_is_one_error_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(fetch, "RAW", "http://127.0.0.1:9")
    assert cli.main(["data", "fetch", "usr"]) == 2
    last = capsys.readouterr().err.strip().split("\n")[-1]
    assert last.startswith("error: cannot download http://127.0.0.1:9/")


def test_unknown_name_is_one_error_line(capsys):
    assert cli.main(["data", "fetch", "nothing"]) == 2
    assert "error: unknown data source 'nothing'" in capsys.readouterr().err
