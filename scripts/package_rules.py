"""The packages of the source, and the imports that each may have. `tests/test_architecture.py` holds it."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "quorate"
SIMULATOR: Final = "tests.simulator"
"""A package beside `quorate`, held to the same form."""
EVERYTHING: Final = ("",)
NOUNS: Final = ("bounds", "error_code", "types", "value", "lazy_names", "present", "invariant")
"""Modules that every package may import."""
MAY_IMPORT: Final[Mapping[str, tuple[str, ...]]] = {
    "runtime": (),
    "cbor": (),
    "kafka_bytes": ("runtime",),
    "quorum_state": ("runtime",),
    "log": ("kafka_bytes", "runtime"),
    "raft.core": (),
    "raft": ("cbor", "quorum_state", "log", "runtime"),
    "metrics": ("raft", "runtime"),
    "broker.settings": (),
    "broker.metadata": ("broker.settings", "cbor", "runtime"),
    "broker.wire": ("broker.settings", "kafka_bytes", "runtime"),
    "broker.controller": ("broker.metadata", "broker.settings", "cbor", "raft", "runtime"),
    "broker.replication": (
        "broker.controller",
        "broker.metadata",
        "broker.settings",
        "broker.wire",
        "log",
        "runtime",
    ),
    "broker.groups": (
        "broker.replication",
        "broker.settings",
        "broker.wire",
        "kafka_bytes",
        "log",
        "runtime",
    ),
    "broker.admin": ("broker.controller", "broker.groups", "broker.wire", "raft", "runtime"),
    "broker.apis": ("broker", "log", "raft", "runtime"),
    "broker": ("log", "metrics", "quorum_state", "raft", "runtime"),
    "spark_source": ("broker.metadata", "broker.wire", "cbor", "log", "runtime"),
    "simulation": ("log", "quorum_state", "raft", "runtime"),
    "cli": EVERYTHING,
}
"""Below `quorate`, each besides itself. Of two rows that fit a module the more specific one counts."""


def within(module: str, package: str) -> bool:
    return not package or module == package or module.startswith(f"{package}.")


def parent(module: str) -> str:
    return module.rpartition(".")[0]


@cache
def tree_of(path: Path) -> ast.Module:
    """The module's syntax tree, parsed once."""
    return ast.parse(path.read_text())


class Source:
    """The modules of a package and what they import from it, read from the files. Names are below it."""

    def __init__(self, name: str = "quorate") -> None:
        self.name = name
        root = ROOT.joinpath(*name.split("."))
        self.trees: dict[str, ast.Module] = {}
        self._imports: dict[str, tuple[tuple[int, str, str], ...]] = {}
        self.packages: set[str] = set()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                self.packages.add(".".join(parts))
            self.trees[".".join(parts)] = tree_of(path)

    def imports(self, module: str) -> tuple[tuple[int, str, str], ...]:
        """(line, module or package, name) of each name that `module` imports from ours. A module that is
        imported from its package is named itself, with an empty name."""
        found = self._imports.get(module)
        if found is None:
            found = self._imports[module] = tuple(self._imports_of(module))
        return found

    def _imports_of(self, module: str) -> Iterator[tuple[int, str, str]]:
        for node in ast.walk(self.trees[module]):
            if not isinstance(node, ast.ImportFrom) or not node.module or not within(node.module, self.name):
                continue
            source = node.module.removeprefix(self.name).lstrip(".")
            for alias in node.names:
                full = f"{source}.{alias.name}".lstrip(".")
                yield (node.lineno, full, "") if full in self.trees else (node.lineno, source, alias.name)

    def purpose(self, package: str) -> str:
        """The first sentence of its docstring, with no full stop."""
        text = ast.get_docstring(self.trees[package]) or ""
        return " ".join(text.partition("\n\n")[0].split()).rstrip(".")

    def children(self, package: str) -> dict[str, set[str]]:
        """The modules and packages directly in `package`, and which of the others each imports, itself or by
        what is in it."""
        prefix = f"{package}." if package else ""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.trees:
            child = _child(prefix, module)
            if child is None:
                continue
            imported = {_child(prefix, source) for _, source, _ in self.imports(module)}
            found[child] |= {each for each in imported if each is not None and each != child}
        return dict(found)

    def floors(self, package: str) -> dict[str, set[str]]:
        """The packages in `package`, itself included, each with the modules directly in it, and the packages
        that these import from."""
        found: dict[str, set[str]] = {each: set() for each in self.packages if within(each, package)}
        for module in self.trees:
            room = module if module in self.packages else parent(module)
            for _, source, _ in self.imports(module) if room in found else ():
                other = source if source in self.packages else parent(source)
                if other in found and other != room:
                    found[room].add(other)
        return found

    def windows(self) -> Iterator[str]:
        """Imports from a module by another package, past the door: the package's own `__init__`, or a module
        that its `__all__` names."""
        for module in self.trees:
            for line, source, name in self.imports(module):
                package = parent(source)
                if source in self.packages or not package or within(module, package):
                    continue
                if source.rpartition(".")[2] in self._exported(package):
                    continue
                yield f"{module}:{line}: imports {name or 'it'} from {source}, past {package}"

    def _exported(self, package: str) -> set[str]:
        for node in self.trees[package].body:
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
            ):
                return set(ast.literal_eval(node.value))
        return set()


def _child(prefix: str, module: str) -> str | None:
    rest = module.removeprefix(prefix) if module.startswith(prefix) else ""
    return prefix + rest.partition(".")[0] if rest else None


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of nodes each of which reaches the others."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in graph if other in reach[node] and node in reach[other]))
        for node in graph
        if node in reach[node]
    }
    return [list(group) for group in sorted(groups)]


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        for each in graph.get(ahead.pop(), ()):
            if each not in seen:
                seen.add(each)
                ahead.append(each)
    return seen
