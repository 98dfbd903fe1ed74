"""Parts of the library that need more packages than its core."""

from importlib.util import find_spec


class MissingExtraError(ModuleNotFoundError):
    """A package that a part of quorate needs is not installed. The message names the extra to install."""


def need(part: str, *modules: str, extra: str) -> None:
    """Check, without importing them, that the modules which `part` needs are installed.

    Raises `MissingExtraError`, with the first missing module as `name`.
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtraError(
                f"{part} needs {module}, which is not installed: pip install 'quorate[{extra}]'", name=module
            )
