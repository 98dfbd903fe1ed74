"""One client does its worst to a broker process, with others' requests beside it: their pings take less than
50 ms, their Produce less than a second, and afterwards the broker has the memory that it had.

The broker is one for all tests here: what one leaves behind, the next ones find.
"""

import dataclasses
import os
import resource
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveTupleField,
    classify_field,
    is_optional,
)
from pings import Pings

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    decode_produce_response,
    encode_produce_request,
)
from quorate.broker.wire.headers import write_request_header
from quorate.cli.node.local_cluster import LocalCluster
from quorate.kafka_bytes.primitives import MAX_STRING_BYTES, Pieces
from quorate.kafka_bytes.varints import varint
from quorate.log.batches.batch import seal
from quorate.log.compression import Codec, compress
from tests.kit.clusters import running_cluster
from tests.system.test_bad_input import resident_mib

PING_MS = 50.0
PRODUCE_S = 1.0
STAYS_MIB = 150.0
SETTLED_S = 10.0
"""The time within which memory is back."""
LONG = "x" * MAX_STRING_BYTES
PARTITIONS = 30


class Client:
    """A connection that sends bytes, and receives whole answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self) -> memoryview:
        """Return the body of the next answer, with its header but for the length."""
        return memoryview(self._exactly(int.from_bytes(self._exactly(4), "big")))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(1 << 20, size - len(data)))
            if not part:
                raise ConnectionError("closed by the broker")
            data += part
        return bytes(data)

    def call(self, key: ApiKey, version: int, body: bytes, *, client_id: str = "c") -> Any:
        self.socket.sendall(framed(key, version, body, client_id=client_id))
        answer = self.receive()
        flexible = APIS[key].flexible(version) and key is not ApiKey.API_VERSIONS
        return decode_entity(response_type(key, version), answer[5 if flexible else 4 :])

    def produce(self, topic: str, partition: int, batch: bytes) -> ProducedPartition:
        self.socket.sendall(produce_of(topic, partition, batch))
        (answered,) = decode_produce_response(self.receive()[5:], 9)
        return answered.partitions[0]


def framed(key: ApiKey, version: int, body: bytes, *, client_id: str = "c") -> bytes:
    pieces = Pieces(flexible=APIS[key].flexible(version))
    write_request_header(pieces, api=APIS[key], version=version, correlation_id=1, client_id=client_id)
    head = b"".join(pieces.finish())
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def produce_of(topic: str, partition: int, batch: bytes) -> bytes:
    request = ProduceRequest(
        version=9,
        acks=-1,
        timeout_ms=20_000,
        topics=[ProduceTopic(topic, [ProducePartition(partition, memoryview(batch))])],
    )
    return framed(ApiKey.PRODUCE, 9, b"".join(encode_produce_request(request)))


def batch_of(body: bytes, codec: Codec = Codec.NONE) -> bytes:
    now_ms = round(time.time() * 1000)
    return seal(
        body,
        base_offset=0,
        epoch=-1,
        attributes=codec,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )


def record(value: bytes) -> bytes:
    body = b"\x00" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + b"\x00"
    return varint(len(body)) + body


def body_of(key: ApiKey, version: int, **values: object) -> bytes:
    return b"".join(encode_entity(build(request_type(key, version), **values)))


class Broker:
    """The broker, and one of its honest clients."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.port = cluster.nodes[0].client_port
        self.pid = cluster.pid(1)
        self.client = Client(self.port)
        self._plain = batch_of(record(bytes(100_000)))

    def create(self, topic: str, partitions: int) -> None:
        asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        body = body_of(ApiKey.CREATE_TOPICS, 7, topics=[asked], timeout=timedelta(seconds=20))
        (created,) = self.client.call(ApiKey.CREATE_TOPICS, 7, body).topics
        assert created.error_code is ErrorCode.none

    def produce_s(self, batch: bytes | None = None) -> float:
        """Return the seconds that a Produce takes, by default of 100 kB."""
        began = time.monotonic()
        produced = self.client.produce("others", 0, batch or self._plain)
        assert produced.error is ErrorCode.none
        return time.monotonic() - began

    def under(self, attack: Callable[[], list[float]]) -> None:
        """Attack with others' pings beside it, and compare their time, that of the others' Produce, which
        `attack` returns, and memory afterwards.

        What holds the event loop holds it each time, a neighbour on this machine does not: the best of three
        attacks counts.
        """
        seen = []
        for _ in range(3):
            before = resident_mib(self.pid)
            with Pings(self.port, self.pid) as pings:
                produce_s = max(attack())
            assert pings.count > 10
            until = time.monotonic() + SETTLED_S
            while (stays := resident_mib(self.pid) - before) > STAYS_MIB and time.monotonic() < until:
                time.sleep(0.1)
            assert stays <= STAYS_MIB
            seen.append((pings.longest_ms, produce_s))
            if pings.longest_ms < PING_MS and produce_s < PRODUCE_S:
                return
        pytest.fail(f"pings took ms, and a Produce s: {seen}; at most {PING_MS} and {PRODUCE_S}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    overrides = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
    folder = tmp_path_factory.mktemp("hostile") / "cluster"
    with running_cluster(folder, nodes=1, overrides=overrides) as cluster:
        broker = Broker(cluster)
        broker.create("others", 1)
        broker.create("theirs", PARTITIONS)
        broker.produce_s()
        yield broker
        assert cluster.running() == [1]


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("claimed", [100_000_000, 1_000_000], ids=["100 MB", "1 MB"])
def test_a_thousand_half_sent_frames(broker: Broker, claimed: int) -> None:
    half = claimed.to_bytes(4, "big") + bytes(60_000)

    def attack() -> list[float]:
        took = []
        with ExitStack() as theirs:
            for number in range(1000):
                hostile = theirs.enter_context(
                    socket.create_connection(("127.0.0.1", broker.port), timeout=5)
                )
                # One that is closed already is one less.
                try:
                    hostile.sendall(half)
                except ConnectionError:
                    continue
                if number % 100 == 99:
                    took.append(broker.produce_s())
            took += [broker.produce_s() for _ in range(5)]
        return took

    broker.under(attack)


def zstd_of_zeros(blocks: int) -> bytes:
    """Return a frame that doesn't state its size. Each block is four bytes, and 128 KiB of zeros."""
    block = (1 << 1 | 131_072 << 3).to_bytes(3, "little") + b"\x00"
    last = (1 | 1 << 1 | 131_072 << 3).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd" + b"\x00\x58" + block * (blocks - 1) + last


@pytest.mark.slow
def test_thirty_batches_that_unpack_to_gigabytes(broker: Broker) -> None:
    bomb = batch_of(zstd_of_zeros(240_000), Codec.ZSTD)
    assert 900_000 < len(bomb) < 1_000_000
    compressed = batch_of(compress(Codec.ZSTD, record(os.urandom(500_000) + bytes(3_000_000))), Codec.ZSTD)
    before = resident_mib(broker.pid)

    def attack() -> list[float]:
        theirs = [Client(broker.port) for _ in range(PARTITIONS)]
        for number, hostile in enumerate(theirs):
            hostile.socket.sendall(produce_of("theirs", number, bomb))
        took = [broker.produce_s(), broker.produce_s(compressed), broker.produce_s()]
        for hostile in theirs:
            (refused,) = decode_produce_response(hostile.receive()[5:], 9)
            assert refused.partitions[0].error is ErrorCode.message_too_large
            more = resident_mib(broker.pid) - before
            assert more < 2 * 256, "more than the request memory, and as much again in passing"
            hostile.socket.close()
        return took

    broker.under(attack)


SETTINGS = [{"name": "retention.ms", "value": "1000"}] * 100_000


def many(
    key: ApiKey, version: int, field: str, count: int, element: dict[str, object], rest: dict[str, object]
) -> bytes:
    """Return a request with so many elements, each named by its number: kio would take seconds for it."""
    entity = request_type(key, version)
    (kind,) = (each.type for each in dataclasses.fields(entity) if each.name == field)
    one = Pieces(flexible=True)
    entity_writer(kind.__args__[0])(one, build(kind.__args__[0], **element | {"name": "n000000"}))
    before, after = b"".join(one.finish()).split(b"n000000")
    elements = b"".join(before + b"n%06d" % number + after for number in range(count))
    length = Pieces(flexible=True)
    length.count(count)
    # The array's length is the first byte in which a request without elements differs.
    empty, one_more = (
        body_of(key, version, **{field: value}, **rest) for value in ((), (element | {"name": "n"},))
    )
    at = next(index for index, byte in enumerate(empty) if byte != one_more[index])
    return empty[:at] + b"".join(length.finish()) + elements + empty[at + 1 :]


TIMEOUT = {"timeout": timedelta(seconds=20)}
TOPIC = {"num_partitions": 1, "replication_factor": 1}
PLACED = {"count": 3, "assignments": None}
LARGE_REQUESTS: dict[str, tuple[ApiKey, int, str, int, dict[str, object], dict[str, object]]] = {
    "CreateTopics of 50,000": (ApiKey.CREATE_TOPICS, 7, "topics", 50_000, TOPIC, TIMEOUT),
    "CreateTopics of 9,000 that can't be": (
        ApiKey.CREATE_TOPICS,
        7,
        "topics",
        9_000,
        TOPIC | {"replication_factor": 9},
        TIMEOUT,
    ),
    "CreatePartitions of 50,000": (ApiKey.CREATE_PARTITIONS, 3, "topics", 50_000, PLACED, TIMEOUT),
    "CreatePartitions of 10,000": (ApiKey.CREATE_PARTITIONS, 3, "topics", 10_000, PLACED, TIMEOUT),
    "Produce of 100,000 empty topics": (ApiKey.PRODUCE, 9, "topic_data", 100_000, {}, {"acks": 1} | TIMEOUT),
    "DeleteTopics of 100,000": (ApiKey.DELETE_TOPICS, 6, "topics", 100_000, {}, TIMEOUT),
    "DeleteTopics of 10,000": (ApiKey.DELETE_TOPICS, 6, "topics", 10_000, {}, TIMEOUT),
}


@pytest.mark.slow
def test_requests_with_a_hundred_thousand_parts(broker: Broker) -> None:
    hostile = Client(broker.port)
    requests: dict[str, bytes] = {}
    for name, (key, version, field, count, element, rest) in LARGE_REQUESTS.items():
        requests[name] = framed(key, version, many(key, version, field, count, element, rest))
        # The first request of a version makes its classes.
        hostile.socket.sendall(framed(key, version, body_of(key, version, **rest)))
        hostile.receive()
    body = many(ApiKey.CREATE_TOPICS, 7, "topics", 1, TOPIC | {"configs": SETTINGS}, TIMEOUT)
    requests["CreateTopics with 100,000 settings"] = framed(ApiKey.CREATE_TOPICS, 7, body)

    def attack() -> list[float]:
        took = []
        for name, request in requests.items():
            hostile.socket.sendall(request)
            took.append(broker.produce_s())
            assert len(hostile.receive()) > 50, name
        return took

    broker.under(attack)


CHANGES_THIS_NODE = {ApiKey.UNREGISTER_BROKER, ApiKey.UPDATE_FEATURES}
USUAL: dict[str, object] = {
    "acks": 1,
    "assignments": (),
    "cluster_id": None,
    "group_instance_id": None,
    "match": None,
    "member_id": "",
    "num_partitions": 1,
    "port": 9,
    "protocol_type": "consumer",
    "replication_factor": 1,
    "resource_type": 2,
    "session_timeout": timedelta(seconds=10),
    "topic_id": None,
    "transactional_id": None,
    "voter_id": 7,
}
OF_KINDS: dict[str, object] = {
    "bytes": b"",
    "records": b"",
    "string": "others",
    "timedelta_i32": timedelta(seconds=10),
    "timedelta_i64": timedelta(seconds=10),
    "uuid": uuid.UUID(int=7),
}
LISTENERS = ("listeners", "name")


def strings_of(entity: type[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for each in dataclasses.fields(entity):
        here = (*path, each.name)
        field = classify_field(each)
        if isinstance(field, EntityField | EntityTupleField):
            yield from strings_of(field.type_, here)
        elif each.metadata["kafka_type"] in ("string", "bytes"):
            yield here


def with_long(entity: type[Any], long: tuple[str, ...], path: tuple[str, ...] = ()) -> Any:
    """Return a request that is as others are but for one string, which is as long as the protocol allows."""
    values: dict[str, object] = {}
    for each in dataclasses.fields(entity):
        here = (*path, each.name)
        field = classify_field(each)
        kind = each.metadata.get("kafka_type", "")
        if isinstance(field, EntityField):
            values[each.name] = with_long(field.type_, long, here)
        elif isinstance(field, EntityTupleField):
            values[each.name] = (with_long(field.type_, long, here),)
        elif here == long:
            value: object = LONG.encode() if kind == "bytes" else LONG
            values[each.name] = (value,) if isinstance(field, PrimitiveTupleField) else value
        elif isinstance(field, PrimitiveTupleField):
            values[each.name] = (OF_KINDS.get(kind, 0),)
        elif here == LISTENERS:
            values[each.name] = "CONTROLLER"
        elif each.name in USUAL:
            values[each.name] = USUAL[each.name]
            if values[each.name] is None and not is_optional(each):
                values[each.name] = OF_KINDS[kind]
        else:
            values[each.name] = OF_KINDS.get(kind, 0)
    return entity(**values)


def errors_in(answer: Any) -> Iterator[tuple[ErrorCode, str]]:
    code = getattr(answer, "error_code", None)
    if code is not None:
        yield code, getattr(answer, "error_message", None) or ""
    for each in dataclasses.fields(answer):
        value = getattr(answer, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(part):
                yield from errors_in(part)


@pytest.mark.slow
def test_no_string_of_any_request_costs_the_connection(broker: Broker) -> None:
    hostile = Client(broker.port)
    wrong: list[str] = []
    asked = 0
    for key in sorted({ApiKey.API_VERSIONS, *BROKER_APIS} - CHANGES_THIS_NODE):
        api = APIS[key]
        for version in {api.min_version, api.max_version}:
            entity = request_type(key, version)
            for long in (*strings_of(entity), ("client id",)):
                asked += 1
                body = b"".join(encode_entity(with_long(entity, long)))
                where = f"{api.key.name} {version}, {'.'.join(long)}"
                try:
                    answer = hostile.call(
                        api.key, version, body, client_id=LONG if long == ("client id",) else "c"
                    )
                except (ConnectionError, ValueError) as error:
                    wrong.append(f"{where}: {error}")
                    hostile = Client(broker.port)
                    continue
                if any(code is ErrorCode.unknown_server_error for code, _ in errors_in(answer)):
                    wrong.append(f"{where}: {answer}"[:300])
    assert not wrong, "\n".join(wrong)
    assert asked > 200


@pytest.mark.parametrize(
    ("key", "version", "long", "says"),
    [
        (ApiKey.JOIN_GROUP, 9, ("group_instance_id",), ""),
        (ApiKey.ADD_RAFT_VOTER, 1, ("listeners", "host"), "host of node 7 has 32767 characters"),
    ],
)
def test_a_name_that_nobody_has_room_for_is_refused(
    broker: Broker, key: ApiKey, version: int, long: tuple[str, ...], says: str
) -> None:
    """The answer to JoinGroup has no room for a message."""
    hostile = Client(broker.port)
    body = b"".join(encode_entity(with_long(request_type(key, version), long)))
    for _ in range(2):
        ((code, message), *_) = errors_in(hostile.call(key, version, body))
        assert code is ErrorCode.invalid_request
        assert says in message
