"""The super user of a simulated cluster: gives and takes rights, sets and removes passwords, under faults."""

import hashlib
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin import acls as acl_admin
from quorate.broker.admin import topics
from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.metadata.acls import (
    OPERATIONS_OF,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternFilter,
    PatternType,
    ResourceType,
)
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.sasl.scram import SALT_BYTES, salted_password
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation
from tests.simulator.access.access_cluster import MECHANISM, AccessCluster
from tests.simulator.access.naive_rights import CLUSTER, SUPER_USER, Rights
from tests.simulator.access.rights_history import DECOY_HOST
from tests.simulator.brokers.one_broker import open_one

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse

USERS: Final = ("ann", "bob", "cat")
LOGS_IN: Final = "cat"
FAMILIES: Final = ("red", "red-a", "blue")
GROUPS: Final = ("g1", "g2")
_ITERATIONS: Final = 4096
_TIMEOUT_S: Final = 1.0
_GONE_S: Final = 3.0
"""After so long a request without an answer is no longer under way anywhere."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change of ACLs that was asked for, and whose outcome may never be known."""

    began: float
    change: Callable[[Rights], Rights]


def added(acls: Sequence[Acl]) -> Callable[[Rights], Rights]:
    return lambda rights: Rights(rights.offset, (*rights.acls, *acls), rights.salts)


def removed(wanted: AclFilter) -> Callable[[Rights], Rights]:
    return lambda rights: Rights(
        rights.offset, tuple(each for each in rights.acls if not wanted.takes(each)), rights.salts
    )


_OFTEN: Final = {
    ResourceType.TOPIC: (
        AclOperation.ALL,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.READ,
        AclOperation.READ,
        AclOperation.WRITE,
    ),
    ResourceType.GROUP: (AclOperation.ALL, AclOperation.READ),
    ResourceType.CLUSTER: (AclOperation.ALL, AclOperation.ALTER, AclOperation.CREATE),
}
"""Operations that users ask for often."""


class Passwords:
    """All passwords that were ever asked for. Each has a salt of its own."""

    def __init__(self) -> None:
        self.by_salt: dict[bytes, str] = {}

    def draw(self, source: random.Random) -> tuple[bytes, dict[str, object]]:
        """Draw a password. Return its salt and the fields of a request that sets it."""
        salt = _draw_salt(source)
        password = f"password-{len(self.by_salt)}"
        self.by_salt[salt] = password
        salted = salted_password(MECHANISM, password=password.encode(), salt=salt, iterations=_ITERATIONS)
        return salt, self._fields(salt, salted)

    def draw_unknown(self, source: random.Random) -> tuple[bytes, dict[str, object]]:
        """Do the same with a password that nobody logs in with: to make it would take milliseconds."""
        salt = _draw_salt(source)
        return salt, self._fields(salt, hashlib.sha256(salt).digest())

    @staticmethod
    def _fields(salt: bytes, salted: bytes) -> dict[str, object]:
        return {
            "mechanism": int(ScramMechanism.SCRAM_SHA_256),
            "iterations": _ITERATIONS,
            "salt": salt,
            "salted_password": salted,
        }


def _draw_salt(source: random.Random) -> bytes:
    return source.getrandbits(8 * SALT_BYTES).to_bytes(SALT_BYTES, "big")


