"""Front doors that import a name when it is first used (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `package`'s `__init__`. `homes`: the module of each name that it exports, which
    may be the module itself."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        return home if home.__name__.endswith(f".{name}") else getattr(home, name)

    return find
