"""`quorate metadata`: the metadata image as a file tree, earlier images, and their differences."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BrokersOption, JsonOption
from quorate.cli.console.cli_errors import CommandExit, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, network, parse_addresses
from quorate.cli.console.output import print_json

if TYPE_CHECKING:
    from quorate.cli.images.image_tree import Json, TreeDirectory
    from quorate.cli.images.replay import Moment, Replay
    from quorate.cli.images.tree_shell import TreeShell
    from quorate.history import MetadataHistory

app = typer.Typer(
    no_args_is_help=True,
    help="The metadata of the cluster: as it is, as it was, what changed.",
    epilog="Example: quorate metadata shell ls /topics/byName",
)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        help="Read this folder of a node, which may be down or running. Nothing is written.",
        exists=True,
        file_okay=False,
    ),
]


@app.command(epilog="Example: quorate metadata shell -d ./quorate-data/1/data cat /topics/byName/orders/0")
def shell(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Run this command and end. Default: ask for commands."),
    ] = None,
    brokers: BrokersOption = None,
    data: DataOption = None,
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", "-s", help="Read this .checkpoint file.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Show the metadata as a tree of files, with commands like those of a shell: ls, cd, pwd, cat, tree,
    find, man, exit.

    A live cluster and a folder are read again before each command. Commands may also come from a pipe, one a
    line.
    """
    with user_errors():
        replay = open_replay(brokers, data, snapshot)
        from quorate.cli.images.replay import LATEST
        from quorate.cli.images.tree_shell import TreeShell

        replay.move_to(LATEST)
        tree = TreeShell(lambda: _tree_of(replay))
        if words:
            for line in tree.run(words):
                typer.echo(line)
            return
        if not sys.stdin.isatty():
            _run_script(tree)
            return
    _converse(tree, replay)


