"""Records in and out by the command alone, against a node."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.client_login import ClientLogin
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.records.client_settings import protection_of
from tests.cli.command import Quorate
from tests.kit.clusters import running_cluster


@pytest.fixture
def topic(ask: Quorate) -> str:
    name = f"t{uuid.uuid4().hex[:8]}"
    ask.output("topics", "create", "-t", name, "--partitions", "2")
    return name


def values(ask: Quorate, topic: str, *options: object) -> list[str]:
    return sorted(ask.output("records", "consume", "-t", topic, "-e", *options).splitlines()[:-1])


def read_json(ask: Quorate, topic: str, *options: object) -> list[dict[str, object]]:
    shown = ask("records", "consume", "-t", topic, "-e", "--json", *options)
    assert shown.exit_code == ExitCode.OK, shown.output
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_lines_are_sent_and_read(ask: Quorate, topic: str) -> None:
    said = ask("records", "produce", "-t", topic, given=b"one\ntwo\n\nfour")
    assert said.exit_code == ExitCode.OK, said.output
    assert said.stderr.startswith("sent 4 records, 10 bytes in ")
    assert sorted(each["value"] for each in read_json(ask, topic)) == ["", "four", "one", "two"]
    assert ask("records", "consume", "-t", topic, "-e").stderr.startswith("read 4 records, 10 bytes in ")


@pytest.mark.slow
def test_what_is_read_as_json_can_be_sent_again(ask: Quorate, topic: str) -> None:
    given = (
        b'{"key": "k", "value": "v", "headers": [["h", "1"], ["n", null]], "partition": 1, '
        b'"timestamp": 5000}\n'
        b'{"key": {"base64": "/w=="}, "value": null, "partition": 1}\n'
    )
    ask.output("records", "produce", "-t", topic, "--json", "--compression", "zstd", given=given)
    first, second = read_json(ask, topic)
    assert first == {"topic": topic, "partition": 1, "offset": 0, "timestamp": 5000, "key": "k", "value": "v",
                     "headers": [["h", "1"], ["n", None]]}  # fmt: skip
    assert (second["key"], second["value"], second["offset"]) == ({"base64": "/w=="}, None, 1)
    again = "".join(json.dumps(each) + "\n" for each in (first, second)).encode()
    ask.output("records", "produce", "-t", topic, "--json", given=again)
    assert [{**each, "offset": 0} for each in read_json(ask, topic)[2:]] == [
        {**each, "offset": 0} for each in (first, second)
    ]


def test_keys_go_where_javas_clients_send_them(ask: Quorate, topic: str) -> None:
    lines = b"".join(b"key-%d:%d\n" % (each, each) for each in range(20))
    ask.output("records", "produce", "-t", topic, "-K", ":", "-H", "by=test", given=lines)
    found = {each["key"]: each["partition"] for each in read_json(ask, topic)}
    assert len(found) == 20
    # Of Kafka's `Utils.murmur2`, for two partitions.
    assert {key: found[key] for key in ("key-0", "key-1", "key-2")} == {
        key: java_partition(key.encode(), 2) for key in ("key-0", "key-1", "key-2")
    }
    assert read_json(ask, topic)[0]["headers"] == [["by", "test"]]


def java_partition(key: bytes, count: int) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    value = (0x9747B28C ^ len(key)) & mask
    for at in range(0, len(key) - len(key) % 4, 4):
        part = int.from_bytes(key[at : at + 4], "little") * m & mask
        part = (part ^ part >> 24) * m & mask
        value = (value * m & mask) ^ part
    rest = key[len(key) - len(key) % 4 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * m & mask
    value = (value ^ value >> 13) * m & mask
    value ^= value >> 15
    return (value & 0x7FFFFFFF) % count


@pytest.mark.slow
def test_a_part_is_read_by_offset_time_tail_count_and_partition(ask: Quorate, topic: str) -> None:
    given = "".join(
        json.dumps({"value": str(each), "partition": each % 2, "timestamp": 1000 * each + 1}) + "\n"
        for each in range(10)
    )
    ask.output("records", "produce", "-t", topic, "--json", given=given.encode())

    def read(*options: object) -> list[str]:
        return sorted(str(each["value"]) for each in read_json(ask, topic, *options))

    assert read() == [str(each) for each in range(10)]
    assert read("--from", 3) == ["6", "7", "8", "9"]
    assert read("--from", 1_000_000) == []
    assert read("--from", "end") == []
    assert read("--tail", 1) == ["8", "9"]
    assert read("-p", 1) == ["1", "3", "5", "7", "9"]
    assert read("--from", datetime.fromtimestamp(6.5, UTC).isoformat()) == ["7", "8", "9"]
    assert read("--from", "1d") == []
    assert len(read("-n", 3)) == 3


@pytest.mark.slow
def test_a_group_goes_on_where_it_stopped(ask: Quorate, topic: str) -> None:
    ask.output("records", "produce", "-t", topic, given=b"a\nb\nc\n")
    group = f"g-{topic}"
    first = read_json(ask, topic, "--group", group, "-n", 2)
    assert len(first) == 2
    rest = read_json(ask, topic, "--group", group)
    assert sorted(str(each["value"]) for each in [*first, *rest]) == ["a", "b", "c"]
    assert read_json(ask, topic, "--group", group) == []


def test_a_whole_input_is_one_record(ask: Quorate, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"two\nlines\n")
    ask.output("records", "produce", "-t", topic, "--whole", "--file", file)
    assert [each["value"] for each in read_json(ask, topic)] == ["two\nlines\n"]
    assert ask.output("records", "consume", "-t", topic, "-e", "-f", r"%S:%s.\n").startswith(
        "10:two\nlines\n."
    )


def test_a_wrong_line_is_named_and_those_before_it_are_sent(ask: Quorate, topic: str) -> None:
    said = ask.error(
        "records", "produce", "-t", topic, "-K", "=", given=b"a=1\nb=2\nc\nd=4\n", code=ExitCode.USAGE
    )
    assert "line 3: it has no '=' between a key and a value" in said
    assert "sent 2 records" in said
    assert sorted(str(each["key"]) for each in read_json(ask, topic)) == ["a", "b"]


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("produce", "--compression", "rar"), "--compression: 'rar' is none of none, gzip"),
        (("produce", "--acks", "2"), "--acks: '2' is none of all, 1, 0"),
        (("produce", "--json", "--whole"), "give one of --whole, --json and --key-separator"),
        (("produce", "-H", "x"), "--header: 'x' is not NAME=VALUE"),
        (("consume", "--from", "noon"), "--from: 'noon' is not of the form"),
        (("consume", "--from", "end", "--tail", "1"), "give --from or --tail, not both"),
        (("consume", "--group", "g", "-p", "0"), "leave out --from, --tail and --partition"),
        (("consume", "--json", "-f", "%s"), "give --json or --format, not both"),
        (("consume", "-f", "%q"), "--format: %q is unknown"),
        (("consume", "-p", "7", "-e"), "has no partition 7; it has 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_remedy(
    ask: Quorate, topic: str, arguments: tuple[str, ...], says: str
) -> None:
    verb, *rest = arguments
    assert says in " ".join(
        ask.error("records", verb, "-t", topic, *rest, given=b"", code=ExitCode.USAGE).split()
    )


def test_a_topic_that_is_not_there_and_a_partition_that_is_not_are_named(ask: Quorate, topic: str) -> None:
    said = ask.error("records", "produce", "-t", "nothing", given=b"x\n")
    assert "there is no topic nothing; make it by quorate topics create -t nothing" in said
    assert "there is no topic nothing" in ask.error("records", "consume", "-t", "nothing", "-e")
    assert "Unknown partition" in ask.error("records", "produce", "-t", topic, "-p", 9, given=b"x\n")


@pytest.mark.slow
def test_nobody_who_answers_is_unavailable(quorate: Quorate) -> None:
    said = quorate.at("127.0.0.1:1").error("records", "consume", "-t", "t", "-e", code=ExitCode.UNAVAILABLE)
    assert "no broker is reached" in said


@contextmanager
def secured(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path / "cluster", nodes=1, secure=True) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_protected_cluster_is_reached_by_the_file_of_its_user(quorate: Quorate, tmp_path: Path) -> None:
    with secured(tmp_path) as cluster:
        for file, at in (
            (cluster.secrets.client_file, cluster.bootstrap),
            (cluster.secrets.certificate_file, f"{cluster.host}:{cluster.node(1).broker_port}"),
        ):
            name, ask = f"t{uuid.uuid4().hex[:8]}", quorate.at(at)
            way = ("--command-config", file)
            ask.output(*way, "topics", "create", "-t", name)
            ask.output(*way, "records", "produce", "-t", name, given=b"hello\n")
            assert "hello" in ask.output(*way, "records", "consume", "-t", name, "-e")


def test_a_file_of_javas_clients_says_the_same_to_librdkafka() -> None:
    login = ClientLogin(user="ann", password='a "b', authorities="/ca.pem", mechanism="PLAIN")
    expected = {key: value for key, value in login.librdkafka().items() if key != "bootstrap.servers"}
    assert protection_of(login.java()) == expected
