"""`quorate append`, `quorate read` and `quorate watch`: a client of an embedded quorum."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quorate.cli.commands.options import JsonOption, TimeoutOption
from quorate.cli.console.cli_errors import user_errors
from quorate.cli.console.connections import parse_addresses
from quorate.cli.console.output import print_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quorate.client import Client

Answer = TypeVar("Answer")

_OPTION = "--client-listener"
ListenersOption = Annotated[
    str,
    typer.Option(
        _OPTION,
        "-l",
        metavar="HOST:PORT",
        help="Client listeners of the quorum's nodes, separated by commas. The command finds the leader "
        "among them, so name all.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        help="The client's certificate, for a quorum with TLS (`quorate certs create-client`). Its key is "
        "beside it, as NAME-key.pem, and the authority's certificate as ca.pem.",
    ),
]


def append(
    records: Annotated[list[str], typer.Argument(help="The records, as text. They are one atomic append.")],
    listeners: ListenersOption,
    sessions: Annotated[
        bool,
        typer.Option(
            "--sessions/--no-sessions",
            help="Append in a session, so that it can be repeated and is applied once. The quorum's state "
            "machine must have sessions.",
        ),
    ] = True,
    certificate: CertificateOption = None,
    timeout_ms: TimeoutOption = 10_000,
    as_json: JsonOption = False,
) -> None:
    """Append records to an embedded quorum that listens for clients. Print each one's offset and result."""
    values = [record.encode() for record in records]
    appended = _ask(
        listeners,
        certificate,
        lambda client: client.append(values, timeout_ms=timeout_ms),
        sessions=sessions,
    )
    results = [_shown(result) for result in appended.results]
    if as_json:
        print_json({"baseOffset": appended.base_offset, "leaderEpoch": appended.epoch, "results": results})
        return
    for offset in range(appended.base_offset, appended.base_offset + len(records)):
        position = offset - appended.base_offset
        print(offset, *results[position : position + 1])


def read(
    query: Annotated[
        str, typer.Argument(help="The query, as text. The quorum's program gives it a meaning.")
    ],
    listeners: ListenersOption,
    certificate: CertificateOption = None,
    timeout_ms: TimeoutOption = 10_000,
) -> None:
    """Ask the leader's program of an embedded quorum, and print its answer. It sees every append that was
    answered before."""
    answer = _ask(
        listeners,
        certificate,
        lambda client: client.read(query.encode(), timeout_ms=timeout_ms),
        sessions=False,
    )
    sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.flush()


def watch(
    listeners: ListenersOption,
    from_offset: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="OFFSET",
            min=0,
            help="The first offset. 0 is the log's beginning. Without it, begin with what comes now.",
        ),
    ] = None,
    idle_ms: Annotated[
        int | None,
        typer.Option(
            "--idle-ms", min=0, help="End when there was no record for so long. 0: at the end of the log."
        ),
    ] = None,
    certificate: CertificateOption = None,
    timeout_ms: TimeoutOption = 60_000,
    as_json: JsonOption = False,
) -> None:
    """Print each record that an embedded quorum applies, with its offset, as it comes, until Ctrl-C. With
    `--json`, one object a line."""

    async def show(client: "Client") -> None:
        async with client.watch(from_offset, idle_ms=idle_ms, timeout_ms=timeout_ms) as watch:
            async for watched in watch:
                record = _shown(watched.record)
                if as_json:
                    each = {"offset": watched.offset, "leaderEpoch": watched.epoch}
                    print(json.dumps(each | {"timestampMs": watched.timestamp_ms, "record": record}))
                else:
                    print(watched.offset, record)
                sys.stdout.flush()

    try:
        _ask(listeners, certificate, show, sessions=False)
    except* KeyboardInterrupt:
        pass  # its usual end


def _ask(
    listeners: str,
    certificate: Path | None,
    action: "Callable[[Client], Awaitable[Answer]]",
    *,
    sessions: bool,
) -> Answer:
    import trio

    from quorate.client import Client
    from quorate.runtime import TlsFiles

    tls = None
    if certificate is not None:
        beside = certificate.parent
        tls = TlsFiles(
            certificate=str(certificate),
            key=str(beside / f"{certificate.stem}-key.pem"),
            authorities=str(beside / "ca.pem"),
        )

    async def main() -> Answer:
        addresses = parse_addresses(listeners, option=_OPTION)
        async with Client.open(addresses, sessions=sessions, tls=tls) as client:
            return await action(client)

    with user_errors():
        return trio.run(main)


def _shown(result: object) -> object:
    """Return a result as JSON can have it."""
    if isinstance(result, bytes):
        return result.decode(errors="backslashreplace")
    if isinstance(result, list):
        return [_shown(each) for each in result]
    if isinstance(result, dict):
        return {str(_shown(key)): _shown(each) for key, each in result.items()}
    return result
