"""`quorate` with all its commands."""

import sys
from collections.abc import Sequence
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


def every_command() -> typer.Typer:
    """Return `quorate` with everything that it can do."""
    from quorate.cli import demo as demonstration
    from quorate.cli.commands import acl_commands as acls
    from quorate.cli.commands import broker_commands as brokers
    from quorate.cli.commands import certs_commands as certs
    from quorate.cli.commands import client_commands as client
    from quorate.cli.commands import cluster_commands as cluster
    from quorate.cli.commands import config_commands as configs
    from quorate.cli.commands import data_commands as data
    from quorate.cli.commands import election_commands as elections
    from quorate.cli.commands import feature_commands as features
    from quorate.cli.commands import group_commands as groups
    from quorate.cli.commands import log_commands as log_dump
    from quorate.cli.commands import metadata_commands as metadata
    from quorate.cli.commands import pipeline_commands as pipeline
    from quorate.cli.commands import quorum_commands as quorum
    from quorate.cli.commands import quota_commands as quotas
    from quorate.cli.commands import raft_commands as raft
    from quorate.cli.commands import reassign_commands as reassign
    from quorate.cli.commands import record_commands as records
    from quorate.cli.commands import server_commands as server
    from quorate.cli.commands import snapshot_commands as snapshot
    from quorate.cli.commands import state_change_commands as changes
    from quorate.cli.commands import storage_commands as storage
    from quorate.cli.commands import top_command
    from quorate.cli.commands import topic_commands as topics
    from quorate.cli.commands import user_commands as users

    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="A self-managed metadata quorum, and a broker cluster that speaks Kafka's protocol.",
        epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 nobody reached, "
        "4 storage can't be used. Example: quorate cluster start",
    )
    app.add_typer(cluster.app, name="cluster")
    app.add_typer(server.app, name="server")
    app.add_typer(storage.app, name="storage")
    app.add_typer(quorum.app, name="quorum")
    app.add_typer(certs.app, name="certs")
    app.add_typer(raft.app, name="raft")
    app.command("append", epilog="Example: quorate append -l localhost:9099 '{\"set\": 1}'")(client.append)
    app.command("read", epilog="Example: quorate read -l localhost:9099 set")(client.read)
    app.command("watch", epilog="Example: quorate watch -l localhost:9099 --from 0")(client.watch)
    app.add_typer(topics.app, name="topics")
    app.add_typer(records.app, name="records")
    app.add_typer(configs.app, name="configs")
    app.add_typer(quotas.app, name="quotas")
    app.add_typer(acls.app, name="acls")
    app.add_typer(users.app, name="users")
    app.add_typer(features.app, name="features")
    app.add_typer(data.app, name="log-dirs")
    app.command("delete-records", epilog="Example: quorate delete-records -t orders:0=500 -t orders:1=-1")(
        data.delete_records
    )
    app.add_typer(brokers.app, name="brokers")
    app.add_typer(reassign.app, name="reassign-partitions")
    app.add_typer(groups.app, name="groups")
    app.add_typer(log_dump.app, name="log")
    app.add_typer(metadata.app, name="metadata")
    app.add_typer(snapshot.app, name="snapshot")
    app.add_typer(pipeline.app, name="pipeline")
    app.command(
        "leader-election",
        epilog="Example: quorate leader-election --election-type preferred --all-topic-partitions",
    )(elections.leader_election)
    app.command("state-changes", epilog="Example: quorate state-changes --topic orders --since 10m")(
        changes.state_changes
    )
    app.command("top", epilog="Example: quorate top --interval 1")(top_command.top)
    app.command("demo", epilog="Example: quorate demo --file README.md")(demonstration.demo)
    app.callback()(_quorate)
    return app


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
