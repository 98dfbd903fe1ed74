"""`quorate groups`: list, describe, reset offsets, delete groups and offsets."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption
from quorate.cli.console.cli_errors import CommandError, ExitCode, fail, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from quorate.broker.admin.admin_client import AdminClient, TopicPartition
    from quorate.broker.admin.groups import DescribedGroup, PartitionView
    from quorate.cli.commands.offset_resets import ResetTarget, Scope

app = typer.Typer(
    no_args_is_help=True,
    help="Consumer groups: members, committed offsets, lag.",
    epilog="Example: quorate groups describe -g billing",
)

GroupOption = Annotated[str, typer.Option("--group", "-g", help="The group's id.")]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC[:0,1]", help="A topic, or some partitions. Repeatable."),
]


@app.command("list", epilog="Example: quorate groups list --state Empty")
def list_all(
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only groups in this state, such as Stable or Empty, in any case. Repeatable."),
    ] = None,
    group_type: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only groups of this type, such as classic, in any case. Repeatable."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List the groups of all brokers."""
    from quorate.broker.admin.groups import list_groups

    found = ask(bootstrap, lambda admin: list_groups(admin, states=state or (), types=group_type or ()))
    if as_json:
        print_json(
            [
                {
                    "group": each.group_id,
                    "protocolType": each.protocol_type,
                    "state": each.state,
                    "type": each.group_type,
                }
                for each in found
            ]
        )
        return
    print_rows(
        ("group", "protocol type", "state", "type"),
        [(each.group_id, each.protocol_type, each.state, each.group_type) for each in found],
    )


