"""server.properties: what is read, and what is said of what can't be."""

import re

import pytest

from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.settings.all_keys import CONFIG_KEYS, DYNAMIC_KEYS
from quorate.raft.quorum_config import QuorumConfig
from quorate.runtime.network import Address
from quorate.types import Endpoint, NodeId, VoterSet

COMBINED = """
# a node that is both
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093,2@localhost:9193
listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093
log.dirs=/data/a, /data/b
"""


def config_with(line: str, *, without: str | None = None) -> str:
    lines = [each for each in COMBINED.splitlines() if without is None or not each.startswith(without + "=")]
    return "\n".join([*lines, line])


def test_a_combined_node_is_read_with_kafkas_defaults_for_the_rest() -> None:
    config = ServerConfig.parse(COMBINED)
    assert config.is_broker and config.is_controller
    assert config.node_id == 1
    assert [each.name for each in config.client_listeners] == ["PLAINTEXT"]
    assert config.controller_listener is not None
    assert config.controller_listener.address == Address("localhost", 9093)
    assert config.advertised == (BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092),)
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.log_dirs == ("/data/a", "/data/b")
    assert config.metadata_log_dir == "/data/a"
    assert config.replication.broker_session_timeout_ms == 9000
    assert config.lifecycle.heartbeat_interval == 2.0
    assert config.topics.auto_create_enable
    assert config.core().fetch_timeout_ms == 2000
    assert config.static == {}


def test_keys_that_topics_take_their_defaults_from_are_kept_as_they_were_set() -> None:
    config = ServerConfig.parse(config_with("log.retention.hours=2\nmin.insync.replicas=2"))
    assert config.static == {"log.retention.hours": "2", "min.insync.replicas": "2"}


def test_a_line_may_go_on_after_a_backslash_and_use_a_colon() -> None:
    config = ServerConfig.parse(config_with("num.partitions: \\\n   7"))
    assert config.topics.num_partitions == 7


def test_the_file_has_the_format_of_java() -> None:
    config = ServerConfig.parse(config_with("! a comment\nbroker.rack \\u0061\\:\\\n    b  "))
    assert config.rack == "a:b"


def test_a_broker_alone_needs_no_controller_listener() -> None:
    config = ServerConfig.parse(
        "process.roles=broker\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@h:9093\nlog.dirs=/d\n"
    )
    assert config.controller_listener is None
    assert not config.is_controller


