"""The terminal's side of every command: exit codes and messages, output, and the way to a cluster."""

from quorate.cli.console.cli_errors import (
    CommandError,
    CommandExit,
    ExitCode,
    UsageError,
    fail,
    fail_each,
    user_errors,
    wrong_usage,
)
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask, ask_cluster, ask_quorum, parse_addresses
from quorate.cli.console.output import print_json, print_rows, print_table

__all__ = [
    "DEFAULT_BOOTSTRAP",
    "CommandError",
    "CommandExit",
    "ExitCode",
    "UsageError",
    "ask",
    "ask_cluster",
    "ask_quorum",
    "fail",
    "fail_each",
    "parse_addresses",
    "print_json",
    "print_rows",
    "print_table",
    "user_errors",
    "wrong_usage",
]
