"""The terminal's side of every command: exit codes and messages, tables, and the way to a cluster."""

from quorate.cli.console.bootstrap import ask_cluster, connect_any, parse_addresses, run_with_client
from quorate.cli.console.cli_errors import CommandError, CommandExit, ExitCode, fail, user_errors
from quorate.cli.console.text_tables import print_table

__all__ = [
    "CommandError",
    "CommandExit",
    "ExitCode",
    "ask_cluster",
    "connect_any",
    "fail",
    "parse_addresses",
    "print_table",
    "run_with_client",
    "user_errors",
]
