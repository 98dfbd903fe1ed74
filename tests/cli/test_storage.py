"""A node's folder: its identity, and why it can't be used."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from quorate import blocking
from quorate.broker.access.sealing import Sealer
from quorate.broker.metadata.metadata_records import UserScramCredential
from quorate.broker.node_config.first_records import load_first_records
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.scram import salted_password, stored_key
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.log.snapshots.snapshot_file import name_of
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft import QuorumConfig, parse_voters
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from tests.cli.command import Node, Quorate

CLUSTER = "q1Sh-9_ISia_zwGINzRvyQ"


def formatted(quorate: Quorate, node: Node, *more: str) -> None:
    quorate.output("storage", "format", "-t", CLUSTER, "-c", node.config, *more)


def refused(
    quorate: Quorate, node: Node, *more: str, cluster_id: str = CLUSTER, code: ExitCode = ExitCode.STORAGE
) -> str:
    """Return the reason for which a folder is not formatted."""
    return quorate.error("storage", "format", "-t", cluster_id, "-c", node.config, *more, code=code)


def info_refused(quorate: Quorate, node: Node) -> str:
    return quorate.error("storage", "info", "-c", node.config, code=ExitCode.STORAGE)


def test_a_drawn_id_is_kafkas_form_of_a_uuid_and_differs_each_time(quorate: Quorate) -> None:
    drawn = {quorate("storage", "random-uuid").output.strip() for _ in range(5)}
    assert len(drawn) == 5
    assert {len(each) for each in drawn} == {22}


def test_storage_info_shows_the_identity_of_a_formatted_folder(quorate: Quorate, node: Node) -> None:
    formatted(quorate, node)
    shown = quorate.json("storage", "info", "-c", node.config)
    directory = shown.pop("directory.id")
    assert len(directory) == 22
    assert shown == {
        "folder": str(node.folder),
        "cluster.id": CLUSTER,
        "node.id": 1,
        "leader.epoch": 0,
        "leader.id": -1,
        "voted.id": -1,
    }


def test_formatting_twice_is_refused_because_it_would_forget_the_vote(quorate: Quorate, node: Node) -> None:
    formatted(quorate, node)
    before = (node.folder / "meta.properties").read_bytes()
    assert "is formatted already" in refused(quorate, node)
    assert (node.folder / "meta.properties").read_bytes() == before
    formatted(quorate, node, "--ignore-formatted")
    assert (node.folder / "meta.properties").read_bytes() == before


def test_a_folder_of_another_cluster_is_not_ignored(quorate: Quorate, node: Node) -> None:
    formatted(quorate, node)
    said = refused(quorate, node, "--ignore-formatted", cluster_id="another")
    assert f"belongs to cluster {CLUSTER}, not another" in said


def test_a_folder_of_another_node_is_shown_and_refused(quorate: Quorate, node: Node) -> None:
    formatted(quorate, node)
    node.write(node_id="2", controller_quorum_voters="2@127.0.0.1:9")
    assert "node.id: 1" in quorate("storage", "info", "-c", node.config).output
    assert "the folder is node 1's: correct node.id" in info_refused(quorate, node)


@pytest.mark.parametrize("cluster_id", ["", "two words"])
def test_an_id_that_is_none_is_refused(quorate: Quorate, node: Node, cluster_id: str) -> None:
    refused(quorate, node, cluster_id=cluster_id, code=ExitCode.USAGE)
    assert not node.folder.exists()


def test_a_folder_that_is_not_formatted_is_said_to_be_so(quorate: Quorate, node: Node) -> None:
    said = info_refused(quorate, node)
    assert "not formatted" in said
    assert "quorate storage format" in said


def test_a_file_in_the_folders_place_is_named(quorate: Quorate, node: Node) -> None:
    node.folder.write_text("in the way")
    assert str(node.folder) in refused(quorate, node)


@pytest.mark.parametrize("content", [b"", b'{"clusterId":"q1Sh', b"[]"])
def test_a_truncated_quorum_state_is_named_and_never_reset(
    quorate: Quorate, node: Node, content: bytes
) -> None:
    formatted(quorate, node)
    file = node.folder / "__cluster_metadata-0" / "quorum-state"
    file.write_bytes(content)
    said = info_refused(quorate, node)
    assert str(file) in said
    assert "docs/how-to/replace-a-disk.md" in said
    assert file.read_bytes() == content


def test_a_read_only_folder_is_named(quorate: Quorate, node: Node, small_disk: Callable[[str], Path]) -> None:
    node.folder = small_disk("ro") / "data"
    node.write()
    said = refused(quorate, node)
    assert str(node.folder) in said
    assert "Read-only" in said


def test_a_full_disk_is_named(quorate: Quorate, node: Node, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("size=16k")
    node.folder = disk / "data"
    node.write()
    (disk / "filler").write_bytes(bytes(16 * 1024))
    assert "no space left" in refused(quorate, node).lower()


# The first voters

DIRECTORY = "AAAAAAAAAAAAAAAAAAAABw"
OTHERS = "AAAAAAAAAAAAAAAAAAAACA"


def in_the_log(node: Node, **more: str | None) -> None:
    """Write the settings of a node that keeps its voters in the log."""
    node.write(controller_quorum_voters=None, controller_quorum_bootstrap_servers="one.example:9093", **more)


def first_voters(node: Node) -> VoterSet | None:
    async def read() -> VoterSet | None:
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        found = (await SnapshotStore.open(disk, str(node.folder / "__cluster_metadata-0"))).voters
        return None if found is None else found.voters

    return trio.run(read)


def test_a_standalone_node_is_the_first_voter_with_its_own_directory_and_endpoint(
    quorate: Quorate, node: Node
) -> None:
    in_the_log(node, listeners="PLAINTEXT://:0,CONTROLLER://one.example:9093")
    said = quorate.json("storage", "format", "-t", CLUSTER, "-c", node.config, "--standalone")
    assert (said["clusterId"], said["nodeId"], said["folder"]) == (CLUSTER, 1, str(node.folder))
    assert first_voters(node) == VoterSet(
        (Voter(ReplicaKey(NodeId(1), said["directoryId"]), Endpoint("one.example", 9093)),)
    )


def test_initial_controllers_are_in_the_log_of_each_with_the_directories_that_were_drawn(
    quorate: Quorate, node: Node
) -> None:
    in_the_log(node)
    both = f"2@two.example:9093:{OTHERS},1@one.example:9093:{DIRECTORY}"
    formatted(quorate, node, "--initial-controllers", both)
    assert first_voters(node) == VoterSet(
        (
            Voter(ReplicaKey(NodeId(1), DIRECTORY), Endpoint("one.example", 9093)),
            Voter(ReplicaKey(NodeId(2), OTHERS), Endpoint("two.example", 9093)),
        )
    )
    assert quorate.json("storage", "info", "-c", node.config)["directory.id"] == DIRECTORY


def test_a_node_that_joins_later_has_no_first_voters(quorate: Quorate, node: Node) -> None:
    in_the_log(node)
    formatted(quorate, node, "--no-initial-controllers")
    assert first_voters(node) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "name the first voters: --standalone"),
        (("--standalone", "--no-initial-controllers"), "only one of"),
        (("-I", f"2@two.example:9093:{OTHERS}"), "does not name node 1"),
        (("-I", "1@one.example:9093"), "write id@host:port:directory-id"),
        (("-I", "1@one.example:9093:short"), "is no directory id"),
        (("-I", f"one@one.example:9093:{OTHERS}"), "must be a node id"),
        (("-I", ""), "no controller is named"),
        (("-I", f"1@a:1:{OTHERS},1@b:1:{DIRECTORY}"), "must be distinct"),
    ],
)
def test_first_voters_that_are_not_clear_are_refused_and_nothing_is_written(
    quorate: Quorate, node: Node, options: tuple[str, ...], says: str
) -> None:
    in_the_log(node)
    assert says in " ".join(refused(quorate, node, *options, code=ExitCode.USAGE).split())
    assert not node.folder.exists()


def test_formatting_refuses_first_voters_beside_static_voters(quorate: Quorate, node: Node) -> None:
    said = refused(quorate, node, "--standalone", code=ExitCode.USAGE)
    assert "remove it and set controller.quorum.bootstrap.servers" in said


def test_a_broker_alone_needs_no_first_voters_and_can_not_be_one(quorate: Quorate, node: Node) -> None:
    in_the_log(node, process_roles="broker", listeners="PLAINTEXT://:9092")
    assert "is no controller" in refused(quorate, node, "--standalone", code=ExitCode.USAGE)
    formatted(quorate, node)
    assert first_voters(node) is None


# First users

ANN = "SCRAM-SHA-512=[name=ann,password=password-of-ann]"


def first_users(node: Node) -> list[UserScramCredential]:
    records = load_first_records(real_runtime(sync=SyncStrategy.INLINE).disk, str(node.folder))
    return [each for each in records if isinstance(each, UserScramCredential)]


def proves(user: UserScramCredential, password: str) -> bool:
    mechanism = SaslMechanism[user.mechanism.name]
    salted = salted_password(
        mechanism, password=password.encode(), salt=user.salt, iterations=user.iterations
    )
    return stored_key(mechanism, salted) == user.stored_key


def private_file(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def test_the_first_users_wait_for_the_first_controller(quorate: Quorate, node: Node, tmp_path: Path) -> None:
    in_the_log(node)
    file = private_file(
        tmp_path / "users",
        'SCRAM-SHA-256=[name="bob",password="password=of bob",iterations=5000]\n\n'
        f"SCRAM-SHA-512=[name=cat,salt=c2FsdCBvZiBjYXQ=,saltedpassword={'QUJD' * 21}QQ==]\n",
    )
    formatted(quorate, node, "--standalone", "--add-scram", ANN, "--add-scram-from", str(file))
    ann, bob, cat = first_users(node)
    assert proves(ann, "password-of-ann")
    assert (bob.name, bob.iterations) == ("bob", 5000)
    assert proves(bob, "password=of bob")
    assert (cat.name, bytes(cat.salt)) == ("cat", b"salt of cat")
    assert all(each.sealed_by == "" for each in (ann, bob, cat))
    assert (node.folder / "first-records").stat().st_mode & 0o777 == 0o600


def test_first_users_are_sealed_if_the_configuration_names_a_key(
    quorate: Quorate, node: Node, tmp_path: Path
) -> None:
    key = tmp_path / "sealing.key"
    assert "begins with key" in quorate.output("users", "create-key", key)
    assert key.stat().st_mode & 0o777 == 0o600
    in_the_log(node, **{"scram.sealing.key.location": str(key)})
    formatted(quorate, node, "--standalone", "--add-scram", ANN)
    (ann,) = first_users(node)
    sealer = Sealer(real_runtime(sync=SyncStrategy.INLINE).disk, str(key))
    assert ann.sealed_by == sealer.key_id
    assert proves(sealer.open(ann), "password-of-ann")
    key.chmod(0o644)
    assert "chmod 600" in refused(quorate, node, "-s", "-S", ANN, code=ExitCode.USAGE)


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("SCRAM-SHA-1=[name=ann,password=password-of-ann]", "does not begin with"),
        ("password-of-ann", "does not begin with"),
        ("SCRAM-SHA-512=name=ann,password=password-of-ann", "not in brackets"),
        ("SCRAM-SHA-512=[password=password-of-ann]", "no name"),
        ("SCRAM-SHA-512=[name=ann]", "either password or saltedpassword"),
        ("SCRAM-SHA-512=[name=ann,password=password-of-ann,saltedpassword=QUJD]", "either password or"),
        ("SCRAM-SHA-512=[name=ann,saltedpassword=QUJD]", "no salt"),
        ("SCRAM-SHA-512=[name=ann,salt=c2FsdCBvZiBjYXQ=,saltedpassword=QUJD]", "has 3 bytes"),
        ("SCRAM-SHA-512=[name=ann,salt=!,password=password-of-ann]", "salt is no base64"),
        ("SCRAM-SHA-512=[name=ann,password=password-of-ann,password-of-ann]", "comma in it"),
        ("SCRAM-SHA-512=[name=ann,name=ann,password=password-of-ann]", "name twice"),
        ("SCRAM-SHA-512=[name=ann,password=short]", "at least 8 characters"),
        ("SCRAM-SHA-512=[name=ann,password=password-of-ann,iterations=many]", "no whole number"),
        ("SCRAM-SHA-512=[name=ann,password=password-of-ann,iterations=1]", "Too few iterations"),
    ],
)
def test_a_first_user_that_is_not_clear_is_refused_without_showing_it(
    quorate: Quorate, node: Node, argument: str, says: str
) -> None:
    in_the_log(node)
    said = " ".join(refused(quorate, node, "-s", "-S", argument, code=ExitCode.USAGE).split())
    assert says in said
    assert "password-of-ann" not in said
    assert not node.folder.exists()


def test_a_file_of_first_users_that_others_may_read_is_refused(
    quorate: Quorate, node: Node, tmp_path: Path
) -> None:
    in_the_log(node)
    file = private_file(tmp_path / "users", ANN)
    file.chmod(0o644)
    assert "chmod 600" in refused(quorate, node, "-s", "--add-scram-from", str(file), code=ExitCode.USAGE)
    assert "can't be read" in refused(
        quorate, node, "-s", "--add-scram-from", str(tmp_path), code=ExitCode.USAGE
    )


def test_a_second_format_leaves_the_first_users_alone(quorate: Quorate, node: Node) -> None:
    in_the_log(node)
    formatted(quorate, node, "-s", "-S", ANN)
    held = first_users(node)
    refused(quorate, node, "-s", "-S", ANN.replace("ann", "bob"))
    refused(quorate, node, "-s")
    formatted(quorate, node, "-s", "-g", "-S", ANN.replace("ann", "bob"))
    assert first_users(node) == held


def test_a_broker_alone_takes_no_first_users(quorate: Quorate, node: Node) -> None:
    in_the_log(node, process_roles="broker", listeners="PLAINTEXT://:9092")
    assert "is no controller" in refused(quorate, node, "-S", ANN, code=ExitCode.USAGE)


def test_damaged_first_users_are_named_and_not_believed(quorate: Quorate, node: Node) -> None:
    in_the_log(node)
    formatted(quorate, node, "-s", "-S", ANN)
    path = node.folder / "first-records"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:3], whole[:30] + b"x" + whole[31:]):
        path.write_bytes(damaged)
        with pytest.raises(ServerConfigError, match="is damaged"):
            first_users(node)


# Restoring

STORE = """
from dataclasses import dataclass, field

