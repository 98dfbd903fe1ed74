"""`quorate top`: a live view of a cluster in the terminal."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quorate.cli.commands.options import BootstrapOption
from quorate.cli.console.cli_errors import user_errors
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask_cluster
from quorate.cli.console.output import print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from quorate.broker.admin.admin_client import AdminClient
    from quorate.cli.top.board import Board, Traffic

_REMEMBERED: Final = 8
"""The lines that say what happened."""
_ROWS: Final = 15
"""The topics, and the groups, that a screen has room for."""


def top(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print the difference, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per look.")] = False,
) -> None:
    """Watch a cluster: throughput of brokers and topics, the quorum, lag of groups, and what happens, until
    Ctrl-C.

    Rates are differences of log end offsets, and of bytes that leaders store.
    """
    import time

    from rich.live import Live

    from quorate.broker.wire.wire_errors import KafkaError
    from quorate.runtime import NetworkError

    events: deque[str] = deque(maxlen=_REMEMBERED)
    last: Board | None = None

    async def look(admin: "AdminClient") -> None:
        nonlocal last
        async for board in _boards(admin, interval):
            events.extend(board.happened)
            show(board)
            last = board
            if once:
                return

    def show(board: "Board") -> None:
        if as_json:
            print_json(asdict(board))
        elif live.is_started:
            live.update(_screen(board, events), refresh=True)
        else:
            live.console.print(_screen(board, events))

    live = Live(auto_refresh=False, screen=True)
    on_screen = live.console.is_terminal and not once and not as_json
    try:
        with user_errors(), live if on_screen else nullcontext():
            while True:
                try:
                    ask_cluster(bootstrap, look)
                    return
                except (NetworkError, KafkaError) as error:
                    if last is None:
                        raise
                    events.append(str(error))
                    show(last)
                    time.sleep(interval)
    except* KeyboardInterrupt:
        pass


async def _boards(admin: "AdminClient", interval_s: float) -> "AsyncIterator[Board]":
    import trio

    from quorate.cli.top.board import board_of
    from quorate.cli.top.sampling import take_sample

    before = await take_sample(admin)
    while True:
        await trio.sleep(interval_s)
        now = await take_sample(admin)
        yield board_of(before, now)
        before = now


def _screen(board: "Board", events: "deque[str]") -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    leader = (
        "no leader is known" if board.leader is None else f"node {board.leader} leads epoch {board.epoch}"
    )
    behind = "" if board.voters_behind is None else f", the last voter lacks {board.voters_behind} records"
    fenced = f"; fenced: {', '.join(map(str, board.fenced))}" if board.fenced else ""
    moving = f"; {board.moving} partitions are moving" if board.moving else ""
    parts: list[RenderableType] = [
        Text(f"quorum: {leader}{behind}{fenced}{moving}"),
        _table("broker", "leads", board.brokers),
        _table("topic", "partitions", board.topics[:_ROWS]),
    ]
    if len(board.topics) > _ROWS:
        parts.append(Text(f"and {len(board.topics) - _ROWS} topics more"))
    if board.groups:
        lags = ", ".join(f"{name} {lag}" for name, lag in board.groups[:_ROWS])
        parts.append(Text(f"lag of groups, in records: {lags}"))
    parts += [Text(each) for each in events]
    return Group(*parts)


def _table(kind: str, counted: str, rows: "tuple[Traffic, ...]") -> "RenderableType":
    from quorate.cli.console.rows import Rows

    return Rows(
        (kind, "records/s", "bytes/s", counted, "not in sync", "no leader"),
        [
            (
                each.name,
                _rate(each.records_per_s),
                _rate(each.bytes_per_s),
                each.partitions,
                each.not_in_sync,
                each.without_leader,
            )
            for each in rows
        ],
        folds=True,
    )


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
