"""A metadata image as a tree of files, after Kafka's metadata shell.

A directory is made from the image when it is read: a tree over a million partitions costs what is read of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from quorate.broker.controller.state_machines import partition_phase
from quorate.broker.metadata.acls import Acl
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType, QuotaEntity
from quorate.broker.metadata.states import (
    BrokerState,
    ConfigResource,
    PartitionKey,
    PartitionState,
    TopicState,
)
from quorate.runtime import parse_uuid, uuid_text
from quorate.types import (
    HIDDEN,
)

T = TypeVar("T")
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

DEFAULT_NAME: Final = "<default>"
"""The file name of what holds for all: an empty name in the image."""
CONFIG_FOLDERS: Final = {
    ConfigType.TOPIC: "topics",
    ConfigType.BROKER: "brokers",
    ConfigType.GROUP: "groups",
}
_BROKER_FILES: Final = (
    "epoch", "features", "inControlledShutdown", "incarnationId", "inSyncReplicas", "isFenced", "leads",
    "listeners", "logDirs", "rack",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file: its value is made when it is read."""

    read: Callable[[], Json]


@dataclass(frozen=True, slots=True)
class TreeDirectory:
    """A directory: its names, and what is behind each, asked for by name. `child` returns None for a name
    that is not there."""

    names: Callable[[], Iterable[str]]
    child: Callable[[str], "TreeNode | None"]


TreeNode: TypeAlias = TreeDirectory | Leaf


def image_tree(image: MetadataImage, local: Mapping[str, Json]) -> TreeDirectory:
    """The tree of `image`, with `local` as the files of /local. It shows later changes of the image too."""
    return _fixed(
        {
            "acls": _fixed({"byId": _acls(image)}),
            "brokers": _brokers(image),
            "clientQuotas": _quotas(image),
            "configs": _fixed({name: _configs(image, kind) for kind, name in CONFIG_FOLDERS.items()}),
            "directories": _directories(image),
            "features": _values(lambda: image.features),
            "local": _values(lambda: local),
            "producerIds": _fixed({"nextProducerId": Leaf(lambda: image.next_producer_id)}),
            "reassignments": _reassignments(image),
            "scram": _scram(image),
            "topics": _fixed({"byId": _topics_by_id(image), "byName": _topics_by_name(image)}),
        }
    )


def file_name(name: str) -> str:
    """A name as it is in a path: `/`, `%`, `<` and what can't be printed as %XX, an empty one as
    `<default>`."""
    if not name:
        return DEFAULT_NAME
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return "".join(quote(each, safe="") if each in "/%<" or not each.isprintable() else each for each in name)


def name_in_image(file: str) -> str:
    """The reverse of `file_name`."""
    return "" if file == DEFAULT_NAME else unquote(file)


def plain_tree(node: TreeNode) -> Json:
    """Everything below `node`, as one value. Directories are objects."""
    if isinstance(node, Leaf):
        return node.read()
    return {name: plain_tree(child) for name, child in children(node)}


def children(directory: TreeDirectory) -> Iterator[tuple[str, TreeNode]]:
    """The names and nodes of a directory, one at a time."""
    for name in directory.names():
        child = directory.child(name)
        if child is not None:
            yield name, child


def _fixed(nodes: Mapping[str, TreeNode]) -> TreeDirectory:
    return TreeDirectory(lambda: nodes, nodes.get)


def _looked_up(
    names: Callable[[], Iterable[str]], find: Callable[[str], T | None], show: Callable[[T], TreeNode]
) -> TreeDirectory:
    """A file or directory for each thing that `find` returns for a name."""

    def child(file: str) -> TreeNode | None:
        found = find(file)
        return None if found is None else show(found)

    return TreeDirectory(names, child)


def _values(values: Callable[[], Mapping[str, Json]]) -> TreeDirectory:
    """A file for each value, by its name."""

    def child(file: str) -> TreeNode | None:
        name = name_in_image(file)
        return Leaf(lambda: values()[name]) if name in values() else None

    return TreeDirectory(lambda: map(file_name, sorted(values())), child)


