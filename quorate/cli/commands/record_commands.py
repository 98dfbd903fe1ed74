"""`quorate records`: send and read, by a stock client."""

import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quorate.cli.commands.options import BootstrapOption
from quorate.cli.commands.topic_commands import TopicOption
from quorate.cli.console.cli_errors import user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, command_config
from quorate.cli.console.times import ago_ms, parse_time_ms

if TYPE_CHECKING:
    from quorate.cli.records.consuming import Place
    from quorate.cli.records.record_text import Incoming, Outgoing

app = typer.Typer(
    no_args_is_help=True,
    help="Send records from standard input, and read them.",
    epilog="Example: quorate records consume -t orders --until-end",
)

_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = ("all", "1", "0")


def _need_client() -> None:
    from quorate.runtime import need

    need("Sending and reading records", "confluent_kafka", extra="cli")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise wrong_usage(f"{option}: {value!r} is none of {', '.join(known)}")


@app.command(epilog="Example: quorate records produce -t orders --key-separator : < orders.txt")
def produce(
    topic: TopicOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="In place of standard input.")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="The input is one record, not one a line.")] = False,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", metavar="TEXT", help="What ends a line's key.")
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What stands for no key, or for no value, which deletes."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Lines are as `consume --json` prints them.")
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="The partition.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Repeatable.")
    ] = None,
    compression: Annotated[str, typer.Option(help=f"One of {', '.join(_COMPRESSIONS)}.")] = "none",
    acks: Annotated[str, typer.Option(help="all, 1 or 0: who has what counts as sent.")] = "all",
) -> None:
    """Send each line of standard input as a record, and return when all are acknowledged.

    Records with a key go to the partition that Java's clients choose for it.
    """
    _one_of("--compression", compression, _COMPRESSIONS)
    _one_of("--acks", acks, _ACKS)
    if sum((whole, as_json, key_separator is not None)) > 1:
        raise wrong_usage("give one of --whole, --json and --key-separator")
    if key_separator == "":
        raise wrong_usage("--key-separator is empty")
    headers = [_header(each) for each in header or ()]
    with user_errors():
        _need_client()
        from quorate.cli.records.client_settings import client_settings
        from quorate.cli.records.flow import Flow
        from quorate.cli.records.producing import lines_of
        from quorate.cli.records.producing import produce as send
        from quorate.cli.records.record_text import Outgoing, parse_json, parse_line

        separator, nothing = (None if each is None else each.encode() for each in (key_separator, null))

        def parse(line: bytes) -> "Outgoing":
            return parse_json(line) if as_json else parse_line(line, key_separator=separator, null=nothing)

        flow = Flow("sent", shows=sys.stderr.isatty())
        with open(file, "rb") if file else nullcontext(sys.stdin.buffer) as stream:
            records = [Outgoing(value=stream.read())] if whole else lines_of(stream, parse)
            try:
                send(
                    records,
                    client_settings(bootstrap, command_config()),
                    topic,
                    flow,
                    acks=acks,
                    compression=compression,
                    partition=partition,
                    headers=headers,
                )
            finally:
                flow.end()


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise wrong_usage(f"--header: {text!r} is not NAME=VALUE")
    return name, value.encode()


@app.command(epilog="Example: quorate records consume -t orders --tail 10 --json")
def consume(
    topic: TopicOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="beginning, end, an offset, or a time such as 2026-11-27T08:00:00Z or 10m (ago).",
        ),
    ] = "beginning",
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Begin N records before each partition's end.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Repeatable. Default: all.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read as a member of a group, and commit.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="End after N records.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", "-e", help="End where the partitions end at the start.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as a line of JSON.")] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TEXT",
            help="In kcat's letters: %t topic, %p partition, %o offset, %T timestamp, %k key, %s value, %K "
            "%S lengths, %h headers, %%, \\n, \\t. Default: %s\\n",
        ),
    ] = None,
) -> None:
    """Print records as they come, until Ctrl-C or the end that is named.

    The order is that of each partition.
    """
    if as_json and template is not None:
        raise wrong_usage("give --json or --format, not both")
    if tail is not None and start != "beginning":
        raise wrong_usage("give --from or --tail, not both")
    if group is not None and (tail is not None or start != "beginning" or partition):
        raise wrong_usage(
            "the group's offsets say where --group begins, and its members what they read; leave out --from, "
            "--tail and --partition (quorate groups reset-offsets moves a group)"
        )
    with user_errors():
        _need_client()
        from quorate.cli.records.client_settings import client_settings
        from quorate.cli.records.consuming import Reading, before_end, read, read_as_member
        from quorate.cli.records.flow import Flow
        from quorate.cli.records.record_text import as_json as json_of
        from quorate.cli.records.record_text import form_of

        write: Callable[[Incoming], bytes] = (
            (lambda record: json_of(record).encode("utf-8", "surrogatepass") + b"\n")
            if as_json
            else form_of(template if template is not None else "%s\\n")
        )
        reading = Reading(
            topic=topic,
            partitions=partition or (),
            start=_place(start) if tail is None else before_end(tail),
            until_end=until_end,
            most=most,
        )
        settings = client_settings(bootstrap, command_config())
        found = read(settings, reading) if group is None else read_as_member(settings, reading, group)
        flow = Flow("read", shows=sys.stderr.isatty() and not sys.stdout.isatty())
        try:
            with closing(found):
                for record in found:
                    sys.stdout.buffer.write(write(record))
                    sys.stdout.buffer.flush()
                    flow.add(record.key, record.value)
        except KeyboardInterrupt:
            pass
        finally:
            if not sys.stdout.isatty():
                flow.end()


def _place(text: str) -> "Place":
    from quorate.cli.records.consuming import at_beginning, at_end, at_offset, at_time

    match text:
        case "beginning":
            return at_beginning
        case "end":
            return at_end
        case _ if text.isascii() and text.isdecimal() and len(text) < 19:
            return at_offset(int(text))
    since_ms = ago_ms(text)
    return at_time(parse_time_ms(text, option="--from") if since_ms is None else since_ms)
