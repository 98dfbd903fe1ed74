"""The users of a simulated cluster, who ask for all kinds of things. Each answer is compared with the naive
list of ACLs as the broker that answered had it."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import FetchPartition, FetchTopic, KafkaFetchRequest
from quorate.broker.wire.codecs.produce_codec import ProducePartition, ProduceRequest, ProduceTopic
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.login_network import LoginError
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.wire_errors import KafkaError
from quorate.log.batches.records import build_batch
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation
from tests.simulator.access.access_admin import (
    FAMILIES,
    GROUPS,
    LOGS_IN,
    USERS,
    AccessAdministrator,
)
from tests.simulator.access.access_cluster import AccessCluster, Window
from tests.simulator.access.naive_rights import SUPER_USER, Right
from tests.simulator.access.rights_history import ALTER_CLUSTER, creation_of, deletion_of, some_of
from tests.simulator.brokers.broker_cluster import BrokerHost

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
    from kio.schema.create_acls.v3.response import CreateAclsResponse
    from kio.schema.create_topics.v7.response import CreateTopicsResponse
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
    from kio.schema.describe_acls.v3.response import DescribeAclsResponse
    from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
    from kio.schema.heartbeat.v4.response import HeartbeatResponse
    from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
    from kio.schema.list_offsets.v7.response import ListOffsetsResponse
    from kio.schema.metadata.v12.response import MetadataResponse
    from kio.schema.offset_fetch.v10.response import OffsetFetchResponse

_TIMEOUT_S: Final = 1.0
_BEHIND_S: Final = 3.0
"""The longest time by which a controller that denies may be behind, or its ACLs be committed later."""
_NOT_YOURS: Final = ErrorCode.topic_authorization_failed


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision that an answer shows."""

    what: str
    any_of: tuple[Right, ...]
    """One of them is enough."""
    denied: bool
    by_controller: bool = False
    """The active controller may have denied it, by an image of its own."""


@dataclass(frozen=True, slots=True)
class _Denial:
    """A denial that the active controller may have made: judged when all that was committed is known."""

    who: str
    verdict: Verdict
    window: tuple[int, int]
    began: float
    ended: float


def of_topic(operation: AclOperation, name: str) -> tuple[Right, ...]:
    return (Right(operation, ResourceType.TOPIC, name),)


def of_group(operation: AclOperation, name: str) -> tuple[Right, ...]:
    return (Right(operation, ResourceType.GROUP, name),)


def on_cluster(operation: AclOperation) -> tuple[Right, ...]:
    return (Right(operation, ResourceType.CLUSTER),)