# Brokers


def _brokers(image: MetadataImage) -> TreeDirectory:
    return _looked_up(
        lambda: map(str, sorted(image.brokers)),
        lambda file: image.broker(int(file)) if _is_number(file) else None,
        partial(_broker, image),
    )


def _broker(image: MetadataImage, broker: BrokerState) -> TreeDirectory:
    values: dict[str, Json] = {
        **broker_value(broker),
        "features": {
            each.name: {"minLevel": each.min_level, "maxLevel": each.max_level} for each in broker.features
        },
        "inSyncReplicas": image.isr_count(broker.broker_id),
        "leads": image.leader_count(broker.broker_id),
    }
    return _fixed({name: Leaf(partial(values.get, name)) for name in _BROKER_FILES})


def broker_value(broker: BrokerState) -> dict[str, Json]:
    """Return a broker's registration under Kafka's names."""
    return {
        "epoch": broker.epoch,
        "incarnationId": uuid_text(broker.incarnation_id),
        "isFenced": broker.fenced,
        "inControlledShutdown": broker.in_controlled_shutdown,
        "listeners": {each.name: f"{each.host}:{each.port}" for each in broker.listeners},
        "logDirs": [uuid_text(each) for each in broker.log_dirs],
        "rack": broker.rack,
    }


def _directories(image: MetadataImage) -> TreeDirectory:
    def owners() -> dict[str, int]:
        return {
            uuid_text(each): broker.broker_id for broker in image.brokers.values() for each in broker.log_dirs
        }

    def child(file: str) -> TreeNode | None:
        broker_id = owners().get(file)
        if broker_id is None:
            return None
        return _fixed({"broker": Leaf(lambda: broker_id), "replicas": _replicas_in(image, broker_id, file)})

    return TreeDirectory(lambda: sorted(owners()), child)


def _replicas_in(image: MetadataImage, broker_id: int, directory: str) -> TreeDirectory:
    def is_there(state: PartitionState) -> bool:
        return broker_id in state.replicas and uuid_text(state.directory_of(broker_id)) == directory

    return _chosen_partitions(image, is_there, lambda state: broker_id in state.isr)


def _reassignments(image: MetadataImage) -> TreeDirectory:
    def value(state: PartitionState) -> Json:
        return {
            "replicas": list(state.replicas),
            "addingReplicas": list(state.adding_replicas),
            "removingReplicas": list(state.removing_replicas),
        }

    found = _chosen_partitions(image, lambda state: state.is_reassigning, value)
    # Most of the time there is none, and nothing has to be searched for that.
    return TreeDirectory(lambda: found.names() if image.reassigning_count else (), found.child)


def _chosen_partitions(
    image: MetadataImage, chosen: Callable[[PartitionState], bool], value: Callable[[PartitionState], Json]
) -> TreeDirectory:
    """Files TOPIC-PARTITION for the partitions that are `chosen`."""

    def names() -> Iterator[str]:
        for key, state in image.all_partitions():
            if chosen(state):
                yield f"{image.topics[key.topic_id].name}-{key.partition_id}"

    def child(file: str) -> TreeNode | None:
        name, _, number = file.rpartition("-")
        topic = image.topic(name)
        if topic is None or not _is_number(number):
            return None
        state = image.partition(topic.topic_id, int(number))
        return Leaf(lambda: value(state)) if state is not None and chosen(state) else None

    return TreeDirectory(names, child)


# Topics


def _topics_by_name(image: MetadataImage) -> TreeDirectory:
    return _looked_up(lambda: sorted(image.topic_names()), image.topic, partial(_topic, image))


def _topics_by_id(image: MetadataImage) -> TreeDirectory:
    def find(file: str) -> TopicState | None:
        try:
            return image.topic_by_id(parse_uuid(file))
        except ValueError:
            return None

    return _looked_up(lambda: map(uuid_text, image.topics), find, partial(_topic, image))