def test_a_short_fetch_timeout_shortens_the_long_poll() -> None:
    config = ServerConfig.parse(config_with("controller.quorum.fetch.timeout.ms=300"))
    assert config.core().fetch_max_wait_ms == 150


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (config_with("num.partition=3"), 9, "did you mean num.partitions?"),
        (config_with("group.id=h"), 9, "not a known key; remove the line"),
        (config_with("num.partitions=many"), 9, "num.partitions is 'many'; it must be a whole number"),
        (config_with("num.partitions=0"), 9, "it must be between 1 and"),
        (config_with("num.partitions="), 9, "num.partitions is ''"),
        (config_with("auto.create.topics.enable=yes"), 9, "it must be true or false"),
        (config_with("min.insync.replicas=0"), 9, "min.insync.replicas is '0'"),
        (config_with("replica.selector.class=com.example.Mine"), 9, "code of others can't be loaded"),
        (config_with("node.id=2"), 9, "node.id is set on line 4 already"),
        (config_with("just words"), 9, "just is not a known key"),
        (config_with("broker.rack=\\u12"), 9, "is no character"),
        (config_with("broker.id=2"), 9, "differs from node.id (1)"),
        (config_with("process.roles=zookeeper", without="process.roles"), 8, "broker, controller or"),
        (config_with("node.id=3", without="node.id"), 5, "node 3 is a controller but not in it; add it"),
        (config_with("process.roles=broker", without="process.roles"), 5, "add controller to process.roles"),
        (config_with("controller.quorum.voters=1:9", without="controller.quorum.voters"), 8, "id@host:port"),
        (config_with("listeners=PLAINTEXT//x", without="listeners"), 8, "is not NAME://host:port"),
        (config_with("listeners=PLAINTEXT://:\u00b2", without="listeners"), 8, "is not NAME://host:port"),
        (config_with("controller.quorum.bootstrap.servers=one:\u00b2"), 9, "write host:port"),
        (
            config_with("controller.quorum.voters=\u00b2@h:9", without="controller.quorum.voters"),
            8,
            "id@host:port",
        ),
        (config_with("listeners=PLAINTEXT://:1,PLAINTEXT://:2", without="listeners"), 8, "is there twice"),
        (
            config_with("listeners=PLAINTEXT://:1", without="listeners"),
            8,
            "exactly one listener of controller.listener",
        ),
        (config_with("listeners=CONTROLLER://:1", without="listeners"), 8, "needs a listener for clients"),
        (config_with("controller.quorum.bootstrap.servers=one"), 9, "write host:port"),
        (config_with("advertised.listeners=SSL://h:1"), 9, "SSL is not in listeners"),
        (config_with("advertised.listeners=PLAINTEXT://0.0.0.0:1"), 9, "names no host"),
        (config_with("inter.broker.listener.name=X"), 9, "X is not in advertised.listeners"),
        (config_with("listener.security.protocol.map=PLAINTEXT:SSL"), 9, "CONTROLLER has no protocol"),
        (config_with("listener.security.protocol.map=PLAINTEXT"), 9, "not NAME:PROTOCOL"),
        (config_with("broker.session.timeout.ms=2000"), 9, "more than broker.heartbeat.interval.ms"),
        (config_with("broker.rack=" + "r" * 256), 9, "it must have 255 characters at most"),
        (
            config_with("listeners=PLAINTEXT://%s:1" % ("h" * 256), without="listeners"),
            8,
            "a name or host has more than 255 characters",
        ),
        (
            config_with(
                "listeners=" + ",".join(f"L{port}://:{port}" for port in range(65)), without="listeners"
            ),
            8,
            "it has 65 listeners; 64 are allowed",
        ),
        (
            config_with("log.dirs=" + ",".join(f"/d{number}" for number in range(257)), without="log.dirs"),
            8,
            "it names 257 directories; 256 are allowed",
        ),
        (config_with("log.dirs=,", without="log.dirs"), None, ""),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_the_remedy(text: str, line: int | None, says: str) -> None:
    if line is None:
        assert ServerConfig.parse(text).log_dirs == ("/tmp/kafka-logs",)
        return
    with pytest.raises(ServerConfigError) as caught:
        ServerConfig.parse(text)
    assert caught.value.line == line, str(caught.value)
    assert str(caught.value).startswith(f"line {line}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("key", ["process.roles", "node.id", "controller.listener.names"])
def test_a_missing_key_is_named_with_a_line_to_add(key: str) -> None:
    with pytest.raises(ServerConfigError, match=f"{key} is missing; add a line such as {key}="):
        ServerConfig.parse(config_with("", without=key))


DYNAMIC = """
process.roles=controller
node.id=4
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=one:9093, two:9093
listeners=CONTROLLER://:9093
log.dirs=/data
"""


def test_a_controller_whose_voters_are_in_the_log_needs_only_servers_to_ask() -> None:
    config = ServerConfig.parse(DYNAMIC)
    quorum = config.quorum(cluster_id="c")
    assert quorum.voters == VoterSet(())
    assert quorum.bootstrap == (Endpoint("one", 9093), Endpoint("two", 9093))
    assert quorum.listen == Address("0.0.0.0", 9093)
    assert quorum.own_endpoint == Endpoint("localhost", 9093)
    assert not quorum.auto_join


def test_a_controller_says_where_others_reach_it() -> None:
    line = "advertised.listeners=CONTROLLER://four.example:19093"
    assert ServerConfig.parse(DYNAMIC + line).quorum(cluster_id="c").own_endpoint == Endpoint(
        "four.example", 19093
    )
    both = ServerConfig.parse(config_with("advertised.listeners=CONTROLLER://one:1,PLAINTEXT://one:2"))
    assert both.advertised == (BrokerEndpoint(name="PLAINTEXT", host="one", port=2),)
    assert both.quorum(cluster_id="c").own_endpoint == Endpoint("one", 1)
    only_the_controllers = ServerConfig.parse(config_with("advertised.listeners=CONTROLLER://one:1"))
    assert only_the_controllers.advertised == (BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092),)


