"""The tree of an image: what is where, names that paths can hold, and nothing made before it is asked for."""

import tracemalloc
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_folder import DISKS, LOGS, ORDERS, STORY, MetadataFolder, partition

from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AccessControlEntry,
    ClientQuota,
    Config,
    ConfigType,
    LeaderRecoveryState,
    QuotaEntity,
    Topic,
)
from quorate.broker.metadata.states import PartitionState
from quorate.cli.images.image_changes import image_changes
from quorate.cli.images.image_tree import (
    Json,
    Leaf,
    TreeDirectory,
    file_name,
    image_tree,
    name_in_image,
    plain_tree,
)
from quorate.cli.images.tree_shell import NoSuchPathError, TreeShell, absolute, find_node
from quorate.runtime import uuid_text


@pytest.fixture
def image(written: MetadataFolder) -> MetadataImage:
    """The image before the last two changes: a reassignment is under way, both topics are there."""
    assert len(STORY) == 18
    return written.loader_at(written.end - 4).image


def value(image: MetadataImage, path: str) -> Json:
    return plain_tree(find_node(image_tree(image, {"offset": 5}), absolute(path)))


def test_every_part_of_the_image_is_in_the_tree(image: MetadataImage) -> None:
    disks = [uuid_text(DISKS[1]), uuid_text(DISKS[2])]
    assert value(image, "/features") == {"metadata.version": 1}
    assert value(image, "/producerIds") == {"nextProducerId": 1000}
    assert value(image, "/local") == {"offset": 5}
    assert value(image, "/configs") == {
        "topics": {"orders": {"retention.ms": "1000"}},
        "brokers": {"<default>": {"log.cleaner.threads": "2"}},
        "groups": {},
    }
    assert value(image, "/clientQuotas") == {
        "user(a%2Fb),clientId(<default>)": {"producer_byte_rate": 1024.0}
    }
    assert value(image, "/reassignments") == {
        "orders-0": {"replicas": [1, 2], "addingReplicas": [], "removingReplicas": [2]}
    }
    assert value(image, "/brokers/1") == {
        "epoch": 1,
        "features": {"metadata.version": {"minLevel": 1, "maxLevel": 1}},
        "inControlledShutdown": False,
        "incarnationId": uuid_text(uuid.UUID(int=1)),
        "inSyncReplicas": 2,
        "isFenced": False,
        "leads": 2,
        "listeners": {"PLAINTEXT": "host-1:9092"},
        "logDirs": disks[:1],
        "rack": "r1",
    }
    assert value(image, "/directories") == {
        disks[0]: {"broker": 1, "replicas": {"orders-0": True, "orders-1": False, "logs-0": True}},
        disks[1]: {"broker": 2, "replicas": {"orders-0": True, "orders-1": True, "logs-0": True}},
    }


def test_a_topic_is_there_by_name_and_by_id(image: MetadataImage) -> None:
    orders = value(image, "/topics/byName/orders")
    assert orders == value(image, f"/topics/byId/{uuid_text(ORDERS)}")
    assert orders == {
        "id": uuid_text(ORDERS),
        "name": "orders",
        "0": value(image, "/topics/byName/orders/0"),
        "1": {
            "replicas": [1, 2],
            "isr": [2],
            "removingReplicas": [],
            "addingReplicas": [],
            "leader": 2,
            "leaderRecoveryState": LeaderRecoveryState.RECOVERED.name,
            "leaderEpoch": 1,
            "partitionEpoch": 1,
            "elr": [],
            "lastKnownElr": [],
            "directories": [uuid_text(DISKS[1]), uuid_text(DISKS[2])],
            "state": "OnlinePartition",
        },
    }
    assert set(value(image, "/topics/byId") or ()) == {uuid_text(ORDERS), uuid_text(LOGS)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "missing", "there"),
    [
        ("/topics/byName/paid", "/topics/byName/paid", "logs, orders"),
        ("/topics/byName/orders/2", "/topics/byName/orders/2", "id, name, 0, 1"),
        ("/topics/byName/orders/00", "/topics/byName/orders/00", "id, name, 0, 1"),
        ("/topics/byId/orders", "/topics/byId/orders", uuid_text(ORDERS)),
        ("/brokers/3/rack", "/brokers/3", "1, 2"),
        ("/reassignments/orders-1", "/reassignments/orders-1", "orders-0"),
        ("/clientQuotas/user(a)", "/clientQuotas/user(a)", "user(a%2Fb)"),
    ],
)
def test_a_path_that_is_not_there_says_what_is(
    image: MetadataImage, path: str, missing: str, there: str
) -> None:
    with pytest.raises(NoSuchPathError) as refused:
        value(image, path)
    assert f"{missing} is not there; " in str(refused.value) and there in str(refused.value)


