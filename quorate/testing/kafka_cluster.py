"""A cluster of real brokers in the hands of a test."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from quorate.broker.admin.acls import create_acls, delete_acls, list_acls, text_of
from quorate.broker.admin.admin_client import AdminClient, open_admin
from quorate.broker.admin.configs import Entity, EntityType, describe_configs
from quorate.broker.admin.groups import delete_groups, list_groups
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.admin.quotas import QuotaOwner, list_quotas
from quorate.broker.admin.topics import (
    TopicDescription,
    create_topic,
    delete_topic,
    describe_topics,
    topic_names,
)
from quorate.broker.admin.users import SCRAM_NAMES, list_users, remove_password, set_password
from quorate.broker.metadata.acls import (
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from quorate.broker.wire.sasl.scram import MIN_ITERATIONS
from quorate.broker.wire.wire_errors import KafkaError
from quorate.certs import CertificateError
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.console.command_config import network_by
from quorate.cli.node.client_login import ClientLogin
from quorate.cli.node.local_cluster import LocalCluster, LocalClusterError, parse_settings
from quorate.cli.node.secured_cluster import ADMIN, ClusterSecrets
from quorate.runtime import Address, MissingExtraError, NetworkError
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.testing.cluster_error import ClusterError
from quorate.testing.forked_cluster import ForkedCluster, run_on_thread
from quorate.testing.node_host import NodeFiles, NodeHost, NodeProgram, no_room

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponsePartition

_Answer = TypeVar("_Answer")

_CLIENT_ID: Final = "quorate-testing"
_FIRST_USERS: Final = {(ADMIN, mechanism) for mechanism in SCRAM_NAMES}
_START_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005
_CONNECT_SECONDS: Final = 5.0
_DESCRIBE_SECONDS: Final = 5.0
_CLEAN_SECONDS: Final = 5.0


class KafkaCluster(ForkedCluster):
    """Brokers 1 to n, each a process and a controller too. The fixture `kafka_cluster` starts them.

    Methods block, most for milliseconds, and may be called from any thread. In a coroutine, call those that
    wait as `await asyncio.to_thread(cluster.wait_isr, "orders")` or
    `await trio.to_thread.run_sync(cluster.wait_isr, "orders")`, so that the loop goes on.

    All raise `ClusterError`.
    """

    def __init__(
        self, host: NodeHost, folder: Path, *, nodes: int, config: Mapping[str, str], secure: bool = False
    ) -> None:
        """`secure`: nodes know each other by certificates, and clients log in (`super_user`, `add_user`)."""
        super().__init__(host, folder, nodes=nodes)
        try:
            settings = parse_settings([f"{key}={value}" for key, value in config.items()])
            self._local = LocalCluster.plan(
                folder, nodes=nodes, client_port=0, secure=secure, overrides=settings
            )
            self.cluster_id = run_on_thread(self._local.prepare)
        except LocalClusterError as error:
            if isinstance(error.__cause__, OSError):
                raise no_room(folder, error.__cause__) from error
            raise ClusterError(str(error)) from error
        except (CommandError, CertificateError, MissingExtraError) as error:
            raise ClusterError(str(error)) from error
        except OSError as error:
            raise no_room(folder, error) from error
        self._start_all()

    def _files(self, node: int) -> NodeFiles:
        plan = self._local.node(node)
        return NodeFiles(NodeProgram.BROKER, plan.config_file, plan.log_file)

    def _listeners(self, node: int) -> tuple[Address, ...]:
        plan = self._local.node(node)
        ports = [plan.client_port, plan.controller_port]
        if self._local.secure:
            ports.append(plan.broker_port)
        return tuple(Address(self._local.host, port) for port in ports)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, `host:port,host:port`."""
        return self._local.bootstrap

    def address(self, node: int) -> str:
        """The `host:port` at which one broker serves clients."""
        return str(self._listeners(node)[0])

    def as_dict(self) -> dict[str, object]:
        """Return the cluster as `quorate cluster start --json` prints it."""
        described = self._local.as_dict(self.cluster_id, pid=self.pid)
        return described | {"superUser": self.super_user.as_dict()} if self._local.secure else described

    def _wait_all_known(self) -> None:
        """Return when each serving broker knows all others that serve."""
        serving = self.serving()

        async def question(admin: AdminClient) -> str | None:
            missing = set(serving) - set((await admin.brokers()).live)
            return f"does not know of brokers {sorted(missing)} yet" if missing else None

        self._wait_at_each(serving, question, seconds=_START_SECONDS)

    # Topics

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        assignment: Collection[Collection[int]] = (),
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and return when every broker that serves knows its leaders.

        `replication_factor`: by default a replica on each node, up to three. `assignment`: the replicas of
        each partition, the preferred leader first, in place of both numbers.
        """
        replicas = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        self._ask(
            partial(
                create_topic,
                topic=topic,
                partitions=partitions,
                replication_factor=replicas,
                assignment=[list(each) for each in assignment],
                configs=list((config or {}).items()),
            )
        )
        count = len(assignment) or partitions

        async def question(admin: AdminClient) -> str | None:
            led = [each.leader_id >= 0 for each in (await self._topic(admin, topic)).partitions]
            return None if led == [True] * count else f"knows {sum(led)} leaders of topic {topic}"

        self._wait_at_each(self.serving(), question, seconds=_WAIT_SECONDS)

    def leader(self, topic: str, partition: int = 0, *, seconds: float = _WAIT_SECONDS) -> int:
        """Return the node that leads a partition.

        A leader that was killed, paused or cut off from the majority is not returned: the call waits up to
        `seconds` for its successor.
        """
        serving = self.serving()
        found = -1

        async def question(admin: AdminClient) -> str | None:
            nonlocal found
            found = int((await self._partition(admin, topic, partition)).leader_id)
            return None if found in serving else f"says that node {found} leads {topic}-{partition}"

        self._wait_at_each(serving[:1], question, seconds=seconds)
        return found

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        """Return the in-sync replicas of a partition."""

        async def ask(admin: AdminClient) -> set[int]:
            return {int(each) for each in (await self._partition(admin, topic, partition)).isr_nodes}

        return self._ask(ask)

    def wait_isr(
        self,
        topic: str,
        partition: int = 0,
        nodes: Collection[int] | None = None,
        *,
        seconds: float = _WAIT_SECONDS,
    ) -> None:
        """Return when the in-sync replicas of a partition are these nodes. Default: all of its replicas."""

        async def question(admin: AdminClient) -> str | None:
            found = await self._partition(admin, topic, partition)
            isr = {int(each) for each in found.isr_nodes}
            wanted = set(found.replica_nodes if nodes is None else nodes)
            return None if isr == wanted else f"says that {topic}-{partition} has the ISR {sorted(isr)}"

        self._wait_at_each(self.serving()[:1], question, seconds=seconds)

    def active_controller(self, *, seconds: float = _WAIT_SECONDS) -> int:
        """Return the node that leads the metadata quorum. As `leader`, it waits for one that serves."""
        serving = self.serving()
        found: int | None = None

        async def question(admin: AdminClient) -> str | None:
            nonlocal found
            found = (await describe_quorum(admin)).leader
            return None if found in serving else f"says that node {found} is the active controller"

        self._wait_at_each(serving[:1], question, seconds=seconds)
        if found is None:
            raise ClusterError("there is no active controller")
        return found

    @staticmethod
    async def _topic(admin: AdminClient, topic: str) -> TopicDescription:
        (found,) = await describe_topics(admin, topic)
        return found

    @classmethod
    async def _partition(
        cls, admin: AdminClient, topic: str, partition: int
    ) -> "DescribeTopicPartitionsResponsePartition":
        found = (await cls._topic(admin, topic)).partitions
        if partition >= len(found):
            raise ClusterError(
                f"topic {topic} has {len(found)} partitions, and none with the number {partition}"
            )
        return found[partition]

    # Users

    @property
    def super_user(self) -> ClientLogin:
        """The user who may do everything in a secure cluster."""
        return self._login(ADMIN, self._secrets.password)

    def add_user(self, user: str, password: str | None = None) -> ClientLogin:
        """Give a user of a secure cluster a password, by default a random one, and return how it logs in when
        every broker that serves knows it. It may do nothing yet (`allow`)."""
        entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
        login = self._login(user, entropy.uuid().hex if password is None else password)

        async def give(admin: AdminClient) -> None:
            for mechanism in SCRAM_NAMES:
                await set_password(
                    admin,
                    user,
                    login.password,
                    mechanism=mechanism,
                    iterations=MIN_ITERATIONS,
                    entropy=entropy,
                )

        self._ask(give)

        async def question(admin: AdminClient) -> str | None:
            known = {name for name, _ in await _users(admin)}
            return None if user in known else f"does not know user {user} yet"

        self._wait_at_each(self.serving(), question, seconds=_WAIT_SECONDS)
        return login

    def allow(self, user: str, *operations: str, topic: str | None = None, group: str | None = None) -> None:
        """Let a user of a secure cluster do operations with a topic, a group or both (`"*"`: all), and return
        when every broker that serves knows it. A producer needs `"write"`, a consumer `"read"` with its topic
        and its group."""
        self._check_secure()
        try:
            acls = [
                Acl(
                    resource_type=kind,
                    name=name,
                    pattern=PatternType.LITERAL,
                    principal=f"User:{user}",
                    host=WILDCARD,
                    operation=AclOperation[each.upper()],
                    permission=AclPermission.ALLOW,
                )
                for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.GROUP, group))
                if name is not None
                for each in operations
                if AclOperation[each.upper()] in {*OPERATIONS_OF[kind], AclOperation.ALL}
            ]
        except KeyError:
            known = ", ".join(each.name.lower() for each in AclOperation)
            raise ClusterError(f"{operations}: the operations are {known}") from None
        if not acls:
            raise ClusterError("allow: name operations, and the topic or the group that they are for")
        self._ask(partial(create_acls, acls=acls))

        async def question(admin: AdminClient) -> str | None:
            missing = set(acls).difference(await list_acls(admin, AclFilter()))
            return f"does not know yet that {text_of(missing.pop())}" if missing else None

        self._wait_at_each(self.serving(), question, seconds=_WAIT_SECONDS)

    @property
    def _secrets(self) -> ClusterSecrets:
        self._check_secure()
        return self._local.secrets

    def _check_secure(self) -> None:
        if not self._local.secure:
            raise ClusterError("this cluster is open and has no users; start it with secure=True")

    def _login(self, user: str, password: str) -> ClientLogin:
        return self._secrets.login(user, password, bootstrap=self.bootstrap_servers)

    # Questions

    def _ask(
        self,
        action: Callable[[AdminClient], Awaitable[_Answer]],
        *,
        of: Collection[int] = (),
        seconds: float = _WAIT_SECONDS,
        logs_in: bool = False,
    ) -> _Answer:
        """Ask the first of these nodes that answers. Default: those that serve. `logs_in`: by the password of
        the super user, in place of a certificate."""
        nodes = of or self.serving()
        # The super user's password, as that of other users, holds at the listener of clients.
        addresses = [self._listeners(node)[0] if logs_in else self._address(node) for node in nodes]
        file = self._local.secrets.client_file

        async def ask() -> _Answer:
            network = network_by(file) if logs_in else self._local.network()
            with trio.fail_after(seconds):
                async with open_admin(
                    network,
                    addresses,
                    client_id=_CLIENT_ID,
                    connect_timeout_s=_CONNECT_SECONDS,
                ) as admin:
                    return await action(admin)

        try:
            return run_on_thread(partial(trio.run, ask))
        except (KafkaError, NetworkError) as error:
            raise ClusterError(str(error)) from error
        except trio.TooSlowError as error:
            raise ClusterError(f"no answer within {seconds:g} s; {self._states()}") from error

    def _wait_at_each(
        self,
        nodes: Collection[int],
        question: Callable[[AdminClient], Awaitable[str | None]],
        *,
        seconds: float,
    ) -> None:
        """Ask each of these nodes until it has no complaint."""
        complaints = dict.fromkeys(nodes, "has not answered")
        network = self._local.network()

        async def satisfy(node: int) -> None:
            while True:
                try:
                    async with open_admin(network, [self._address(node)], client_id=_CLIENT_ID) as admin:
                        while complaint := await question(admin):
                            complaints[node] = complaint
                            await trio.sleep(_POLL_SECONDS)
                    complaints.pop(node, None)
                    return
                except (KafkaError, NetworkError) as error:
                    complaints[node] = str(error)
                    await trio.sleep(_POLL_SECONDS)

        async def satisfy_all() -> None:
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    for node in nodes:
                        nursery.start_soon(satisfy, node)

        try:
            run_on_thread(partial(trio.run, satisfy_all))
        except* ClusterError as group:
            raise group.exceptions[0] from None
        if complaints:
            said = "; ".join(f"node {node} {complaint}" for node, complaint in sorted(complaints.items()))
            raise ClusterError(f"not within {seconds:g} s: {said}. {self._states()}")

    def _address(self, node: int) -> Address:
        """The address at which this node answers us."""
        return self._listeners(node)[-1 if self._local.secure else 0]

    # The slate of the next test

    def try_clean(self) -> bool:
        """Delete the topics and groups, ACLs and users. False: more was changed, so this cluster can't be as
        new."""
        if self._was_disturbed or not all(map(self._runs, self.nodes)):
            return False
        try:
            secure = self._local.secure
            deleted = self._ask(self._clean, seconds=_CLEAN_SECONDS, logs_in=secure)
            if deleted is None:
                return False
            if deleted or secure:
                gone = deleted

                async def question(admin: AdminClient) -> str | None:
                    left = gone.intersection(await topic_names(admin))
                    if left:
                        return f"still has topics {sorted(left)}"
                    if secure and (
                        await list_acls(admin, AclFilter()) or await _users(admin) != _FIRST_USERS
                    ):
                        return "still has users or ACLs"
                    return None

                self._wait_at_each(self.nodes, question, seconds=_CLEAN_SECONDS)
        except ClusterError:
            return False
        return True

    async def _clean(self, admin: AdminClient) -> set[str] | None:
        """Return the topics that were deleted. None: there is more to clean."""
        topics: set[str] = set()
        left: list[object] = []

        async def delete_all_topics() -> None:
            async with trio.open_nursery() as deletions:
                for topic in await describe_topics(admin, None):
                    if not topic.internal:
                        topics.add(topic.name)
                        deletions.start_soon(delete_topic, admin, topic.name)

        async def delete_all_groups() -> None:
            groups = [each.group_id for each in await list_groups(admin)]
            left.extend(error for error in (await delete_groups(admin, groups)).values() if error.value)

        async def find_quotas() -> None:
            left.extend(await list_quotas(admin, QuotaOwner({})))

        async def delete_all_acls() -> None:
            await delete_acls(admin, [AclFilter()])

        async def delete_all_users() -> None:
            users = await _users(admin)
            left.extend(_FIRST_USERS - users)
            for user, mechanism in users - _FIRST_USERS:
                await remove_password(admin, user, mechanism=mechanism)

        async def find_configs(broker: str) -> None:
            left.extend(await describe_configs(admin, Entity(EntityType.BROKERS, broker), everything=False))

        try:
            async with trio.open_nursery() as nursery:
                steps = [delete_all_topics, delete_all_groups, find_quotas]
                if self._local.secure:
                    steps += [delete_all_acls, delete_all_users]
                for step in steps:
                    nursery.start_soon(step)
                for name in (*map(str, self.nodes), ""):
                    nursery.start_soon(find_configs, name)
        except* (KafkaError, NetworkError) as errors:
            left.append(errors)
        return None if left else topics

    # Descriptions

    def _described(self) -> str:
        return self._ask(_described, seconds=_DESCRIBE_SECONDS)

    def describe_as(self, node: int) -> str:
        """Return the topics as one node knows them, which may be cut off from the others."""
        return self._ask(_described_topics, of=(node,))


async def _users(admin: AdminClient) -> set[tuple[str, str]]:
    """The users and the mechanisms of their passwords."""
    return {(each.user, each.mechanism) for each in await list_users(admin)}


async def _described(admin: AdminClient) -> str:
    quorum = await describe_quorum(admin)
    topics = await _described_topics(admin)
    return f"active controller: node {quorum.leader}, epoch {quorum.epoch}\n{topics}".rstrip()


async def _described_topics(admin: AdminClient) -> str:
    return "\n".join(
        f"{topic.name}-{each.partition_index}: leader {each.leader_id}, ISR {list(each.isr_nodes)}, "
        f"replicas {list(each.replica_nodes)}"
        for topic in await describe_topics(admin, None)
        if not topic.internal
        for each in topic.partitions
    )
