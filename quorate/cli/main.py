"""The entry of the `quorate` command.

Modules of commands import what they need when a command runs, so that `--help` is quick and a node carries
nothing that it does not use: neither the commands nor what reads their options.
"""

import os
import sys

from quorate.cli.console.cli_errors import CommandExit
from quorate.cli.node.node_process import NodeStart, run_node


def main() -> None:
    # kio makes Hypothesis strategies of its types wherever it finds Hypothesis, as in the development
    # environment. That takes a third of a second of every start, and no command has a use for them.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    node = NodeStart.parse(sys.argv)
    if node is None:
        from quorate.cli.all_commands import every_command

        every_command(sys.argv[1:])()
        return
    try:
        run_node(node)
    except CommandExit as ended:
        sys.exit(ended.code)
    except BrokenPipeError:
        # The reader of the output has ended. Nothing more can be printed, at the end of the process either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
