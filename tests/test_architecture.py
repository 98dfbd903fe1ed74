"""The rules of the packages, checked on the source: their imports, and the I/O, time and entropy that must
pass `quorate/runtime`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from package_rules import MAY_IMPORT, NOUNS, SIMULATOR, Source, circles, tree_of, within  # noqa: E402

SOURCE = ROOT / "quorate"
IN_TESTS = ROOT.joinpath(*SIMULATOR.split("."))
"""The simulator of this repository. It is no test: the rules of form hold for it too."""
PACKAGES = tuple(sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
LINKED = {"raft", "quorum_state", "log", "broker", "metrics", "spark_source"}
"""The packages that the design names at the top of the repository."""

EXEMPT = ("runtime/real", "simulation", "cli", "spark_source")
"""Where the real world, or its simulated twin, is made."""

FORBIDDEN_MODULES = {
    "time", "random", "secrets", "socket", "threading", "signal", "subprocess", "asyncio", "logging",
    "structlog",
}  # fmt: skip
FORBIDDEN_CALLS = {
    "os.open", "os.fsync", "os.fdatasync", "os.urandom", "os.rename", "os.remove", "os.listdir", "uuid.uuid4",
    "uuid.uuid1", "trio.to_thread.run_sync", "trio.open_tcp_stream", "trio.run_process", "datetime.now",
    "open", "trio.socket.socket", "datetime.datetime.now",
}  # fmt: skip
FORBIDDEN_EXCEPT = {
    "runtime/entropy.py": {"random"},
    "runtime/event_log.py": {"logging"},
    "metrics/raft_metrics.py": {"threading"},
}
"""`Entropy` wraps a given `random.Random`; metrics may be scraped from another thread and hold a lock."""


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((SOURCE / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


@pytest.fixture(scope="module", params=["quorate", SIMULATOR])
def either(request: pytest.FixtureRequest) -> Source:
    """The package that is published, and the one that only this repository needs."""
    return Source(request.param)


def test_a_package_imports_what_the_table_allows(source: Source) -> None:
    offences = []
    for module in source.trees:
        rows = [row for row in MAY_IMPORT if within(module, row)]
        if not rows:
            assert module in ("", *NOUNS), f"{module} is in no row"
            continue
        row = max(rows, key=len)
        for line, imported, _ in source.imports(module):
            if not any(within(imported, each) for each in (row, *MAY_IMPORT[row], *NOUNS)):
                offences.append(f"{module}:{line}: {row} may not import {imported}")
    assert not offences, "\n".join(offences)


def test_there_is_no_circle_on_any_floor(either: Source) -> None:
    """Neither of modules nor of packages, imports for the type checker included."""
    found = {
        package or either.name: circles(either.children(package))
        for package in either.packages
        if circles(either.children(package))
    }
    assert not found, found


@pytest.mark.parametrize("package", ["broker.replication"])
def test_the_rooms_of_a_package_stand_one_above_the_other(source: Source, package: str) -> None:
    """Taken room by room, each with the modules directly in it. Of the package's own room, too."""
    floors = source.floors(package)
    assert len(floors) > 1
    assert not circles(floors)


def test_a_planted_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_every_import_from_outside_uses_the_front_door(either: Source) -> None:
    offences = list(either.windows())
    assert not offences, "\n".join(offences)


def test_objects_of_many_attributes_have_slots() -> None:
    """CPython shares the keys of objects' dictionaries up to 30. Beyond, each call of a method and each look
    at an attribute is slower: a lone commit took 3 % more CPU when the driver got its 31st."""
    found = {
        f"{path.relative_to(ROOT)}: {each.name}": len(names)
        for path in (*SOURCE.rglob("*.py"), *IN_TESTS.rglob("*.py"))
        for each in ast.walk(tree_of(path))
        if isinstance(each, ast.ClassDef)
        and len(names := own_attributes(each)) > 30
        and "__slots__" not in class_names(each)
    }
    assert not found, f"give them __slots__: {found}"


