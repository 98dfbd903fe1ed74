"""Classes and functions of a test's program, which the processes of nodes import."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import FunctionType

from quorate.testing.cluster_error import ClusterError


@dataclass(frozen=True, slots=True)
class Importable:
    """The place of a class or a function."""

    module: str
    name: str
    """Its name in the module, with dots for a method of a class."""
    file: str | None = None
    """The file of the module, for one that can't be imported by its name, as pytest's modules of tests."""

    @classmethod
    def of(cls, value: object, what: str) -> "Importable":
        """Return the place of a class, a function, or a text `module:Name`. `what`: its role, for errors.
        Raises `ClusterError` if another process can't import it."""
        if isinstance(value, str):
            module, separator, name = value.partition(":")
            if not (separator and module and name):
                raise ClusterError(f"{what} {value!r}: write module:Name, such as orders.state:Orders")
            return cls(module, name)
        if not isinstance(value, type | FunctionType):
            raise ClusterError(f"{what} is {value!r}; pass a class or a function, or its name as module:Name")
        module, name = value.__module__, value.__qualname__
        if "<" in name:
            raise ClusterError(
                f"{what} {name} is made inside of a function, where the processes of the nodes can't import "
                "it; define it at the top of a module"
            )
        return cls(module, name, getattr(sys.modules.get(module), "__file__", None))

    def load(self) -> object:
        """Import it. Raises `ClusterError`."""
        found: object = self._load_module()
        for part in self.name.split("."):
            try:
                found = getattr(found, part)
            except AttributeError as error:
                raise ClusterError(f"{self.module} has no {self.name}; correct the name") from error
        return found

    def _load_module(self) -> object:
        if self.module != "__main__":
            try:
                return importlib.import_module(self.module)
            except ModuleNotFoundError as error:
                if self.file is None:
                    raise ClusterError(
                        f"{self.module}:{self.name} can't be imported: {error}; correct the name, or add its "
                        "folder to sys.path"
                    ) from error
        # Under another name: a program does not begin anew.
        name = "quorate_testing_main" if self.module == "__main__" else self.module
        spec = None if self.file is None else importlib.util.spec_from_file_location(name, self.file)
        if spec is None or spec.loader is None:
            raise ClusterError(f"{self.module}:{self.name} is in no file; define it in a module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
