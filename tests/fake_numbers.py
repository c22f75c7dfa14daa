"""Cells of notebooks in worlds where every number is made up, to hear what they would say there.

A sentence, a title or a caption may conclude only what its number carries. So each cell that says
something is run many times. Whatever it does not define itself is a `Fake`, which is a number, a
table, a module or a figure, as it is used. In each world the numbers are others: effects are turned
round, and in one world all of them are zero. A word that is said in every world does not follow
from a number.
"""

import ast
import builtins
import contextlib
import functools
import hashlib
import itertools
import random
import re
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from dre.paper import sentences
from dre.paper.headless import Notebook, code_cells, source
from dre.paper.profile import COMMITTED
from dre.tables import number

N_WORLDS = 40
#: What these names are in a cell is what they are in the project; everything else is made up.
REAL = {
    "by_interval": sentences.by_interval,
    "by_value": sentences.by_value,
    "sentences": SimpleNamespace(
        by_interval=sentences.by_interval,
        by_value=sentences.by_value,
        training=lambda provenance: "Trained for 3 epochs.",
    ),
    "number": number,
    "COMMITTED": COMMITTED,
    "print": lambda *args, **options: None,
    "display": lambda *args, **options: None,
    "re": re,
}
#: Words that conclude.
CONCLUDING = re.compile(
    r"\b(better|worse|best|worst|more|less|most|mostly|least|larger|largest|smaller|smallest"
    r"|higher|highest|lower|lowest|above|below|gains?|loses?|losses|lost|lifts?|helps?|harms?"
    r"|beats?|improves?|wins?|adds?|rises?|falls?|takes? (?:away|down|it away)|hardly|nearly|almost"
    r"|near|nearer|far|close|closer|closes|no|not|none|nothing|nobody|never|cannot|useless"
    r"|enough|too|clear|clearly|even|only|still|works?|fails?|fooled|falls for|notices"
    r"|explains?|destroys|excluded|steadier|stricter|about chance)\b",
    re.IGNORECASE,
)
#: Those that conclude in a caption, which says what is drawn: above, how far, how often.
CONCLUDING_IN_CAPTIONS = re.compile(
    r"\b(hardly|nearly|clearly|helps?|harms?|beats?|improves?|nothing|none|never|useless)\b",
    re.IGNORECASE,
)
#: Names, and events that are counted: a reply may lose in 3 % of cases.
NEUTRAL = re.compile(
    r"better (?:part|one|of its (?:two )?parts)|(?:at|the) (?:most|least)\b|no examples|\bnot asked"
    r"|\bnot run|weak judges?|only (?:the|one) (?:small model|LLM|judge)|no word"
    r"|see no human rating|sets below|borrowed words tell nothing|nothing was trained on"
    r"|highest for the system"
    r"|larger than chance|A difference that is not significant .* too few contexts"
    r"|(?:the|its|'s) (?:best|worst|largest|highest|smallest) (?:of|printed|choice|model|mean)"
    r"|\b(?:better|worse|more|higher|lower|larger|above|below|rises|falls?|loses?|wins?)"
    r"(?=(?: [\w*',]+){0,6}? (?:in|on|for) (?:up to )?[-+−]?\d)",
    re.IGNORECASE,
)


class Said(NamedTuple):
    """What a cell says at one place: as a note, a title or a caption."""

    cell: str
    line: int
    is_caption: bool
    text: str


class Ended(Exception):
    """Ends a notebook, as in a profile without public data."""


