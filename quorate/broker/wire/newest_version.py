"""Requests of every version in the form of the newest that we serve.

kio has a class for each version of a message. Handlers read the newest one's, as Kafka's read one class for
all versions: a type checker knows every field that they read. `BY_NAME` has the two exceptions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Never, TypeVar, cast

from kio.static.protocol import Entity, RequestPayload

from quorate.broker.wire.api import Api, ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.codecs.sliced_encoding import Struct, struct_arrays
from quorate.runtime import Steps

if TYPE_CHECKING:
    from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
    from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
    from kio.schema.leave_group.v2.request import LeaveGroupRequest
    from kio.schema.offset_fetch.v7.request import OffsetFetchRequest

E = TypeVar("E", bound=Entity)

BY_NAME: Final[Mapping[int, int]] = MappingProxyType({ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9})
"""The last versions with names of topics. Later ones have ids in their place. Neither can be made of the
other here, so these requests have two forms, and their handlers look at the version."""

_PER_STEP: Final = 32
"""Elements between two yields, 0.1 ms."""
_Former = Callable[[Never], Iterable[object]]


def newest_steps(api: Api, request: RequestPayload) -> Steps[RequestPayload]:
    """Return a request with all fields of the newest version. A field that its version lacks has kio's
    default; the four that replaced others are made of these. A complete request is passed on as it is."""
    return (yield from _converted(request, request_type(api, newest_form(api, request.__version__))))


def newest_form(api: Api, version: int) -> int:
    """Return the version whose form a request of this version gets."""
    by_name = BY_NAME.get(api.key, -1)
    return by_name if version <= by_name else api.max_version


def _converted(message: Entity, newest: type[E]) -> Steps[E]:
    own = type(message)
    if not _lacks(own, newest):
        return cast(E, message)
    plain: dict[str, object] = {}
    arrays: dict[str, object] = {}
    for name in _names(newest):
        former = _FORMER.get((newest.__name__, name))
        if name in _names(own):
            value: object = getattr(message, name)
        elif former is not None:
            value = cast(Callable[[Entity], Iterable[object]], former)(message)
        else:
            continue
        struct = struct_arrays(newest).get(name)
        if struct is None or value is None:
            plain[name] = value
        else:
            plain[name] = ()
            arrays[name] = yield from _array(cast(Iterable[Entity | Struct], value), struct)
    return replace(build(newest, **plain), **arrays)


def _array(elements: Iterable[Entity | Struct], struct: type[Entity]) -> Steps[tuple[Entity, ...]]:
    found: list[Entity] = []
    for number, each in enumerate(elements, 1):
        found.append(
            build(struct, **each) if isinstance(each, Mapping) else (yield from _converted(each, struct))
        )
        if number % _PER_STEP == 0:
            yield
    return tuple(found)


@cache
def _lacks(own: type[Entity], newest: type[Entity]) -> bool:
    """Return whether the newest version has a field, at any depth, that this one lacks."""
    return not _names(newest) <= _names(own) or any(
        _lacks(struct_arrays(own)[name], struct) for name, struct in struct_arrays(newest).items()
    )


@cache
def _names(entity: type[Entity]) -> frozenset[str]:
    return frozenset(item.name for item in fields(entity))


def _topics(old: "DeleteTopicsRequest") -> Iterable[Struct]:
    return ({"name": name} for name in old.topic_names)


def _keys(old: "FindCoordinatorRequest") -> Iterable[str]:
    return (old.key,)


def _members(old: "LeaveGroupRequest") -> Iterable[Struct]:
    return ({"member_id": old.member_id},)


def _groups(old: "OffsetFetchRequest") -> Iterable[Struct]:
    return ({"group_id": old.group_id, "topics": old.topics},)


_FORMER: Final[Mapping[tuple[str, str], _Former]] = MappingProxyType(
    {
        ("DeleteTopicsRequest", "topics"): _topics,
        ("FindCoordinatorRequest", "coordinator_keys"): _keys,
        ("LeaveGroupRequest", "members"): _members,
        ("OffsetFetchRequest", "groups"): _groups,
    }
)
"""Fields of the newest version that replaced others, made of these."""
