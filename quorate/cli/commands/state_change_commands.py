"""`quorate state-changes`: the changes of replicas that the controller requested, and their outcomes."""

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BrokersOption, ControllersOption, JsonOption
from quorate.cli.console.cli_errors import user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, network, parse_addresses
from quorate.cli.console.output import print_json, print_rows, time_text
from quorate.cli.console.times import ago_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.broker.wire.own_messages import DescribeStateChangesRequest
    from quorate.cli.state_changes.cluster_reports import ClusterReports
    from quorate.cli.state_changes.lives import BrokerPart, Life
    from quorate.runtime import Address


def _since_ms(text: str) -> int | None:
    """Parse `90s`, `10m`, `1h`, `2d` or `all`, which is None."""
    if text == "all":
        return None
    since_ms = ago_ms(text)
    if since_ms is None:
        raise wrong_usage(f"--since: {text!r} is no time such as 90s, 10m, 1h, 2d, nor 'all'")
    return since_ms


def state_changes(
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only this topic. Default: all of them.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition; with --topic.")
    ] = None,
    broker: Annotated[int | None, typer.Option("--broker", min=0, help="Only this broker's part.")] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="Only what a broker has not completed, or says nothing of.")
    ] = False,
    brokers: Annotated[
        bool, typer.Option("--brokers", help="Show how far each broker is, instead of the changes.")
    ] = False,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Requests of the last 90s, 10m, 1h or 2d, or all.")
    ] = "1h",
    bootstrap: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, help="The time limit of each broker, in milliseconds.")
    ] = 5_000,
    as_json: JsonOption = False,
) -> None:
    """Show the state changes of replicas over their whole life.

    The metadata log says which controller requested a change, in which epoch, when and why. Each broker says
    when it received it, and whether it completed it, failed to, or a later change took its place. Brokers
    keep their last 10,000 changes, and none of an earlier process. A broker that is stopped or paused gives
    no answer. Times are those of each node's own clock.

    With --bootstrap-controller only controllers need be reached: they have the log and know where brokers
    listen. A broker that can't be reached there gives no answer.
    """
    if partition is not None and topic is None:
        raise wrong_usage("--partition needs --topic")
    since_ms = _since_ms(since)
    if bootstrap is not None and controllers is not None:
        raise wrong_usage("give --bootstrap-server or --bootstrap-controller, not both")
    from quorate.cli.state_changes.change_requests import read_requests
    from quorate.cli.state_changes.cluster_reports import changes_request
    from quorate.cli.state_changes.lives import join, narrow

    if controllers is None:
        addresses = parse_addresses(bootstrap or DEFAULT_BOOTSTRAP)
    else:
        addresses = parse_addresses(controllers, option="--bootstrap-controller")
    with user_errors():
        reports = _read_reports(
            addresses,
            changes_request(topic, partition, pending_only=pending),
            at_controllers=controllers is not None,
            timeout_s=timeout_ms / 1000,
        )
        read = read_requests(
            addresses, since_ms=since_ms, timeout_ms=timeout_ms, controllers=controllers is not None
        )
        if brokers:
            _show_brokers(reports, end_offset=read.end_offset, as_json=as_json)
            return
        lives = join(read.requests, reports, names=read.names, now_ms=int(time.time() * 1000))
        lives = narrow(lives, topic=topic, partition=partition, broker=broker, pending=pending)
    if as_json:
        print_json([_as_dict(each) for each in lives])
        return
    _print(lives)
    for each in reports.journals.values():
        if each.problem is not None:
            typer.echo(f"broker {each.broker_id}: {each.problem}", err=True)


def _read_reports(
    addresses: "Sequence[Address]",
    request: "DescribeStateChangesRequest",
    *,
    at_controllers: bool,
    timeout_s: float,
) -> "ClusterReports":
    import trio

    from quorate.broker.admin.admin_client import open_admin
    from quorate.cli.images.replay import LATEST, Replay
    from quorate.cli.state_changes.cluster_reports import read_reports, read_reports_by_image
    from quorate.history import ClusterLog

    async def ask_brokers() -> "ClusterReports":
        async with open_admin(network(), addresses, client_id="quorate-cli") as admin:
            return await read_reports(admin, request, timeout_s=timeout_s)

    if not at_controllers:
        return trio.run(ask_brokers)
    history = ClusterLog(bootstrap_servers=tuple(addresses), controllers=True, network=network())
    replay = Replay(history, warn=lambda line: typer.echo(line, err=True))
    replay.move_to(LATEST)
    return trio.run(partial(read_reports_by_image, replay.image, request, timeout_s=timeout_s))


