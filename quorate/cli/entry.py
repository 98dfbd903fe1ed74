"""The console script `quorate`, which says what to install where only the library's core is."""

import sys

from quorate.runtime import MissingExtraError, need


def main() -> None:
    try:
        need("The quorate command", "typer", "rich", "kio", extra="cli")
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    from quorate.cli.main import main as run

    run()
