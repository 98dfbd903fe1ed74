"""What a decision by ACLs costs: remembered by the connection, remembered by the node, and made first."""

import gc
import uuid
from collections.abc import Callable
from pathlib import Path
from timeit import Timer
from typing import Any

from aims import judged
from report import Measure, Report, median_or_none

from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.apis.context import ServingNode
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import AccessControlEntry
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import ConnectionContext, RequestContext
from quorate.broker.wire.principals import Principal
from quorate.runtime import AUDIT_LOGGER, set_log_level

ACLS = (0, 100, 10_000)
REMEMBERED = "a decision that the connection remembers"
AGAIN = "a decision that the node remembers, for another connection"
FIRST = "a decision that nobody remembers"
TIMES_A_LOOK_UP = "the first of these, of a look-up"
_UNUSED: Any = None


def run(folder: Path, *, rounds: int, calls: int) -> Report:
    """Ask in this process, without a network: the rest of a request is not measured."""
    # As in a node: a level of its own.
    set_log_level(AUDIT_LOGGER, "INFO")
    taken: dict[str, list[float]] = {}

    def take(name: str, us: float) -> float:
        taken.setdefault(name, []).append(us)
        return us

    nodes = {count: _node(count) for count in ACLS}
    for _ in range(rounds):
        for count, (metadata, authorizer) in nodes.items():
            look_up = take("a look-up in a dict", _look_up_us(calls))
            remembered = take(f"{REMEMBERED}, {count:,} ACLs", _remembered_us(metadata, authorizer, calls))
            take(f"{TIMES_A_LOOK_UP}, {count:,} ACLs", remembered / look_up)
            take(f"{AGAIN}, {count:,} ACLs", _again_us(authorizer, calls))
            take(f"{FIRST}, {count:,} ACLs", _first_us(metadata, calls))
    return Report(
        title="A decision by ACLs",
        systems=("quorate",),
        measures=[
            judged(
                Measure(
                    name=name,
                    unit="" if name.startswith(TIMES_A_LOOK_UP) else "us",
                    values={"quorate": median_or_none(taken[name])},
                )
            )
            for name in sorted(taken, key=_place)
        ],
        notes=[
            "Of 100 users. One ACL in five is prefixed. Where there are none, allow.everyone.if.no.acl.found "
            "is true. A decision that the connection remembers is one call of the handler's own check."
        ],
    )


def _place(name: str) -> int:
    order = ("a look-up", REMEMBERED, TIMES_A_LOOK_UP, AGAIN, FIRST)
    return next(at for at, begin in enumerate(order) if name.startswith(begin))


ANN, PEER = Principal("User", "u0"), "10.0.0.7:50000"
HOST = PEER.partition(":")[0]


def _node(count: int) -> tuple[MetadataCache, StandardAuthorizer]:
    image = MetadataImage()
    for number in range(count):
        prefixed = number % 5 == 4
        acl = Acl(
            resource_type=ResourceType.TOPIC,
            name=f"topic-{number}"[: 6 + number % 4] + f"-{number}" if prefixed else f"topic-{number}",
            pattern=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal=f"User:u{number % 100}",
            host="*",
            operation=AclOperation.WRITE,
            permission=AclPermission.ALLOW,
        )
        image.apply(AccessControlEntry(id=uuid.UUID(int=number), acl=acl), offset=number, epoch=1)
    metadata = MetadataCache(image)
    return metadata, _authorizer(metadata)


def _authorizer(metadata: MetadataCache) -> StandardAuthorizer:
    return StandardAuthorizer(
        lambda: metadata.image.acls,
        allow_everyone_if_no_acl=not len(metadata.image.acls),
        now=lambda: 0.0,
    )


def _us(call: Callable[..., object], calls: int, **names: object) -> float:
    """Return the time of one call by its own names: a loop through locals costs as little as it can."""
    text = "call(" + ", ".join(names) + ")"
    timer = Timer(text, globals={"call": call, **names})
    gc.collect()
    return min(timer.repeat(3, calls)) / calls * 1e6


def _look_up_us(calls: int) -> float:
    known, key = {(AclOperation.WRITE, ResourceType.TOPIC, "topic-0"): True}, "".join(("topic", "-0"))
    asked = (AclOperation.WRITE, ResourceType.TOPIC, key)
    return min(Timer("known[asked]", globals={"known": known, "asked": asked}).repeat(3, calls)) / calls * 1e6


def _remembered_us(metadata: MetadataCache, authorizer: StandardAuthorizer, calls: int) -> float:
    node = ServingNode(
        config=_UNUSED,
        cluster_id="c",
        metadata=metadata,
        quorum=_UNUSED,
        channel=_UNUSED,
        cluster_metadata=_UNUSED,
        tasks=_UNUSED,
        authorizer=authorizer,
    )
    connection = ConnectionContext(id=1, peer=PEER, listener="SASL_SSL", principal=ANN)
    context = RequestContext(connection, ApiKey.PRODUCE.api, 9, 1, None)
    operation, resource, name = AclOperation.WRITE, ResourceType.TOPIC, "topic-0"
    if not node.may(context, operation, resource, name):
        raise AssertionError("what is measured is a permission")
    return _us(node.may, calls, context=context, operation=operation, resource=resource, name=name)


def _again_us(authorizer: StandardAuthorizer, calls: int) -> float:
    who = Principal("User", "u0")  # equal, but of another connection
    operation, resource, name = AclOperation.WRITE, ResourceType.TOPIC, "topic-0"
    return _us(
        authorizer.allows, calls, who=who, host=HOST, operation=operation, resource=resource, name=name
    )


def _first_us(metadata: MetadataCache, calls: int) -> float:
    """Each of another resource, so that none is remembered."""
    names = [f"topic-0-{number}" for number in range(min(calls, 5_000))]
    operation, resource = AclOperation.WRITE, ResourceType.TOPIC

    def ask_all() -> None:
        decide = _authorizer(metadata).decide
        for name in names:
            decide(ANN, HOST, operation, resource, name)

    return min(Timer(ask_all).repeat(3, 1)) / len(names) * 1e6