def own_attributes(of: ast.ClassDef) -> set[str]:
    """What its methods assign to `self`."""
    return {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def class_names(of: ast.ClassDef) -> set[str]:
    """What its body assigns."""
    assigned = [target for node in of.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in assigned if isinstance(target, ast.Name)}


def test_every_package_says_what_it_is_for(either: Source) -> None:
    assert not [package for package in either.packages if not either.purpose(package)]


def test_the_core_imports_nothing_but_the_standard_library() -> None:
    offences = [
        f"{path.name}:{line}: {imported}"
        for path in sorted((SOURCE / "raft/core").rglob("*.py"))
        for line, imported in imports_of(tree_of(path))
        if not imported.startswith(("quorate.raft.core", *(f"quorate.{noun}" for noun in NOUNS)))
        and imported.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not offences, "\n".join(offences)


def test_the_driver_alone_steps_the_core() -> None:
    """Others read it. Whoever steps it carries out what that brings."""
    steps = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in modules()
        if not path.is_relative_to(SOURCE / "raft" / "core")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and dotted(node.func.value).endswith("core")
    ]
    assert steps
    assert {step.partition(":")[0] for step in steps} == {"raft/driver/driver.py"}, steps


def test_the_explorer_alone_touches_what_the_core_keeps_to_itself() -> None:
    """`tests.simulator.explorer.core_model.canonical` says so."""
    touching = {
        str(path.relative_to(ROOT))
        for path in (*modules(), *sorted(IN_TESTS.rglob("*.py")))
        if not path.is_relative_to(SOURCE / "raft/core")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in {"_node", "_roles"}
        and dotted(node.value).endswith(("core", "twin", "up"))
    }
    explorer = "tests/simulator/explorer/core_model"
    assert touching == {f"{explorer}/canonical.py", f"{explorer}/renamed_core.py"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def test_time_entropy_files_and_sockets_are_reached_through_the_seams_only() -> None:
    offences = []
    for path in modules():
        relative = str(path.relative_to(SOURCE))
        if relative.startswith(EXEMPT):
            continue
        tree = tree_of(path)
        exempt = FORBIDDEN_EXCEPT.get(relative, set())
        for line, imported in imports_of(tree):
            if imported.split(".")[0] in FORBIDDEN_MODULES - exempt:
                offences.append(f"{relative}:{line}: imports {imported}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and dotted(node.func) in FORBIDDEN_CALLS:
                offences.append(f"{relative}:{node.lineno}: calls {dotted(node.func)}")
    assert not offences, "\n".join(offences)


MAY_SAY_ANY = {
    "broker/settings/setting.py": "values of fields, whose types the metadata of dataclasses doesn't name",
    "broker/wire/codecs/entities.py": "fields of kio's dataclasses, whose types are known at run time",
    "broker/wire/codecs/guard.py": "the same",
    "broker/wire/codecs/sliced_decoding.py": "the same",
    "broker/wire/codecs/sliced_encoding.py": "the same",
    "cli/all_commands.py": "the signature of typer's own command line",
    "runtime/slices.py": "what a lazy sequence is made of, which its type doesn't name",
    "simulation/world/scheduler.py": "random.Random's own signature",
}


def test_any_is_where_a_reason_is_and_nowhere_else() -> None:
    said = {
        str(path.relative_to(base))
        for base, paths in ((SOURCE, modules()), (ROOT, IN_TESTS.rglob("*.py")))
        for path in paths
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and "[Any]" in node.value)
    }
    assert said == MAY_SAY_ANY.keys()


MAY_ASSERT = {
    "raft/core/roles/follower.py",
    "cli/demo/demo_operations.py",
    "cli/demo/demo_spark.py",
}
"""For the type checker. No new ones: a field that is None for a while is a missing type, and `present` checks
under `python -O` too."""


def test_shipped_code_relies_on_no_assert() -> None:
    asserting = {
        str(path.relative_to(SOURCE))
        for path in modules()
        if not path.is_relative_to(SOURCE / "simulation")
        and any(isinstance(node, ast.Assert) for node in ast.walk(tree_of(path)))
    }
    assert asserting <= MAY_ASSERT, asserting - MAY_ASSERT


def test_the_designs_packages_are_found_at_the_top_too_and_everything_else_once() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_symlink()} == LINKED
    assert all((ROOT / name).resolve() == SOURCE / name for name in LINKED)
    assert not [path for path in SOURCE.rglob("*.py") if not (path.parent / "__init__.py").exists()]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_a_stray_top_level_folder(package: str) -> None:
    offences = [
        f"{path.relative_to(SOURCE)}:{line}: {imported}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, imported in imports_of(tree_of(path))
        if imported.split(".")[0] in PACKAGES
    ]
    assert not offences, "\n".join(offences)
