"""`quorate` with all its commands."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from quorate.cli.console import connections
from quorate.cli.console.cli_errors import CommandExit

_CONFIG: Final = "--command-config"


class _Commands(TyperGroup):
    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            return super().main(_configured_first(given), *rest, **options)
        except CommandExit as ended:
            sys.exit(ended.code)


def _configured_first(args: list[str]) -> list[str]:
    """Take `--command-config` from behind the command too, where Kafka's tools have it."""
    for index, each in enumerate(args):
        if each == "--":
            break
        if each == _CONFIG or each.startswith(f"{_CONFIG}="):
            after = index + (2 if each == _CONFIG else 1)
            return [*args[index:after], *args[:index], *args[after:]]
    return args


_GROUPS: Final = {
    "cluster": "cluster_commands",
    "server": "server_commands",
    "storage": "storage_commands",
    "quorum": "quorum_commands",
    "certs": "certs_commands",
    "raft": "raft_commands",
    "topics": "topic_commands",
    "records": "record_commands",
    "configs": "config_commands",
    "quotas": "quota_commands",
    "acls": "acl_commands",
    "users": "user_commands",
    "features": "feature_commands",
    "log-dirs": "data_commands",
    "brokers": "broker_commands",
    "reassign-partitions": "reassign_commands",
    "groups": "group_commands",
    "log": "log_commands",
    "metadata": "metadata_commands",
    "snapshot": "snapshot_commands",
    "pipeline": "pipeline_commands",
}
_COMMANDS: Final = {
    "append": ("commands.client_commands", "-l localhost:9099 '{\"set\": 1}'"),
    "read": ("commands.client_commands", "-l localhost:9099 set"),
    "watch": ("commands.client_commands", "-l localhost:9099 --from 0"),
    "delete-records": ("commands.data_commands", "-t orders:0=500 -t orders:1=-1"),
    "leader-election": ("commands.election_commands", "--election-type preferred --all-topic-partitions"),
    "state-changes": ("commands.state_change_commands", "--topic orders --since 10m"),
    "top": ("commands.top_command", "--interval 1"),
    "demo": ("demo", "--file README.md"),
}
"""The module that has the function of the same name, and how to call it for an example."""


def every_command(args: Sequence[str] = ()) -> typer.Typer:
    """Return `quorate` with everything that it can do. With `args` only with the command that they name, if
    they begin with one: all of them take longer to make than most take to run."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="A self-managed metadata quorum, and a broker cluster that speaks Kafka's protocol.",
        epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 nobody reached, "
        "4 storage can't be used. Example: quorate cluster start",
    )
    all_of_them = _GROUPS.keys() | _COMMANDS.keys()
    wanted = all_of_them & {_first_word(args)} or all_of_them
    for name, module in _GROUPS.items():
        if name in wanted:
            app.add_typer(import_module(f"quorate.cli.commands.{module}").app, name=name)
    for name, (module, example) in _COMMANDS.items():
        if name in wanted:
            function = getattr(import_module(f"quorate.cli.{module}"), name.replace("-", "_"))
            app.command(name, epilog=f"Example: quorate {name} {example}")(function)
    app.callback()(_quorate)
    return app


def _first_word(args: Sequence[str]) -> str | None:
    """The first argument behind `--command-config`."""
    rest = _configured_first(list(args))
    if rest and rest[0].partition("=")[0] == _CONFIG:
        del rest[: 2 if rest[0] == _CONFIG else 1]
    return rest[0] if rest else None


def _print_version(wanted: bool) -> None:
    if wanted:
        from quorate import __version__

        typer.echo(f"quorate {__version__}")
        raise typer.Exit


def _quorate(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    command_config: Annotated[
        Path | None,
        typer.Option(
            _CONFIG,
            metavar="FILE",
            help="How to reach a protected cluster, in the keys of Kafka's clients. It may stand behind the "
            "command.",
        ),
    ] = None,
) -> None:
    """A self-managed metadata quorum, and a broker cluster that speaks Kafka's protocol."""
    connections.configure(command_config)