@dataclass
class Store:
    items: list[str] = field(default_factory=list)

    def apply(self, batch):
        return [self.items.append(record.decode()) for record in batch.records]
"""


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot of a `Store` with one item, in a file that nobody may write. Its module is in the current
    folder."""
    (tmp_path / "kept_store.py").write_text(STORE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "kept_store", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    from kept_store import Store

    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="old",
        folder="old",
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    blocking.format_folder("old", cluster_id="old", node_id=NodeId(1))
    with blocking.Quorum.open(config, Store()) as quorum:
        quorum.append([b"x"])
        name = name_of(quorum.take_snapshot())
    copy = tmp_path / name
    copy.write_bytes((tmp_path / "old" / LOG_FOLDER / name).read_bytes())
    copy.chmod(0o400)
    return copy


@pytest.mark.bug("etcd PR 11157")
def test_a_backup_is_restored_into_a_folder_of_a_new_cluster_and_stays_as_it_is(
    quorate: Quorate, backup: Path, tmp_path: Path
) -> None:
    before = (backup.read_bytes(), backup.stat().st_mtime_ns)
    restoring = ("storage", "restore", backup, tmp_path / "new", "--state-machine", "kept_store:Store")
    made = quorate.json(*restoring, "-t", "new", "--node-id", 1)
    assert (made["clusterId"], made["nodeId"]) == ("new", 1)
    assert (backup.read_bytes(), backup.stat().st_mtime_ns) == before
    from kept_store import Store

    store = Store()
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="new",
        folder=str(tmp_path / "new"),
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    with blocking.Quorum.open(config, store) as quorum:
        assert quorum.snapshots()[-1].end_offset == made["endOffset"]
        quorum.append([b"y"])
    assert store.items == ["x", "y"]
    assert "is not empty" in quorate.error(*restoring, "-t", "other", "--node-id", 1)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("kept_store", "write the module and the class"),
        ("no_such_module:Store", "No module named"),
        ("kept_store:Shop", "has no attribute"),
        ("pathlib:PurePath", "has no method apply"),
    ],
)
def test_a_state_machine_that_can_not_be_made_is_refused(
    quorate: Quorate, backup: Path, tmp_path: Path, machine: str, message: str
) -> None:
    said = quorate.error(
        "storage", "restore", backup, tmp_path / "new", "--state-machine", machine, "-t", "new",
        "--node-id", 1, code=ExitCode.USAGE,
    )  # fmt: skip
    assert message in said
    assert not (tmp_path / "new").exists()
