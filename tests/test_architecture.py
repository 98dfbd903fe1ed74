"""The rules of the packages that import-linter and ruff can't say. Theirs are in `pyproject.toml`."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "quorate"
LINKED = {"raft", "quorum_state", "log", "broker", "metrics", "spark_source"}
"""The packages that the design names at the top of the repository."""
EXPLORER = "tests.simulator.explorer.core_model"


Node = TypeVar("Node", bound=ast.AST)


class Source:
    """A module's syntax tree, which is walked once for all tests."""

    def __init__(self, path: Path) -> None:
        self.tree = ast.parse(path.read_text())
        self._by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(self.tree):
            self._by_type[type(node)].append(node)

    def nodes(self, kind: type[Node]) -> list[Node]:
        return self._by_type[kind]  # type: ignore[return-value]


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    """The modules of the package that is published, and of the one that only this repository needs."""
    files = (path for place in ("quorate", "tests/simulator") for path in (ROOT / place).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): Source(path)
        for path in sorted(files)
    }


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imports_of(source: Source) -> Iterator[str]:
    """The full names of all that a module imports: modules, and names in modules."""
    for plain in source.nodes(ast.Import):
        yield from (alias.name for alias in plain.names)
    for named in source.nodes(ast.ImportFrom):
        yield from (f"{named.module}.{alias.name}" for alias in named.names)


def exports_of(tree: ast.Module) -> set[str] | None:
    """The names in `__all__`, which makes a package's `__init__` its front door. None without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def test_every_import_from_outside_uses_the_front_door(sources: dict[str, Source]) -> None:
    """It imports from the package, or from a module that its `__all__` names."""
    packages = {module.rpartition(".")[0] for module in sources}
    doors = {package: exports_of(each.tree) for package, each in sources.items() if package in packages}
    offences = []
    for importer, source in sources.items():
        for imported in imports_of(source):
            module = imported if imported in sources else imported.rpartition(".")[0]
            package, _, name = module.rpartition(".")
            exported = doors.get(package)
            tests_it = importer.startswith("tests.") and module.startswith("quorate.")
            if module in packages or within(importer, package) or tests_it:
                continue
            if exported is not None and name not in exported:
                offences.append(f"{importer}: imports {imported}, past {package}")
    assert not offences, "\n".join(offences)


def test_objects_of_many_attributes_have_slots(sources: dict[str, Source]) -> None:
    """CPython shares the keys of objects' dictionaries up to 30. Beyond, each call of a method and each look
    at an attribute is slower: a lone commit took 3 % more CPU when the driver got its 31st."""
    found = {
        f"{module}: {each.name}": len(names)
        for module, source in sources.items()
        for each in source.nodes(ast.ClassDef)
        if len(names := assigned_to_self(each)) > 30
        and not any(ast.unparse(node).startswith("__slots__") for node in each.body)
    }
    assert not found, f"give them __slots__: {found}"


def assigned_to_self(of: ast.ClassDef) -> set[str]:
    """The attributes that the methods of a class assign to `self`."""
    return {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_the_core_imports_nothing_but_the_standard_library(sources: dict[str, Source]) -> None:
    common = {path.stem for path in SOURCE.glob("*.py")}
    allowed = ("quorate.raft.core", *(f"quorate.{name}" for name in common))
    offences = [
        f"{module}: {imported}"
        for module, source in sources.items()
        if within(module, "quorate.raft.core")
        for imported in imports_of(source)
        if not any(within(imported, each) for each in allowed)
        and imported.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not offences, "\n".join(offences)


def test_the_driver_alone_steps_the_core(sources: dict[str, Source]) -> None:
    """Others read it. A caller of `step` carries out its effects, as teaching mode does beside every node."""
    stepping = {
        module
        for module, source in sources.items()
        if within(module, "quorate") and not within(module, "quorate.raft.core")
        for node in source.nodes(ast.Call)
        if isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and ast.unparse(node.func.value).endswith("core")
    }
    assert stepping == {"quorate.raft.driver.driver", "quorate.play.world"}


def test_the_explorer_alone_touches_private_state_of_the_core(sources: dict[str, Source]) -> None:
    """`tests.simulator.explorer.core_model.canonical` says so."""
    touching = {
        module
        for module, source in sources.items()
        if not within(module, "quorate.raft.core")
        for node in source.nodes(ast.Attribute)
        if node.attr in {"_node", "_roles"} and ast.unparse(node.value).endswith(("core", "twin", "up"))
    }
    assert touching == {f"{EXPLORER}.canonical", f"{EXPLORER}.renamed_core"}


MAY_SAY_ANY = {
    "quorate.broker.settings.setting": "values of fields, whose types a dataclass's metadata doesn't name",
    "quorate.broker.wire.codecs.entities": "fields of kio's dataclasses, whose types are known at run time",
    "quorate.broker.wire.codecs.guard": "the same",
    "quorate.broker.wire.codecs.sliced_decoding": "the same",
    "quorate.broker.wire.codecs.sliced_encoding": "the same",
    "quorate.cli.all_commands": "the signature of typer's own command line",
    "quorate.pipelines.pipeline_run": "the results of a run, which PySpark's own signature has as such",
    "quorate.pipelines.report.facts": "values in rows of Spark, whose types the query decides",
    "quorate.pipelines.report.page": "the same",
    "quorate.pipelines.report.plots": "the same",
    "quorate.pipelines.report.story": "the same",
    "quorate.runtime.slices": "the elements of a lazy sequence, which its type doesn't name",
    "quorate.simulation.world.scheduler": "random.Random's own signature",
}


def test_any_is_where_a_reason_is_and_nowhere_else(sources: dict[str, Source]) -> None:
    said = {
        module
        for module, source in sources.items()
        if any(name.id == "Any" for name in source.nodes(ast.Name))
        or any(isinstance(text.value, str) and "[Any]" in text.value for text in source.nodes(ast.Constant))
    }
    assert said == MAY_SAY_ANY.keys()


def test_the_designs_packages_are_found_at_the_top_too_and_everything_else_once() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_symlink()} == LINKED
    assert all((ROOT / name).resolve() == SOURCE / name for name in LINKED)
    assert not [path for path in SOURCE.rglob("*.py") if not (path.parent / "__init__.py").exists()]