def test_a_static_voter_is_where_the_voters_say() -> None:
    config = ServerConfig.parse(
        COMBINED.replace("1@localhost:9093", "1@one.example:9093").replace(
            "CONTROLLER://localhost", "CONTROLLER://"
        )
    )
    assert config.quorum(cluster_id="c").own_endpoint == Endpoint("one.example", 9093)


def test_a_controller_with_bootstrap_servers_need_not_be_a_static_voter() -> None:
    config = ServerConfig.parse(DYNAMIC + "controller.quorum.voters=1@one:9093")
    assert config.voters.ids == (1,)
    assert config.quorum(cluster_id="c").own_endpoint == Endpoint("localhost", 9093)


def test_a_node_without_voters_and_servers_is_refused_with_both_remedies() -> None:
    with pytest.raises(ServerConfigError) as caught:
        ServerConfig.parse(DYNAMIC.replace("controller.quorum.bootstrap.servers=one:9093, two:9093", ""))
    assert "controller.quorum.bootstrap.servers=localhost:9093" in str(caught.value)
    assert "controller.quorum.voters=1@localhost:9093" in str(caught.value)


def test_snapshots_and_their_retention_are_kafkas() -> None:
    quorum = ServerConfig.parse(DYNAMIC).quorum(cluster_id="c")
    assert (quorum.snapshot_max_new_bytes, quorum.snapshot_max_interval_ms) == (20971520, 3600000)
    assert (quorum.retention_bytes, quorum.retention_ms) == (104857600, 604800000)
    changed = ServerConfig.parse(
        DYNAMIC + "metadata.log.max.record.bytes.between.snapshots=1000\n"
        "metadata.log.max.snapshot.interval.ms=0\n"
        "metadata.max.retention.bytes=-1\n"
        "metadata.max.retention.ms=-1\n"
        "controller.quorum.auto.join.enable=true"
    ).quorum(cluster_id="c")
    assert (changed.snapshot_max_new_bytes, changed.snapshot_max_interval_ms) == (1000, 0)
    assert changed.retention_bytes == changed.retention_ms == (1 << 63) - 1
    assert changed.auto_join


def test_every_key_has_a_sentence_and_a_default_that_it_accepts() -> None:
    for key in CONFIG_KEYS.values():
        assert key.doc.endswith("."), key.name
        if key.default:
            key.check(key.default)


def test_the_quorum_of_a_node_waits_as_an_embedded_one_does() -> None:
    assert ServerConfig.parse(COMBINED).core().high_watermark_wait_ms == (
        QuorumConfig(node_id=NodeId(1), cluster_id="c", folder="f").core.high_watermark_wait_ms
    )


def test_a_folder_may_be_named_once() -> None:
    with pytest.raises(ServerConfigError, match=r"line \d+: log.dirs: it names a directory twice"):
        ServerConfig.parse(config_with("log.dirs=/data/a,/data/b,/data/a", without="log.dirs"))


@pytest.mark.bug("CVE-2023-25194")
def test_no_key_that_names_a_login_or_code_changes_while_a_broker_runs() -> None:
    names = re.compile(r"jaas|login|sasl|\.class|provider|module|callback")
    assert any(names.search(each) for each in CONFIG_KEYS), "there are such keys"
    assert not [each for each in DYNAMIC_KEYS if names.search(each)]


@pytest.mark.bug("CVE-2024-31141")
@pytest.mark.parametrize("value", ["${file:/etc/passwd:root}", "${env:HOME}", "${directory:/etc:passwd}"])
def test_a_value_that_would_name_a_file_or_a_variable_stays_a_text(value: str) -> None:
    assert ServerConfig.parse(config_with(f"broker.rack={value}")).rack == value
    with pytest.raises(ServerConfigError, match=r"config\.providers"):
        ServerConfig.parse(config_with("config.providers=file,env"))