@app.command(epilog="Example: quorate metadata at --timestamp 2026-11-22T09:30:00Z /topics/byName/orders")
def at(
    path: Annotated[
        str | None, typer.Argument(help="A path in the tree of files to print. Default: a summary.")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", min=0, help="With every record up to this offset (inclusive)."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            "-t",
            help="With every record before the first that is later than this: milliseconds since 1970, or "
            "2026-11-22T09:30:00Z; without a zone, in that of this machine.",
        ),
    ] = None,
    brokers: BrokersOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the metadata as it was. Default: as it is, with the last record that is committed.

    The history reaches back to the oldest snapshot that is still there, or to the first record.
    """
    if offset is not None and timestamp is not None:
        raise wrong_usage("give --offset or --timestamp, not both")
    with user_errors():
        from quorate.cli.images.image_tree import plain_tree
        from quorate.cli.images.replay import LATEST, Moment
        from quorate.cli.images.tree_shell import absolute, expand, tree_lines

        moment = LATEST
        if offset is not None or timestamp is not None:
            moment = Moment(offset, None if timestamp is None else _parse_time(timestamp, "--timestamp"))
        replay = open_replay(brokers, data, None)
        replay.move_to(moment)
        if path is None:
            _print_summary(replay, as_json=as_json)
            return
        found = expand(_tree_of(replay), absolute(path))
        if as_json:
            print_json({"/" + "/".join(parts): plain_tree(node) for parts, node in found})
            return
        typer.echo(_header(replay), err=True)
        for parts, node in found:
            for line in tree_lines(parts[-1] if parts else "/", node):
                typer.echo(line)


@app.command(epilog="Example: quorate metadata diff 1200 1300 --data ./quorate-data/1/data")
def diff(
    before: Annotated[
        str,
        typer.Argument(metavar="BEFORE", help="An offset (inclusive), or a time: 2026-11-22T09:30Z."),
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="The same. Default: the last that is committed.")
    ] = None,
    brokers: BrokersOption = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per change.")] = False,
) -> None:
    """Show what is other in the later of two images: + is new, - is gone, ~ has changed."""
    with user_errors():
        from quorate.cli.images.image_changes import image_changes
        from quorate.cli.images.replay import LATEST

        first = _parse_moment(before)
        second = LATEST if after is None else _parse_moment(after)
        replay = open_replay(brokers, data, None)
        replay.move_to(first)
        earlier = replay.image.copy()
        replay.move_to(second)
        for change in image_changes(earlier, replay.image):
            typer.echo(json.dumps(change.as_dict()) if as_json else str(change))


@app.command(epilog="Example: quorate metadata page ./quorate-data/1/data --port 8080")
def page(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A node's folder. The node may be down or running.", exists=True, file_okay=False
        ),
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", "-s", help="Show this .checkpoint file.", exists=True, dir_okay=False),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65_535, help="The port. 0: any free one.")
    ] = 0,
) -> None:
    """Show the metadata of a folder or a snapshot as a page, at any offset that is kept, until Ctrl-C.

    It is the page that every running node has at / of its metrics endpoint. Nothing is written, and only this
    machine reaches it.
    """
    if (folder is None) == (snapshot is None):
        raise wrong_usage("give one place to read from: a folder, or --snapshot")
    with user_errors():
        import trio

        from quorate.cli.images.files_page import serve_files
        from quorate.history import FolderLog, SnapshotFile
        from quorate.runtime.real import short_collections

        history: MetadataHistory
        if snapshot is not None:
            history = SnapshotFile(path=str(snapshot))
        else:
            history = FolderLog(path=str(folder))
        with suppress(KeyboardInterrupt), short_collections():
            trio.run(
                partial(
                    serve_files,
                    history,
                    network(),
                    port,
                    warn=lambda text: typer.echo(f"quorate: {text}", err=True),
                    listening=lambda address: typer.echo(
                        f"the page of {history.place} listens: http://{address}/ (Ctrl-C ends it)"
                    ),
                )
            )


def open_replay(brokers: str | None, data: Path | None, snapshot: Path | None) -> "Replay":
    """Open the one place that is given. Of a folder its own settings are read, of all others nothing yet."""
    given = [each for each in (brokers, data, snapshot) if each is not None]
    if len(given) > 1:
        raise wrong_usage(
            "give one place to read from: --bootstrap-server, --data or --snapshot"
            if snapshot is not None
            else "give --bootstrap-server or --data, not both"
        )
    from quorate.cli.images.replay import Replay
    from quorate.history import ClusterLog, FolderLog, SnapshotFile

    history: MetadataHistory
    if snapshot is not None:
        history = SnapshotFile(path=str(snapshot))
    elif data is not None:
        history = FolderLog(path=str(data))
    else:
        history = ClusterLog(
            bootstrap_servers=tuple(parse_addresses(brokers or DEFAULT_BOOTSTRAP)), network=network()
        )
    return Replay(history, warn=lambda text: typer.echo(f"quorate: {text}", err=True))


def _tree_of(replay: "Replay") -> "TreeDirectory":
    from quorate.cli.images.image_tree import image_tree

    return image_tree(replay.image, _local(replay))


def _local(replay: "Replay") -> "dict[str, Json]":
    """Return the facts about the image itself."""
    from quorate import __version__
    from quorate.cli.images.replay import shown_time

    return {
        "epoch": replay.epoch,
        "inTransaction": replay.in_transaction,
        "offset": replay.end_offset - 1,
        "source": replay.place,
        "time": None if replay.timestamp_ms is None else shown_time(replay.timestamp_ms),
        "timestamp": replay.timestamp_ms,
        "version": __version__,
    }


def _header(replay: "Replay") -> str:
    local = _local(replay)
    return f"As of offset {local['offset']}, epoch {local['epoch']}, {local['time']}, from {local['source']}"


def _print_summary(replay: "Replay", *, as_json: bool) -> None:
    image = replay.image
    summary: dict[str, Json] = {
        **_local(replay),
        "brokers": len(image.brokers),
        "fencedBrokers": sum(each.fenced for each in image.brokers.values()),
        "topics": len(image.topics),
        "partitions": image.partition_count(),
        "leaderless": image.leaderless_count,
        "reassigning": image.reassigning_count,
        "notLedByPreferred": image.imbalanced_count,
        "features": dict(image.features),
        "nextProducerId": image.next_producer_id,
    }
    if as_json:
        print_json(summary)
        return
    for name, value in summary.items():
        typer.echo(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")


def _parse_moment(text: str) -> "Moment":
    from quorate.cli.images.replay import Moment

    if text.isascii() and text.isdecimal():
        return Moment(last_offset=int(text))
    return Moment(timestamp_ms=_parse_time(text, "BEFORE and AFTER"))


def _parse_time(text: str, option: str) -> int:
    import datetime

    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        parsed = datetime.datetime.fromisoformat(text)
        return round(parsed.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise wrong_usage(
            f"{option}: {text!r} is no time; write 2026-11-22T09:30:00Z, or milliseconds since 1970"
        ) from None


def _run_script(tree: "TreeShell") -> None:
    """Run commands from standard input. The first that fails ends it."""
    for line in sys.stdin:
        for printed in tree.run_line(line):
            typer.echo(printed)
        if tree.ended:
            return


def _converse(tree: "TreeShell", replay: "Replay") -> None:
    """Run commands from the terminal. A failure is printed, and the next command asked for."""
    typer.echo(f"{_header(replay)}. `help` lists the commands.", err=True)
    with _completion(tree):
        while not tree.ended:
            try:
                line = input(f"{tree.directory} > ")
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo()
                continue
            with suppress(CommandExit, KeyboardInterrupt), user_errors():
                if line.strip():
                    _refresh(replay)
                for printed in tree.run_line(line):
                    typer.echo(printed)


def _refresh(replay: "Replay") -> None:
    """Go on to what is committed now. Where that fails, the image stays as it is."""
    from quorate.cli.images.replay import LATEST

    with suppress(CommandExit), user_errors():
        replay.move_to(LATEST)


@contextmanager
def _completion(tree: "TreeShell") -> Iterator[None]:
    """Complete commands and paths with the tab key, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = tree.complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])