class World:
    """One choice of all numbers; in world 0 all are zero."""

    def __init__(self, seed: int):
        self.seed = seed
        self.spread = random.Random(seed).choice((0.01, 0.01, 3.0))
        self.cell = ""
        self.said: list[Said] = []

    def value(self, path: str) -> float:
        """Return the number that is found by a path, such as ``table.loc['a']``."""
        if self.seed == 0:
            return 0.0
        for ending, side in (("low", -1), ("high", 1)):
            for separator in ("_", "."):
                if path.endswith(f"{separator}{ending}"):
                    base = path.removesuffix(f"{separator}{ending}")
                    return self.value(base) + side * self.spread
        digest = hashlib.sha256(f"{self.seed} {path}".encode()).digest()
        return 1.8 * int.from_bytes(digest[:8]) / 2**64 - 0.9

    def hear(self, text: object, is_caption: bool = False) -> None:
        """Keep what is said, with the line of the cell that says it."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.cell:
            frame = frame.f_back
        line = frame.f_lineno if frame else 0
        self.said.append(Said(self.cell, line, is_caption, str(text)))


def _operator(name):
    def operate(self, other=None):
        try:
            mine, theirs = float(self), float(other) if other is not None else None
            value = getattr(mine, name)(*(() if theirs is None else (theirs,)))
        except (TypeError, ValueError, ZeroDivisionError, AttributeError):
            value = NotImplemented
        path = f"({self.path} {name} {getattr(other, 'path', other)})"
        return Fake(self.world, path, None if value is NotImplemented else value)

    return operate


class Fake(str):
    """Anything: a number with a value, and whatever it is asked to be."""

    def __new__(cls, world, path, value=None):
        value = world.value(path) if value is None else value
        fake = super().__new__(cls, repr(float(value)))
        setting = object.__setattr__
        setting(fake, "world", world)
        setting(fake, "path", path)
        setting(fake, "number", value)
        return fake

    def __getattribute__(self, name):
        if name.startswith("__") or name in ("world", "path", "number"):
            return super().__getattribute__(name)
        return Fake(self.world, f"{self.path}.{name}")

    def __getitem__(self, key):
        return Fake(self.world, f"{self.path}.{getattr(key, 'path', key)}")

    def __setitem__(self, key, value):
        pass

    def __setattr__(self, name, value):
        pass

    def __call__(self, /, *args, **options):
        if self.path.endswith((".suptitle", ".set_title")):
            self.world.hear(args[0])
        if self.path.endswith(".set") and "title" in options:
            self.world.hear(options["title"])
        names = [str(getattr(value, "path", value)) for value in (*args, *options.values())]
        return Fake(self.world, f"{self.path}({', '.join(names)})")

    def __iter__(self) -> Iterator[Any]:
        for i in range(2):
            yield Fake(self.world, f"{self.path}.{i}")

    def __len__(self):
        return int(2.9 * abs(self.world.value(f"len {self.path}")))

    def __contains__(self, key):
        return True

    def __bool__(self):
        if isinstance(self.number, bool):
            return self.number
        return self.world.value(f"bool {self.path}") > 0

    def __float__(self):
        return float(self.number)

    def __int__(self):
        return int(10 * self.number)

    def __index__(self):
        return 2

    def __round__(self, digits=0):
        return self

    def __format__(self, form):
        if form and form[-1] in "d":
            return format(int(self), form)
        return format(float(self.number), form) if form else str.__str__(self)

    def __hash__(self):
        return hash(self.path)

    def __eq__(self, other):
        if other in (COMMITTED, "public"):
            return Fake(self.world, "no", False)
        return _operator("__eq__")(self, other)

    def __ne__(self, other):
        if isinstance(other, str) and not isinstance(other, Fake) and other == COMMITTED:
            return Fake(self.world, "yes", True)
        return _operator("__ne__")(self, other)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "matmul",
]:
    setattr(Fake, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Fake, f"__r{_name}__", _operator(f"__r{_name}__"))
for _name in ("lt", "le", "gt", "ge", "neg", "abs", "invert", "pos"):
    setattr(Fake, f"__{_name}__", _operator(f"__{_name}__"))


class FakeBook:
    """What `dre.paper.notebook.Book` is in a world: it hears, and writes nothing."""

    def __init__(self, world: World):
        self.world = world
        self.profile = Fake(world, "settings")

    def note(self, text, /, **numbers):
        self.world.hear(text)

    def figure(self, fig, name, caption, alt="", **options):
        self.world.hear(f"{caption} {alt}", is_caption=True)

    def table(self, df, name, caption, note="", /, **options):
        self.world.hear(f"{caption} {note}", is_caption=True)

    def end(self, *args):
        raise Ended

    def __getattr__(self, name):
        return lambda *args, **options: None


_SAYS = (".note(", "suptitle(", "set_title(", "title=", "book.figure(", "book.table(")
_ENDS = ("book.end(", "notebook.Ended")


_MADE_UP = "made_up_"


class _WithoutImports(ast.NodeTransformer):
    """Leaves out imports and assertions, whose names are made up as all others are."""

    def visit_Import(self, node):
        return ast.Pass()

    visit_ImportFrom = visit_Assert = visit_Import

    def visit_Assign(self, node):
        """Make up a dictionary, since made-up keys would not be found in it."""
        is_dictionary = isinstance(node.value, ast.DictComp)
        is_dictionary |= isinstance(node.value, ast.Dict) and not node.value.keys
        target = node.targets[0]
        if is_dictionary and isinstance(target, ast.Name):
            node.value = ast.Name(_MADE_UP + target.id, ast.Load())
        return node


def spoken(book: Notebook, n_worlds: int = N_WORLDS) -> dict[str, list[Said]]:
    """Return what the cells of a notebook say: by place, once for each world that comes there."""
    by_place: dict[str, list[Said]] = {}
    for seed in range(n_worlds):
        for said in _said_in(book, World(seed)):
            by_place.setdefault(f"{said.cell}, line {said.line}", []).append(said)
    return by_place


# A cell is read once, for all worlds.
_text = functools.cache(ast.unparse)


@functools.cache
def _tree(text):
    """Return the statements of a cell, and the names that are not Python's own."""
    tree = ast.fix_missing_locations(_WithoutImports().visit(ast.parse(text)))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return tree.body, names - set(dir(builtins))


