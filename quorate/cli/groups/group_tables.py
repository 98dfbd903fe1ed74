"""The tables of `quorate groups`, and the same as JSON."""

import json
from collections.abc import Sequence
from typing import Final

import typer
from rich.table import Table
from rich.text import Text

from quorate.cli.console import print_table
from quorate.cli.groups.group_requests import DescribedGroup
from quorate.cli.groups.group_views import PartitionView, member_views

_NOTHING: Final = "-"


def print_state(group: DescribedGroup, *, as_json: bool) -> None:
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
        [
            (
                group.group_id,
                str(group.coordinator),
                group.protocol or _NOTHING,
                group.state,
                str(len(group.members)),
            )
        ],
    )


def print_members(group: DescribedGroup, *, as_json: bool) -> None:
    members = member_views(group)
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
                for each in members
            ]
        )
        return
    print_rows(
        ("member", "instance", "client", "host", "count", "partitions"),
        [
            (
                each.member_id,
                each.instance_id or _NOTHING,
                each.client_id,
                each.host,
                str(len(each.partitions)),
                ", ".join(f"{topic}-{part}" for topic, part in each.partitions),
            )
            for each in members
        ],
    )


def print_partitions(group: DescribedGroup, partitions: Sequence[PartitionView], *, as_json: bool) -> None:
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
    print_rows(
        ("topic", "partition", "committed", "log end", "lag", "member", "host", "client"),
        [
            (
                each.topic,
                str(each.partition),
                _number(each.committed),
                _number(each.end),
                _number(each.lag),
                *(
                    (_NOTHING,) * 3
                    if each.member is None
                    else (each.member.member_id, each.member.host, each.member.client_id)
                ),
            )
            for each in partitions
        ],
    )
    if not group.members:
        typer.echo(f"group {group.group_id} has no members ({group.state})", err=True)


def _number(value: int | None) -> str:
    return _NOTHING if value is None else str(value)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value))


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table()
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # an id may hold what rich takes for markup
    print_table(table)
