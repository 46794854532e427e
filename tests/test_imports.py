"""The architecture, checked on the sources: rooms lie on floors, and imports point down."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import baleen

SOURCE = Path(baleen.__file__).parent

# From bottom to top.  A module may import from its own room and from floors below; rooms that share a floor do not
# import each other.  "" is the package root and `system` its one module.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"core"}),
    frozenset({"data"}),
    frozenset({"models", "index"}),
    frozenset({"hops"}),
    frozenset({"system"}),
    frozenset({"training", "evaluation", "synthesis"}),
    frozenset({"server", "cluster", "integrations"}),
    frozenset({"cli"}),
    frozenset({"__main__", ""}),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}

MOST_IN_THE_ROOT = 5
HEAVY = ("torch", "transformers")


def modules() -> dict[str, Path]:
    """Dotted names below `baleen`, with the file of each; the package root is ''."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement that runs on import: none inside functions or under `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from statements(node.orelse)
            continue
        yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            for child in getattr(node, part, []):
                yield from statements(child.body if isinstance(child, ast.ExceptHandler) else [child])


def imported(node: ast.stmt, module: str) -> Iterator[str]:
    """The modules below `baleen` that a statement imports; a name taken from the root itself comes as 'baleen.NAME'."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name == "baleen" or alias.name.startswith("baleen."):
                yield alias.name.removeprefix("baleen").removeprefix(".") or "baleen"
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, f"{module}: relative import on line {node.lineno}; name the module in full"
        if node.module == "baleen":
            yield from (alias.name if alias.name in MODULES else f"baleen.{alias.name}" for alias in node.names)
        elif node.module and node.module.startswith("baleen."):
            source = node.module.removeprefix("baleen.")
            yield from (inner if (inner := f"{source}.{alias.name}") in MODULES else source for alias in node.names)


def graph(*, everywhere: bool = False) -> dict[str, set[str]]:
    """Which modules each module imports when it is imported; with `everywhere`, inside its functions too."""
    edges = {}
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text("utf-8"))
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)] if everywhere else statements(tree.body)
        edges[module] = {target for node in nodes for target in imported(node, module)}
    return edges


def room(module: str) -> str:
    return module.partition(".")[0]


def allowed(module: str, target: str) -> bool:
    here, there = room(module), room(target)
    return here == there or FLOOR_OF.get(there, 99) < FLOOR_OF.get(here, 99)


def test_every_room_has_a_floor() -> None:
    homeless = sorted({room(module) for module in MODULES} - FLOOR_OF.keys())
    assert not homeless, f"no floor for {', '.join(homeless)}: put each into FLOORS in {Path(__file__).name}"


def test_no_room_lies_on_two_floors() -> None:
    assert len(FLOOR_OF) == sum(map(len, FLOORS))


def test_the_package_root_stays_small() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= MOST_IN_THE_ROOT


def test_every_room_says_what_it_is() -> None:
    silent = [name for name, path in MODULES.items() if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent in ([], ["__main__"]), f"no docstring: {', '.join(silent)}"


@pytest.mark.parametrize("init", sorted(SOURCE.glob("*/**/__init__.py")), ids=lambda path: path.parent.name)
def test_every_room_lists_its_files(init: Path) -> None:
    listed = set(re.findall(r"\b\w+\.py\b", ast.get_docstring(ast.parse(init.read_text("utf-8"))) or ""))
    assert listed == {path.name for path in init.parent.glob("*.py")} - {"__init__.py"}


def test_imports_point_down() -> None:
    upwards = [
        f"{module} imports {target}"
        for module, targets in graph(everywhere=True).items()
        for target in targets
        if module and not target.startswith("baleen") and not allowed(module, target)
    ]
    assert not upwards, "; ".join(upwards)


@pytest.mark.parametrize(("one", "other"), [("models", "index"), ("training", "evaluation")])
def test_rooms_of_one_floor_do_not_meet(one: str, other: str) -> None:
    for module, targets in graph(everywhere=True).items():
        if room(module) in (one, other):
            assert {room(target) for target in targets} & {one, other} <= {room(module)}, module


def test_there_are_no_import_cycles() -> None:
    edges = graph()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "a cycle: " + " > ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(edges.get(module, set()) - {module}):
                visit(target, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def test_nothing_inside_imports_the_package_root() -> None:
    from_root = {
        f"{module} imports {target}"
        for module, targets in graph(everywhere=True).items()
        for target in targets
        if target.split(".")[0] == "baleen"
    }
    assert not from_root, "; ".join(sorted(from_root))


def test_every_import_names_a_module_that_exists() -> None:
    for module, targets in graph(everywhere=True).items():
        for target in targets:
            assert target in MODULES or target.startswith("baleen"), f"{module} imports {target}"


@pytest.mark.parametrize(
    "code",
    [
        "import baleen",
        "import baleen.cli",
        "import baleen.core.types, baleen.core.files, baleen.core.parallel, baleen.core.config, baleen.core.machine",
        "import baleen.data.corpus, baleen.data.formats, baleen.data.gold",
    ],
)
def test_importing_the_front_door_stays_light(code: str) -> None:
    assert not heavy_modules_after(code)


def heavy_modules_after(code: str) -> list[str]:
    """Which of the slow libraries a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport sys\nprint(*({{m.partition('.')[0] for m in sys.modules}} & set({HEAVY!r})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()