class _Session:
    """One connection of a user to one broker."""

    def __init__(
        self,
        users: "AccessUsers",
        user: str,
        node: BrokerHost,
        connection: WireClient,
        source: random.Random,
    ) -> None:
        self.user = user
        self.who = f"User:{user}"
        self.node = node
        self._users = users
        self._cluster = users.cluster
        self._connection = connection
        self._random = source
        self._fetch: KafkaFetchRequest | None = None
        self.asks: Sequence[Callable[[], Awaitable[list[Verdict]]]] = (
            self._fetch_again, self._fetch_again, self._fetch_again, self._produce, self._produce,
            self._all_metadata, self._named_metadata, self._metadata_by_id, self._list_offsets,
            self._heartbeat, self._fetch_offsets, self._describe_configs, self._describe_acls,
            self._init_producer, self._create_topic, self._create_topic, self._delete_topic,
            self._create_acl, self._set_password,
        )  # fmt: skip
        self._changes = self._create_topic, self._delete_topic, self._create_acl, self._set_password
        self._only_fetches = source.random() < 0.25

    async def ask(self, action: Callable[[], Awaitable[list[Verdict]]] | None = None) -> None:
        """Ask for one thing, and judge the answer."""
        node = self.node
        if not self._cluster.serves(node):
            raise NetworkError(f"{node.name} is down")
        window = Window(self._cluster.history, node)
        if action is None:
            action = self._draw_action()
        verdicts = await action()
        numbers = window.close()
        for each in verdicts:
            self._users.judge(self.who, each, numbers, window.began)

    def _draw_action(self) -> Callable[[], Awaitable[list[Verdict]]]:
        """Draw what to ask for: of a broker that is behind, most often a change, which the controller has to
        decide again."""
        if self._cluster.is_behind(self.node) and self._random.random() < 0.7:
            return self._random.choice(self._changes)
        if self._random.random() < 0.3 and self._cluster.history.now.allow(self.who, ALTER_CLUSTER):
            return self._set_password
        return self._fetch_again if self._only_fetches else self._random.choice(self.asks)

    def _topic(self) -> str:
        names = sorted(self._cluster.history.topics.values())
        return self._random.choice([*names, f"{self._random.choice(FAMILIES)}-none"])

    # What is decided by the broker alone

    async def _fetch_again(self) -> list[Verdict]:
        """Repeat the fetch of this connection, most of the time with the same bytes."""
        if self._fetch is None or self._random.random() < 0.2:
            self._fetch = KafkaFetchRequest(
                version=12,
                max_wait_ms=self._random.choice((0, 0, 200)),
                min_bytes=1,
                max_bytes=1000,
                topics=[FetchTopic(self._topic(), None, [FetchPartition(0)])],
            )
        name = self._fetch.topics[0].name or ""
        answer = await self._connection.fetch(self._fetch)
        return [
            Verdict("Fetch", of_topic(AclOperation.READ, name), part.error is _NOT_YOURS)
            for topic in answer.topics
            for part in topic.partitions
        ]

    async def _produce(self) -> list[Verdict]:
        name = self._topic()
        batch = build_batch(base_offset=0, epoch=-1, timestamp_ms=1, values=[b"record"])
        topic = ProduceTopic(name, [ProducePartition(0, memoryview(batch))])
        answer = await self._connection.produce(
            ProduceRequest(version=9, acks=1, timeout_ms=500, topics=[topic])
        )
        error = answer[0].partitions[0].error
        return [Verdict("Produce", of_topic(AclOperation.WRITE, name), error is _NOT_YOURS)]

    async def _all_metadata(self) -> list[Verdict]:
        """All topics that the user may describe are shown, and no others."""
        before = self._ids()
        answer = cast("MetadataResponse", await self._connection.call(ApiKey.METADATA, topics=None))
        shown = {topic.name for topic in answer.topics}
        there = before & self._ids() if self._cluster.serves(self.node) else set()
        missing = {name for name, _ in there} - shown
        return [
            Verdict(f"the sight of {name}", of_topic(AclOperation.DESCRIBE, name or ""), name in missing)
            for name in (*shown, *missing)
        ]

    def _ids(self) -> set[tuple[str, object]]:
        image = self.node.image
        return {(each.name, each.topic_id) for each in image.topics.values()}

    async def _named_metadata(self) -> list[Verdict]:
        name = self._topic()
        answer = await self._connection.call(
            ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=False
        )
        (topic,) = cast("MetadataResponse", answer).topics
        denied = topic.error_code is _NOT_YOURS
        if denied and (topic.partitions or topic.topic_id is not None):
            self._tells(f"Metadata of {name}: {topic}")
        return [Verdict("Metadata", of_topic(AclOperation.DESCRIBE, name), denied)]

    async def _metadata_by_id(self) -> list[Verdict]:
        known = sorted(self._cluster.history.topics.items())
        if not known:
            return []
        topic_id, name = self._random.choice(known)
        answer = await self._connection.call(
            ApiKey.METADATA,
            topics=[{"topic_id": topic_id, "name": None}],
            allow_auto_topic_creation=False,
        )
        (topic,) = cast("MetadataResponse", answer).topics
        if topic.error_code is ErrorCode.unknown_topic_id:
            return []
        denied = topic.error_code is _NOT_YOURS
        if denied and name in repr(topic):
            self._tells(f"Metadata by id: {topic}")
        return [Verdict("Metadata by id", of_topic(AclOperation.DESCRIBE, name), denied)]

    def _tells(self, what: str) -> None:
        self._cluster.found(
            "DenialsTellNothing", SafetyViolation(f"{self.who} is told of what it may not see: {what}")
        )

    async def _list_offsets(self) -> list[Verdict]:
        name = self._topic()
        answer = await self._connection.call(
            ApiKey.LIST_OFFSETS,
            topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        )
        (topic,) = cast("ListOffsetsResponse", answer).topics
        denied = topic.partitions[0].error_code is _NOT_YOURS
        return [Verdict("ListOffsets", of_topic(AclOperation.DESCRIBE, name), denied)]

    async def _heartbeat(self) -> list[Verdict]:
        group = self._random.choice(GROUPS)
        answer = await self._connection.call(
            ApiKey.HEARTBEAT, group_id=group, generation_id=1, member_id="m", group_instance_id=None
        )
        error = cast("HeartbeatResponse", answer).error_code
        denied = error is ErrorCode.group_authorization_failed
        return [Verdict("Heartbeat", of_group(AclOperation.READ, group), denied)]

    async def _fetch_offsets(self) -> list[Verdict]:
        group = self._random.choice(GROUPS)
        answer = await self._connection.call(
            ApiKey.OFFSET_FETCH,
            at_most=BY_NAME[ApiKey.OFFSET_FETCH],
            groups=[{"group_id": group, "topics": None}],
        )
        error = cast("OffsetFetchResponse", answer).groups[0].error_code
        denied = error is ErrorCode.group_authorization_failed
        return [Verdict("OffsetFetch", of_group(AclOperation.DESCRIBE, group), denied)]

    async def _describe_configs(self) -> list[Verdict]:
        name = self._topic()
        answer = await self._connection.call(
            ApiKey.DESCRIBE_CONFIGS, resources=[{"resource_type": 2, "resource_name": name}]
        )
        (result,) = cast("DescribeConfigsResponse", answer).results
        denied = result.error_code is _NOT_YOURS
        return [Verdict("DescribeConfigs", of_topic(AclOperation.DESCRIBE_CONFIGS, name), denied)]

    async def _describe_acls(self) -> list[Verdict]:
        answer = await self._connection.call(
            ApiKey.DESCRIBE_ACLS,
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        found = cast("DescribeAclsResponse", answer)
        denied = found.error_code is ErrorCode.cluster_authorization_failed
        if denied and found.resources:
            self._tells(f"DescribeAcls: {found}")
        return [Verdict("DescribeAcls", on_cluster(AclOperation.DESCRIBE), denied)]

    async def _init_producer(self) -> list[Verdict]:
        answer = await self._connection.call(ApiKey.INIT_PRODUCER_ID, transactional_id=None)
        error = cast("InitProducerIdResponse", answer).error_code
        any_of = (
            Right(AclOperation.WRITE, ResourceType.TOPIC, some=True),
            *on_cluster(AclOperation.IDEMPOTENT_WRITE),
        )
        return [Verdict("InitProducerId", any_of, error is ErrorCode.cluster_authorization_failed)]

    # What the controller decides again

    async def _create_topic(self) -> list[Verdict]:
        name = f"{self._random.choice(FAMILIES)}-{self.user}-{self._users.next_number()}"
        only_asks = self._random.random() < 0.2
        self._cluster.history.askers[f"create/{name}"].add(self.who)
        answer = await self._connection.call(
            ApiKey.CREATE_TOPICS,
            topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}],
            validate_only=only_asks,
        )
        (topic,) = cast("CreateTopicsResponse", answer).topics
        if topic.error_code is ErrorCode.none and not only_asks:
            self._cluster.history.created.add(name)
        return [Verdict("CreateTopics", creation_of(name), topic.error_code is _NOT_YOURS, True)]

    async def _delete_topic(self) -> list[Verdict]:
        name = self._random.choice([*sorted(self._cluster.history.created), f"{FAMILIES[0]}-none"])
        self._cluster.history.askers[f"delete/{name}"].add(self.who)
        answer = await self._connection.call(ApiKey.DELETE_TOPICS, topics=[{"name": name, "topic_id": None}])
        (topic,) = cast("DeleteTopicsResponse", answer).responses
        return [Verdict("DeleteTopics", deletion_of(name), topic.error_code is _NOT_YOURS, True)]

    async def _create_acl(self) -> list[Verdict]:
        """Try to give oneself a right. Its host says whose it is, and is nobody's."""
        number = self._users.next_number()
        host = f"10.1.{number >> 8}.{number & 255}"
        self._cluster.history.askers[f"acl/{host}"].add(self.who)
        answer = await self._connection.call(
            ApiKey.CREATE_ACLS,
            creations=[
                {
                    "resource_type": int(ResourceType.CLUSTER),
                    "resource_name": "kafka-cluster",
                    "resource_pattern_type": 3,
                    "principal": self.who,
                    "host": host,
                    "operation": int(AclOperation.ALL),
                    "permission_type": 3,
                }
            ],
        )
        (result,) = cast("CreateAclsResponse", answer).results
        denied = result.error_code is ErrorCode.cluster_authorization_failed
        return [Verdict("CreateAcls", ALTER_CLUSTER, denied, True)]

    async def _set_password(self) -> list[Verdict]:
        """Try to become the super user, or the user who logs in."""
        name = self._random.choice((SUPER_USER.removeprefix("User:"), LOGS_IN))
        salt, fields = self._users.admin.passwords.draw_unknown(self._random)
        self._cluster.history.askers[f"salt/{salt.hex()}"].add(self.who)
        answer = await self._connection.call(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=[], upsertions=[{"name": name, **fields}]
        )
        (result,) = cast("AlterUserScramCredentialsResponse", answer).results
        denied = result.error_code is ErrorCode.cluster_authorization_failed
        if name != LOGS_IN:
            granted = result.error_code is ErrorCode.none
            return [Verdict("the super user's password", (), denied=False)] if granted else []
        if result.error_code not in (ErrorCode.none, ErrorCode.cluster_authorization_failed):
            return []
        return [Verdict("AlterUserScramCredentials", ALTER_CLUSTER, denied, True)]