@app.command(epilog="Example: quorate groups describe -g billing --members")
def describe(
    group: GroupOption,
    state: Annotated[bool, typer.Option("--state", help="Show the group in one row.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show the members.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the partitions of a group: committed offset, log end offset, lag and member.

    The lag is the number of records that the group has not committed yet. A partition without a member is
    one that the group has committed and nobody reads now.
    """
    if state and members:
        raise wrong_usage("--state and --members show different tables; give one of them")
    from quorate.broker.admin.groups import describe_group, partition_views

    async def read(admin: "AdminClient") -> "tuple[DescribedGroup, list[PartitionView]]":
        found = await describe_group(admin, group)
        if found is None:
            raise CommandError(f"group {group}: there is no such group; `quorate groups list` shows all")
        return found, [] if state or members else await partition_views(admin, found)

    found, partitions = ask(bootstrap, read)
    if state:
        _print_state(found, as_json=as_json)
    elif members:
        _print_members(found, as_json=as_json)
    else:
        _print_partitions(found, partitions, as_json=as_json)


def _print_state(group: "DescribedGroup", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "group": group.group_id,
                "state": group.state,
                "coordinator": str(group.coordinator),
                "protocolType": group.protocol_type,
                "assignor": group.protocol,
                "members": len(group.members),
            }
        )
        return
    print_rows(
        ("group", "coordinator", "assignor", "state", "members"),
        [(group.group_id, group.coordinator, group.protocol or "-", group.state, len(group.members))],
    )


def _print_members(group: "DescribedGroup", *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "memberId": each.member_id,
                    "instanceId": each.instance_id,
                    "clientId": each.client_id,
                    "host": each.host,
                    "partitions": [{"topic": topic, "partition": part} for topic, part in each.partitions],
                }
                for each in group.members
            ]
        )
        return
    print_rows(
        ("member", "instance", "client", "host", "count", "partitions"),
        [
            (
                each.member_id,
                each.instance_id or "-",
                each.client_id,
                each.host,
                len(each.partitions),
                ", ".join(f"{topic}-{part}" for topic, part in each.partitions),
            )
            for each in group.members
        ],
    )


def _print_partitions(group: "DescribedGroup", partitions: "list[PartitionView]", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "group": group.group_id,
                "state": group.state,
                "partitions": [
                    {
                        "topic": each.topic,
                        "partition": each.partition,
                        "committedOffset": each.committed,
                        "logEndOffset": each.end,
                        "lag": each.lag,
                        "memberId": None if each.member is None else each.member.member_id,
                        "clientId": None if each.member is None else each.member.client_id,
                        "host": None if each.member is None else each.member.host,
                    }
                    for each in partitions
                ],
            }
        )
        return
    rows = []
    for each in partitions:
        numbers = (each.committed, each.end, each.lag)
        member = each.member
        rows.append(
            (
                each.topic,
                each.partition,
                *("-" if number is None else number for number in numbers),
                *(("-",) * 3 if member is None else (member.member_id, member.host, member.client_id)),
            )
        )
    print_rows(("topic", "partition", "committed", "log end", "lag", "member", "host", "client"), rows)
    if not group.members:
        typer.echo(f"group {group.group_id} has no members ({group.state})", err=True)


@app.command("reset-offsets", epilog="Example: quorate groups reset-offsets -g g -t orders --to-earliest")
def reset_offsets(
    group: GroupOption,
    topic: TopicsOption = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition that the group has committed.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the log end.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="By so many records; negative: back, to read them again.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="To the first record since this time, in UTC or with a zone."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="PnDTnHnMnS", help="To the first record of the last so much time.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="To the offsets of a file with lines of topic,partition,offset.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit the offsets. Without it they are only shown.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the new offsets of a group without members, and commit them with --execute.

    An offset outside of the log becomes its nearest end; a time after the last record becomes the log end.
    """
    from quorate.broker.admin.groups import commit_offsets, describe_group
    from quorate.cli.commands.offset_resets import ResetTarget, plan_reset

    given = [to_earliest, to_latest, to_offset is not None, shift_by is not None]
    given += [to_datetime is not None, by_duration is not None, from_file is not None]
    if sum(given) != 1:
        raise wrong_usage(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --shift-by, --to-datetime, "
            "--by-duration and --from-file"
        )
    if (bool(topic) + all_topics + (from_file is not None)) != 1:
        raise wrong_usage("give --topic or --all-topics; --from-file names its partitions itself")
    with user_errors():
        scope, target = _reset_of(
            topic,
            ResetTarget(earliest=to_earliest, latest=to_latest, offset=to_offset, shift_by=shift_by),
            to_datetime=to_datetime,
            by_duration=by_duration,
            from_file=from_file,
        )

    async def reset(admin: "AdminClient") -> "dict[TopicPartition, int]":
        found = await describe_group(admin, group)
        if found is not None and found.state != "Empty":
            raise CommandError(
                f"group {group} is {found.state}: offsets can only be reset while it has no members; "
                "stop them first"
            )
        plan = await plan_reset(admin, group, scope, target)
        if execute:
            await commit_offsets(admin, group, plan)
        return plan

    plan = ask(bootstrap, reset)
    if as_json:
        rows = [
            {"topic": name, "partition": part, "newOffset": offset} for (name, part), offset in plan.items()
        ]
        print_json({"group": group, "executed": execute, "partitions": rows})
        return
    print_rows(
        ("group", "topic", "partition", "new offset"),
        [(group, name, part, offset) for (name, part), offset in plan.items()],
    )
    if not execute:
        typer.echo("nothing is committed yet; add --execute to do so", err=True)


def _reset_of(
    topic: list[str] | None,
    target: "ResetTarget",
    *,
    to_datetime: str | None,
    by_duration: str | None,
    from_file: Path | None,
) -> tuple["Scope", "ResetTarget"]:
    """Return the partitions and the target. Exits with what can't be read."""
    from dataclasses import replace

    from quorate.cli.commands.offset_resets import (
        parse_duration_ms,
        parse_offsets_file,
        parse_topics,
    )
    from quorate.cli.console.times import parse_time_ms

    if to_datetime is not None:
        target = replace(target, timestamp_ms=parse_time_ms(to_datetime, option="--to-datetime"))
    elif by_duration is not None:
        now_ms = round(time.time() * 1000)
        target = replace(target, timestamp_ms=max(now_ms - parse_duration_ms(by_duration), 0))
    elif from_file is not None:
        try:
            text = from_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise wrong_usage(f"--from-file: {from_file}: {error}") from None
        target = replace(target, file=parse_offsets_file(text))
    return parse_topics(topic or ()), target


@app.command(epilog="Example: quorate groups delete -g billing")
def delete(
    group: Annotated[list[str], typer.Option("--group", "-g", help="The group's id. Repeatable.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups without members, with their committed offsets."""
    from quorate.broker.admin.groups import delete_groups

    outcomes = ask(bootstrap, lambda admin: delete_groups(admin, group))
    _print_outcomes({f"group {each}": error for each, error in outcomes.items()})


@app.command("delete-offsets", epilog="Example: quorate groups delete-offsets -g billing -t orders:0,1")
def delete_committed(
    group: GroupOption,
    topic: TopicsOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete committed offsets of topics that no member subscribes to."""
    from quorate.broker.admin.groups import delete_offsets
    from quorate.cli.commands.offset_resets import parse_topics, whole_topics

    if not topic:
        raise wrong_usage("name the topics with --topic")
    with user_errors():
        scope = parse_topics(topic)

    async def delete(admin: "AdminClient") -> "dict[str, ErrorCode]":
        whole = await whole_topics(admin, scope)
        outcomes = await delete_offsets(admin, group, sorted({*whole, *scope.partitions}))
        return {f"{key} of group {group}": error for key, error in outcomes.items()}

    _print_outcomes(ask(bootstrap, delete))


def _print_outcomes(outcomes: "dict[str, ErrorCode]") -> None:
    """Print what was deleted, and exit with the first of those that could not be."""
    from quorate.broker.admin.groups import reason_of

    refused = {what: error for what, error in outcomes.items() if error}
    for what in outcomes:
        if what not in refused:
            typer.echo(f"deleted {what}")
    if refused:
        reasons = "; ".join(f"{what}: {reason_of(error)}" for what, error in refused.items())
        raise fail(f"not deleted: {reasons}", ExitCode.FAILED)