class AccessAdministrator(Clients[AccessCluster]):
    """One change after the other, each repeated until it is acknowledged."""

    def __init__(self, cluster: AccessCluster, source: random.Random, *, pause_max_s: float) -> None:
        super().__init__(cluster, source)
        self._pause_max_s = pause_max_s
        self.passwords = Passwords()
        self.attempts: list[Attempt] = []
        """Changes of ACLs without a known outcome."""
        self.changes = 0
        """The number of acknowledged changes of rights."""
        self._topics = 0

    async def run(self) -> None:
        await self.give_first_rights()
        while not self._finish.is_set():
            await self._pause(self._random, self._pause_max_s)
            if not self._finish.is_set():
                await self._change()

    async def give_first_rights(self) -> None:
        """Set the password of the user who logs in, and make topics to be read."""
        await self._set_password(LOGS_IN)
        for family in FAMILIES:
            await self.create_topic(family)
        await self._create([self._draw_acl() for _ in range(8)])

    async def _change(self) -> None:
        held = self._cluster.history.now.acls
        match self._random.choice("aaaaarrrrwptd"):
            case "r" if held:
                chosen = self._random.choice(held)
                await self._delete(exactly(chosen))
            case "w" if held:
                chosen = self._random.choice(held)
                wanted = self._random.choice(
                    (
                        AclFilter(principal=chosen.principal),
                        AclFilter(name=chosen.name, pattern=PatternFilter.ANY),
                        AclFilter(
                            name=chosen.name, pattern=PatternFilter.MATCH, permission=AclPermission.ALLOW
                        ),
                        AclFilter(resource_type=chosen.resource_type, operation=chosen.operation),
                    )
                )
                await self._delete(wanted)
            case "p":
                if self._random.random() < 0.3 and LOGS_IN in (self._cluster.history.now.salts or {}):
                    await self._remove_password(LOGS_IN)
                else:
                    await self._set_password(LOGS_IN)
            case "t":
                await self.create_topic(self._random.choice(FAMILIES))
            case "d" if self._cluster.history.created:
                await self._delete_topic(self._random.choice(sorted(self._cluster.history.created)))
            case _:
                acls = [self._draw_acl() for _ in range(self._random.choice((1, 1, 2)))]
                await self._create(acls)
                if self._random.random() < 0.4:
                    # Given for a moment only.
                    await self._pause(self._random, self._pause_max_s)
                    await self._delete(exactly(acls[0]))

    def _draw_acl(self) -> Acl:
        source = self._random
        kind = source.choice(
            (
                ResourceType.TOPIC,
                ResourceType.TOPIC,
                ResourceType.TOPIC,
                ResourceType.GROUP,
                ResourceType.CLUSTER,
            )
        )
        pattern = PatternType.LITERAL
        if kind is ResourceType.CLUSTER:
            name = CLUSTER
        else:
            names = list(FAMILIES if kind is ResourceType.TOPIC else GROUPS)
            if kind is ResourceType.TOPIC:
                names += sorted(self._cluster.history.topics.values())
            name = source.choice(names)
            if source.random() < 0.5:
                pattern, name = PatternType.PREFIXED, name[: source.choice((1, 3, 9))]
            elif source.random() < 0.25:
                name = "*"
        operations = sorted(OPERATIONS_OF[kind])
        return Acl(
            resource_type=kind,
            name=name,
            pattern=pattern,
            principal=source.choice([*(f"User:{each}" for each in USERS), "User:*"]),
            host="*" if source.random() < 0.9 else DECOY_HOST,
            operation=source.choice(_OFTEN[kind] if source.random() < 0.7 else operations),
            permission=AclPermission.ALLOW if source.random() < 0.8 else AclPermission.DENY,
        )

    # Changes

    async def _create(self, acls: Sequence[Acl]) -> None:
        first = len(self._cluster.history.states) - 1
        await self._until_done(lambda admin: acl_admin.create_acls(admin, acls), added(acls))
        self._acknowledged(
            first, lambda rights: all(each in rights.acls for each in acls), f"the ACLs {acls}"
        )

    async def _delete(self, wanted: AclFilter) -> None:
        first = len(self._cluster.history.states) - 1
        await self._until_done(lambda admin: acl_admin.delete_acls(admin, [wanted]), removed(wanted))
        self._acknowledged(
            first, lambda rights: not any(map(wanted.takes, rights.acls)), f"no ACL of {wanted}"
        )

    async def _set_password(self, user: str) -> None:
        first = len(self._cluster.history.states) - 1
        salt, fields = self.passwords.draw(self._random)
        self._cluster.history.askers[f"salt/{salt.hex()}"].add(SUPER_USER)
        await self._until_done(lambda admin: alter_password(admin, [{"name": user, **fields}], []))
        self._acknowledged(first, lambda rights: rights.salt(user) == salt, f"a password of {user}")

    async def _remove_password(self, user: str) -> None:
        first = len(self._cluster.history.states) - 1
        gone = [{"name": user, "mechanism": int(ScramMechanism.SCRAM_SHA_256)}]
        await self._until_done(
            lambda admin: alter_password(admin, [], gone), fine=(ErrorCode.resource_not_found,)
        )
        self._acknowledged(first, lambda rights: rights.salt(user) is None, f"no password of {user}")

    def _acknowledged(self, first: int, holds: Callable[[Rights], bool], what: str) -> None:
        """Check that an acknowledged change is in the log, at one moment since it was asked for."""
        self.changes += 1
        if not self._cluster.history.were_there(first, holds):
            self._cluster.found(
                "AcknowledgedRightsAreInTheLog",
                SafetyViolation(f"{what}, which was acknowledged, is at no offset of the log"),
            )

    async def create_topic(self, family: str) -> None:
        self._topics += 1
        name = f"{family}-root-{self._topics}"
        self._cluster.history.askers[f"create/{name}"].add(SUPER_USER)
        asked = await self._until_done(
            lambda admin: topics.create_topic(admin, name, partitions=1, replication_factor=1),
            fine=(ErrorCode.topic_already_exists,),
        )
        if asked == 1:
            self._cluster.history.created.add(name)

    async def _delete_topic(self, name: str) -> None:
        self._cluster.history.askers[f"delete/{name}"].add(SUPER_USER)
        await self._until_done(
            lambda admin: topics.delete_topic(admin, name), fine=(ErrorCode.unknown_topic_or_partition,)
        )

    async def _until_done(
        self,
        ask: Callable[[AdminClient], Awaitable[object]],
        change: Callable[[Rights], Rights] | None = None,
        *,
        fine: Sequence[ErrorCode] = (),
    ) -> int:
        """Ask one broker after the other, and return how often."""
        for asked in itertools.count(1):
            node = self._random.choice(self._cluster.nodes)
            if change is not None:
                self.attempts.append(Attempt(trio.current_time(), change))
            try:
                async with open_one(self._cluster, node, "root", timeout_s=_TIMEOUT_S) as admin:
                    await ask(admin)
                    return asked
            except KafkaError as error:
                self._cluster.trace.add("root", f"{node.name} {error.code.name}")
                if error.code in fine:
                    return asked
                if error.code in DENIALS:
                    self._cluster.found(
                        "SuperUsersMayDoEverything", SafetyViolation(f"{node.name} denied it: {error}")
                    )
            except NetworkError:
                pass
            await trio.sleep(0.1)
        raise AssertionError

    def under_way(self, first: float, last: float) -> list[Attempt]:
        """Return the changes of ACLs that may have been decided, and never committed, between two times."""
        return [each for each in self.attempts if first - _GONE_S <= each.began <= last]


DENIALS: Final = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)


def exactly(acl: Acl) -> AclFilter:
    """Return the filter of one ACL."""
    return AclFilter(
        resource_type=acl.resource_type,
        name=acl.name,
        pattern=PatternFilter(int(acl.pattern)),
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )


async def alter_password(
    admin: AdminClient, upsertions: Sequence[dict[str, object]], deletions: Sequence[dict[str, object]]
) -> None:
    """Send one alteration. Raises `KafkaError`."""
    answer = await admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=deletions, upsertions=upsertions)
    for result in cast("AlterUserScramCredentialsResponse", answer).results:
        check(result.error_code, result.error_message)
