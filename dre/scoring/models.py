"""Finding a trained SLM by folder, Hub id, or the name of a model trained by ``make paper``."""

from pathlib import Path

from dre.errors import DreError


def load(name, device=None):
    """Return the `SLM` of a name.

    Parameters
    ----------
    name : str or path
        A folder; the name of a model under ``build/<profile>/models``, or an unambiguous beginning of it; else a
        Hub id, ``owner/name``.

    Raises
    ------
    DreError
        If there is none, or several begin so; the message lists what is there.
    """
    from dre.slm.model import SLM

    return SLM.load(find(name), device)


def find(name, root=None):
    """Return the folder of a name, or the name itself where it can only be a Hub id.

    Parameters
    ----------
    name, root : str or path
        ``root`` holds ``build``; by default the project's root.
    """
    if Path(name).is_dir():
        return Path(name)
    trained = trained_models(root)
    found = [path for path in trained if path.name.startswith(str(name))]
    exact = [path for path in found if path.name == str(name)]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if found:
        raise DreError(f"{name!r} may be {_list(found)}: give more of the name, or the folder")
    if str(name).count("/") == 1 and not str(name).startswith((".", "/", "~")):
        return str(name)
    raise DreError(
        f"no SLM {str(name)!r}: expected a folder, a Hub id (owner/name), or the beginning of a model trained by "
        f"`make paper`; there {'is ' + _list(trained) if trained else 'is none trained yet'}"
    )


def trained_models(root=None):
    """Return the folders of the complete models under ``build/<profile>/models``."""
    if root is None:
        from dre.pipeline.profile import root as project

        try:
            root = project()
        except DreError:  # installed without the rest of the project: nothing was trained there
            return []
    return sorted(path.parent for path in Path(root).glob("build/*/models/*/slm.json"))


def _list(paths):
    return ", ".join(f"{path.name} ({path.parent.parent.name})" for path in paths)