def _topic(image: MetadataImage, topic: TopicState) -> TreeDirectory:
    topic_id = topic.topic_id

    def names() -> Iterator[str]:
        yield from ("id", "name")
        yield from map(str, range(len(image.partitions(topic_id))))

    def child(file: str) -> TreeNode | None:
        if file == "id":
            return Leaf(lambda: uuid_text(topic_id))
        if file == "name":
            return Leaf(lambda: topic.name)
        state = image.partition(topic_id, int(file)) if _is_number(file) else None
        if state is None:
            return None
        return Leaf(lambda: partition_value(image, PartitionKey(topic_id, int(file)), state))

    return TreeDirectory(names, child)


def partition_value(image: MetadataImage, key: PartitionKey, state: PartitionState) -> dict[str, Json]:
    """A partition's state under Kafka's names, with the state that the state machine gives it (see
    `PartitionPhase`)."""
    return {
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "removingReplicas": list(state.removing_replicas),
        "addingReplicas": list(state.adding_replicas),
        "leader": state.leader,
        "leaderRecoveryState": state.leader_recovery_state.name,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
        "elr": list(state.elr),
        "lastKnownElr": list(state.eligible.last_known),
        "directories": [uuid_text(each) for each in state.directories],
        "state": partition_phase(image, key).value,
    }


# Configs, quotas and ACLs


def _configs(image: MetadataImage, kind: ConfigType) -> TreeDirectory:
    def child(file: str) -> TreeNode | None:
        resource = ConfigResource(kind, name_in_image(file))
        return _values(lambda: image.configs(resource)) if image.configs(resource) else None

    return TreeDirectory(
        lambda: sorted(file_name(each.name) for each in image.configured() if each.type is kind), child
    )


def _quotas(image: MetadataImage) -> TreeDirectory:
    return _looked_up(
        lambda: sorted(map(entity_name, image.quota_entities())),
        lambda file: next((each for each in image.quota_entities() if entity_name(each) == file), None),
        lambda entity: _values(partial(image.quotas, entity)),
    )


def _scram(image: MetadataImage) -> TreeDirectory:
    """The mechanisms that users have a password for, as in Kafka's image, and nothing that is made of it."""
    return _looked_up(
        lambda: sorted(map(file_name, image.scram_users())),
        lambda file: next((each for each in image.scram_users() if file_name(each) == file), None),
        lambda user: _values(partial(scram_values, image, user)),
    )


def scram_values(image: MetadataImage, user: str) -> dict[str, dict[str, Json]]:
    """The passwords of a user by mechanism, with all that is secret hidden."""
    return {
        each.mechanism.name: {
            "salt": HIDDEN,
            "storedKey": HIDDEN,
            "serverKey": HIDDEN,
            "iterations": each.iterations,
        }
        for each in image.scram_credentials_of(user)
    }


def entity_name(entity: QuotaEntity) -> str:
    """An entity of quotas as a file name, such as `user(alice),clientId(<default>)`."""
    parts = (("user", entity.user), ("clientId", entity.client_id), ("ip", entity.ip))
    return ",".join(f"{kind}({file_name(name)})" for kind, name in parts if name is not None)


def _acls(image: MetadataImage) -> TreeDirectory:
    return _looked_up(
        lambda: sorted(map(uuid_text, image.acls.by_id)),
        lambda file: next((each for each in image.acls.by_id if uuid_text(each) == file), None),
        lambda acl_id: _values(lambda: acl_value(image.acls.by_id[acl_id])),
    )


def acl_value(acl: Acl) -> dict[str, Json]:
    """The fields of an ACL by Kafka's names, as Kafka's metadata shell shows them."""
    return {
        "host": acl.host,
        "operation": acl.operation.name,
        "patternType": acl.pattern.name,
        "permissionType": acl.permission.name,
        "principal": acl.principal,
        "resourceName": acl.name,
        "resourceType": acl.resource_type.name,
    }


def _is_number(file: str) -> bool:
    """Return whether the file name is a number without leading zeros."""
    return file.isascii() and file.isdecimal() and (file == "0" or file[0] != "0") and len(file) < 11