def _as_dict(life: "Life") -> dict[str, object]:
    from quorate.runtime import uuid_text

    request = life.request
    return {
        "offset": life.offset,
        "timeMs": None if request is None else request.time_ms,
        "controller": None if request is None else request.controller,
        "controllerEpoch": None if request is None else request.epoch,
        "topic": life.topic,
        "topicId": None if life.topic_id is None else uuid_text(life.topic_id),
        "requested": None if request is None else request.what,
        "reason": None if request is None else request.reason,
        "brokers": [
            {
                "broker": part.broker,
                "partition": part.partition,
                "change": part.change,
                "leaderEpoch": part.leader_epoch,
                "outcome": part.outcome,
                "problem": part.problem,
                "receivedMs": part.received_ms,
                "durationMs": part.duration_ms,
            }
            for part in life.parts
        ],
    }


def _print(lives: "list[Life]") -> None:
    rows: list[list[str]] = []
    for life in lives:
        request = life.request
        head = ["before", str(life.offset), "", "", _place(life, None), "", ""]
        if request is not None:
            head = [
                _clock(request.time_ms),
                str(request.offset),
                "unknown" if request.controller is None else str(request.controller),
                str(request.epoch),
                _place(life, None),
                request.what,
                request.reason or "",
            ]
        if not life.parts:
            rows.append([*head, *[""] * 5])
        for part in life.parts:
            head[4] = _place(life, part.partition)
            rows.append([*head, *_cells(part)])
            head = [""] * 7
    print_rows(
        (
            "requested at", "offset", "controller", "epoch", "partition", "request", "why",
            "broker", "change", "received at", "took", "outcome",
        ),
        rows,
    )  # fmt: skip


def _place(life: "Life", partition: int | None) -> str:
    if life.topic_id is None:
        return ""
    name = life.topic or str(life.topic_id)
    only = None if life.request is None else life.request.partitions
    if partition is None and only is not None and len(only) == 1:
        partition = only.start
    return name if partition is None else f"{name}-{partition}"


def _cells(part: "BrokerPart") -> tuple[str, ...]:
    change = part.change or ""
    if part.leader_epoch is not None and change:
        change += f" in epoch {part.leader_epoch}"
    return (
        str(part.broker),
        change,
        "" if part.received_ms is None else _clock(part.received_ms),
        "" if part.duration_ms is None else _duration(part.duration_ms),
        part.outcome if part.problem is None else f"{part.outcome}: {part.problem}",
    )


def _clock(time_ms: int) -> str:
    return time_text(time_ms, lambda at: at.isoformat(" ", "milliseconds"))


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _show_brokers(reports: "ClusterReports", *, end_offset: int, as_json: bool) -> None:
    rows: list[dict[str, object]] = []
    assigned = {broker for brokers in reports.replicas.values() for broker in brokers}
    # The log may have been read from a node that is behind the others.
    received = [int(each.answer.received_offset) for each in reports.journals.values() if each.answer]
    newest = max(end_offset - 1, *received, -1)
    for broker_id in sorted(assigned | reports.journals.keys()):
        each = reports.journals.get(broker_id)
        answer = None if each is None else each.answer
        rows.append(
            {
                "broker": broker_id,
                "pending": None if answer is None else int(answer.pending),
                "backlog": None if answer is None else int(answer.backlog),
                "oldestMs": None if answer is None else int(answer.oldest_ms),
                "completedOffset": None if answer is None else int(answer.completed_offset),
                "recordsBehind": None if answer is None else max(newest - int(answer.completed_offset), 0),
                "problem": "not live" if each is None else each.problem,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_rows(
        ("broker", "pending", "backlog", "oldest ms", "completed offset", "records behind", "problem"),
        [list(row.values()) for row in rows],
    )