@functools.cache
def _code(statement, cell):
    return compile(ast.Module([statement], type_ignores=[]), cell, "exec")


@functools.cache
def _says(statement):
    return any(call in _text(statement) for call in (*_SAYS, *_ENDS))


def _said_in(book, world):
    for cell in code_cells(book.content):
        text = source(cell)
        if not any(call in text for call in (*_SAYS, *_ENDS)) or "%pip" in text:
            continue
        world.cell = f"{book.name[:2]}, {cell['id']}"
        statements, names = _tree(text)
        namespace = {name: Fake(world, name) for name in names}
        namespace |= {name: REAL[name] for name in names & set(REAL)}
        namespace |= {name: REAL[name] for name in ("print", "display")}
        namespace |= {"book": FakeBook(world), "notebook": SimpleNamespace(Ended=Ended)}
        try:
            _run(statements, namespace, world)
        except Ended:
            break
    return world.said


def _run(statements, namespace, world):
    """Run statements one by one.

    Where made-up things do not fit together, what a statement assigns is made up as well. What says
    something has to run. Both branches are taken where one of them says something, but for those
    that ask for the profile.
    """
    for statement in statements:
        says = _says(statement)
        if says and isinstance(statement, ast.With):
            _make_up(statement, namespace, world)
            _run(statement.body, namespace, world)
            continue
        if says and isinstance(statement, ast.For):
            iterable = _text(statement.iter)
            for item in itertools.islice(eval(iterable, namespace), 3):
                namespace["item_of_loop"] = item
                try:
                    exec(f"{_text(statement.target)} = item_of_loop", namespace)
                except (TypeError, ValueError):  # it has another number of parts
                    _make_up(statement.target, namespace, world)
                _run(statement.body, namespace, world)
            continue
        if says and isinstance(statement, ast.If) and "settings.name" not in _text(statement.test):
            for branch in (statement.body, statement.orelse):
                with contextlib.suppress(Ended):
                    _run(branch, namespace, world)
            continue
        try:
            exec(_code(statement, world.cell), namespace)
        except (Ended, NameError):  # a name that is not there is a fault wherever it is
            raise
        except Exception as error:
            if says:
                raise AssertionError(
                    f"{world.cell}, line {statement.lineno}: {error!r} in a world of made-up "
                    "numbers: put what is computed before the statement that says it"
                ) from error
            _make_up(statement, namespace, world)


def _make_up(statement, namespace, world):
    """Make up what a statement assigns."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            namespace[node.id] = Fake(world, f"{node.id} {world.cell}")


def fixed_words(said: Sequence[Said]) -> set[str]:
    """Return the concluding words that are said in every world."""
    words = []
    for one in said:
        pattern = CONCLUDING_IN_CAPTIONS if one.is_caption else CONCLUDING
        told = NEUTRAL.sub("", one.text)
        words.append({word.lower() for word in pattern.findall(told)})
    return set.intersection(*words)
