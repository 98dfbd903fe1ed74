"""The `quorate` command."""

import sys

from quorate.cli.node.early_signals import end_at_once_while_starting

# Here, because it has to be before the imports of the commands, which take most of a start.
end_at_once_while_starting(sys.argv)