class AccessUsers(Clients[AccessCluster]):
    """Users that connect to one broker after the other."""

    def __init__(
        self,
        cluster: AccessCluster,
        admin: AccessAdministrator,
        source: random.Random,
        *,
        pause_max_s: float,
    ) -> None:
        super().__init__(cluster, source)
        self.cluster = cluster
        self.admin = admin
        self._pause_max_s = pause_max_s
        self._number = 0
        self._denials: list[_Denial] = []
        self.logins = {True: 0, False: 0}
        """The number of logins, by whether they succeeded."""

    def next_number(self) -> int:
        self._number += 1
        return self._number

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for user in USERS:
                nursery.start_soon(self._user, user, self._derived())

    async def ask_everywhere(self) -> None:
        """Let each user ask each broker for a bit of everything, once all is quiet."""
        for user in USERS:
            for node in self.cluster.nodes:
                await self._visit(user, node, self._random, len(USERS))

    async def _user(self, user: str, source: random.Random) -> None:
        while not self._finish.is_set():
            serving = [node for node in self.cluster.nodes if self.cluster.serves(node)]
            behind = [node for node in serving if self.cluster.is_behind(node)]
            if serving:
                node = source.choice(behind if behind and source.random() < 0.7 else serving)
                await self._visit(user, node, source, source.choice((1, 4, 8, 16)))
            await self._pause(source, self._pause_max_s)

    async def _visit(self, user: str, node: BrokerHost, source: random.Random, asks: int) -> None:
        try:
            async with self._connected(user, node, source) as connection:
                session = _Session(self, user, node, connection, source)
                await session.ask(session._all_metadata if source.random() < 0.3 else None)
                for _ in range(asks - 1):
                    await self._pause(source, self._pause_max_s)
                    await session.ask()
        except (NetworkError, KafkaError) as error:
            self.cluster.trace.add(f"at-{user}", f"{node.name}: {error}")

    @asynccontextmanager
    async def _connected(
        self, user: str, node: BrokerHost, source: random.Random
    ) -> AsyncIterator[WireClient]:
        if user != LOGS_IN:
            network = self.cluster.client_network(user)
            async with open_client(network, node.address, timeout_s=_TIMEOUT_S) as connection:
                yield connection
            return
        if not self.cluster.serves(node):
            raise NetworkError(f"{node.name} is down")
        password = self._draw_password(user, source)
        network = self.cluster.login_network(user, password, source)
        address, window = self.cluster.login_address(node), Window(self.cluster.history, node)
        try:
            async with open_client(network, address, timeout_s=_TIMEOUT_S) as connection:
                self._judge_login(user, password, window, refused=False)
                yield connection
        except LoginError as error:
            # The others say that the connection broke.
            if " refused User:" in str(error):
                self._judge_login(user, password, window, refused=True)
            raise

    def _draw_password(self, user: str, source: random.Random) -> str:
        """Draw the newest password most of the time, otherwise another one."""
        known = self.admin.passwords.by_salt
        newest = known.get(self.cluster.history.now.salt(user) or b"")
        if newest is not None and source.random() < 0.7:
            return newest
        return source.choice(["never-used", *known.values()])

    def _judge_login(self, user: str, password: str, window: Window, *, refused: bool) -> None:
        if not window.is_of_one_life:
            return
        self.logins[not refused] += 1
        known = self.admin.passwords.by_salt
        states = some_of(self.cluster.history.states, *window.close())
        if not any((known.get(each.salt(user) or b"") == password) is not refused for each in states):
            self.cluster.found(
                "LoginsAreThoseOfTheUsers",
                SafetyViolation(f"{user} was {'refused' if refused else 'let in'} with {password}"),
            )

    # Verdicts

    def judge(self, who: str, verdict: Verdict, window: tuple[int, int], began: float) -> None:
        if verdict.denied and verdict.by_controller:
            self._denials.append(_Denial(who, verdict, window, began, trio.current_time()))
        else:
            self.cluster.judge(who, verdict.what, verdict.any_of, window, denied=verdict.denied)

    def judge_denials(self) -> None:
        """Judge the denials that a controller may have made. Nothing may be under way any more."""
        history = self.cluster.history
        for each in self._denials:
            verdict = each.verdict
            self.cluster.decided[False] += 1
            first = min(each.window[0], history.at_time(each.began - _BEHIND_S))
            last = max(each.window[1], history.at_time(each.ended + _BEHIND_S))
            states = some_of(history.states, first, last)
            if any(not rights.allow(each.who, verdict.any_of) for rights in states):
                continue
            if any(
                not attempt.change(rights).allow(each.who, verdict.any_of)
                for attempt in self.admin.under_way(each.began, each.ended)
                for rights in states
            ):
                continue
            self.cluster.wrong(each.who, verdict.what, verdict.any_of, list(states), denied=True)