def test_nothing_is_below_a_file(image: MetadataImage) -> None:
    with pytest.raises(NoSuchPathError, match="/brokers/1/rack is a file; it has no r1"):
        value(image, "/brokers/1/rack/r1")


@given(st.text())
def test_every_name_can_be_part_of_a_path(name: str) -> None:
    file = file_name(name)
    assert name_in_image(file) == name
    assert absolute(f"/configs/{file}/x") == ("configs", file, "x")
    assert file.isprintable()


@pytest.mark.parametrize("name", ["", "/", "..", "<default>", "a b", "50%", "\x1b[2J", "ü"])
def test_a_quota_of_any_client_is_found_by_its_listed_name(name: str) -> None:
    image = MetadataImage()
    entity = QuotaEntity(client_id=name)
    image.apply(ClientQuota(entity=entity, key="consumer_byte_rate", value=1.0), offset=0, epoch=1)
    config = Config(resource_type=ConfigType.GROUP, resource_name=name, name="k", value="v")
    image.apply(config, offset=1, epoch=1)
    root = image_tree(image, {})
    for folder in ("/clientQuotas", "/configs/groups"):
        directory = find_node(root, absolute(folder))
        assert isinstance(directory, TreeDirectory)
        (listed,) = directory.names()
        assert len(plain_tree(find_node(root, absolute(f"{folder}/{listed}"))) or ()) == 1  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_look_at_one_partition_touches_one_partition(
    image: MetadataImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content of a directory is made when it is asked for, however much there is."""
    number = 50_000
    image.apply(Topic(name="many", topic_id=uuid.UUID(int=3)), offset=0, epoch=1)
    for each in range(number):
        image.apply(partition(uuid.UUID(int=3), each), offset=0, epoch=1)
    looked: list[int] = []
    read = MetadataImage.partition

    def spy(self: MetadataImage, topic_id: uuid.UUID, partition_id: int) -> PartitionState | None:
        looked.append(partition_id)
        return read(self, topic_id, partition_id)

    monkeypatch.setattr(MetadataImage, "partition", spy)
    tracemalloc.start()
    try:
        shell = TreeShell(lambda: image_tree(image, {}))
        assert '"leader": 1' in next(shell.run(["cat", "/topics/byName/many/49999"]))
        lines: Iterator[str] = shell.run(["find", "/topics/byName/many"])
        assert [next(lines) for _ in range(5)][-1] == "/topics/byName/many/1"
        assert next(shell.run(["ls", "/topics/byName/many"])) == "id"
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert set(looked) == {49_999, 0, 1}, "partitions that were looked at"
    assert used < 200_000, f"{used} bytes for four lines of {number}"


def test_no_reassignment_is_searched_for_where_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataImage, "all_partitions", lambda _: pytest.fail("all partitions were read"))
    assert value(MetadataImage(), "/reassignments") == {}


def test_a_leaf_is_read_when_it_is_shown() -> None:
    read: list[str] = []
    root = TreeDirectory(lambda: ["a"], lambda _: Leaf(lambda: read.append("a") or 1))
    shell = TreeShell(lambda: root)
    assert list(shell.run(["ls", "/"])) == ["a"] and not read
    assert list(shell.run(["cat", "/a"])) == ["1"] and read == ["a"]


def test_an_acl_is_found_by_its_id_and_its_change_is_shown() -> None:
    acl = Acl(
        resource_type=ResourceType.TOPIC,
        name="or",
        pattern=PatternType.PREFIXED,
        principal="User:ann",
        host="*",
        operation=AclOperation.READ,
        permission=AclPermission.DENY,
    )
    before, image = MetadataImage(), MetadataImage()
    image.apply(AccessControlEntry(id=uuid.UUID(int=7), acl=acl), offset=0, epoch=1)
    shown = {
        "host": "*",
        "operation": "READ",
        "patternType": "PREFIXED",
        "permissionType": "DENY",
        "principal": "User:ann",
        "resourceName": "or",
        "resourceType": "TOPIC",
    }
    path = f"/acls/byId/{uuid_text(uuid.UUID(int=7))}"
    assert value(image, path) == shown
    (change,) = image_changes(before, image)
    assert (change.path, change.before, change.after) == (path, None, shown)
    (change,) = image_changes(image, before)
    assert (change.path, change.before, change.after) == (path, shown, None)
