"""Parts of the library that need more packages than its core."""

from importlib.util import find_spec


class MissingExtraError(ModuleNotFoundError):
    """A package that a part of quorate needs is not installed. The message names the extra to install."""


def need(part: str, *modules: str, extra: str) -> None:
    """Check that the modules that `part` needs are installed, without importing them.

    Raises `MissingExtraError`, whose `name` is the first missing module.
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtraError(
                f"{part} needs {module}, which is not installed: pip install 'quorate[{extra}]'", name=module
            )
