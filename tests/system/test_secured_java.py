"""A cluster of `quorate cluster start --secure`, as Kafka's own clients and tools meet it: Java's producer,
consumer and AdminClient.

The cluster is one for all tests here, and so is the JVM.
"""

import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.users import SCRAM_NAMES, set_password
from quorate.certs import CertificateFolder, keystore_of
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from tests.kit.clusters import running_cluster

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "kafka_tools"))

from jars import CantRunHereError, class_path
from tool_host import Done, ToolHost
from tools import MAINS

pytestmark = [pytest.mark.clients, pytest.mark.slow]

CAROL = "carols-own-password"
WAYS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "certificate")


@pytest.fixture(scope="module")
def host() -> Iterator[ToolHost]:
    try:
        host = ToolHost(class_path())
    except CantRunHereError as error:
        pytest.skip(str(error))
    try:
        yield host
    finally:
        host.close()


@pytest.fixture(scope="module")
def cluster(host: ToolHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("java") / "cluster"
    with running_cluster(folder, secure=True, overrides={"offsets.topic.num.partitions": "1"}) as cluster:
        entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
        brokers = [Address(cluster.host, node.broker_port) for node in cluster.nodes]

        async def users() -> None:
            async with open_admin(cluster.network(), brokers, client_id="t") as admin:
                for mechanism in SCRAM_NAMES:
                    await set_password(
                        admin, "carol", CAROL, mechanism=mechanism, iterations=4096, entropy=entropy
                    )

        trio.run(users)
        yield cluster
        assert cluster.running() == [1, 2, 3]


def properties(cluster: LocalCluster, way: str, *, user: str = "", password: str = "") -> dict[str, str]:
    """The settings of Java's clients. The user is the administrator if none is named."""
    folder = cluster.secrets.folder
    if way == "certificate":
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore_of(folder / "client-admin.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
        }
    login = cluster.secrets.login(user or "admin", password or cluster.secrets.password)
    return dict(replace(login, mechanism=way).java())


def ran(
    host: ToolHost,
    cluster: LocalCluster,
    folder: Path,
    settings: Mapping[str, str],
    tool: str,
    *arguments: str,
    stdin: str = "",
) -> Done:
    """Run a tool against the listener that the settings belong to."""
    file = folder / f"{uuid.uuid4().hex}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    file.chmod(0o600)
    brokers = ",".join(f"{cluster.host}:{node.broker_port}" for node in cluster.nodes)
    server = brokers if settings["security.protocol"] == "SSL" else cluster.bootstrap
    given = ["--bootstrap-server", server, "--command-config", str(file), *arguments]
    return host.tool(MAINS[tool], given, stdin=stdin, seconds=40)


@pytest.mark.parametrize("way", WAYS)
def test_javas_clients_make_a_topic_write_it_and_read_it(
    host: ToolHost, cluster: LocalCluster, tmp_path: Path, way: str
) -> None:
    settings = properties(cluster, way)
    topic = f"t{uuid.uuid4().hex[:8]}"
    made = ran(host, cluster, tmp_path, settings, "kafka-topics", "--create", "--topic", topic)
    assert (made.code, f"Created topic {topic}." in made.output) == (0, True), made.output
    sent = ran(
        host, cluster, tmp_path, settings, "kafka-console-producer", "--topic", topic, stdin="one\ntwo\n"
    )
    assert sent.code == 0, sent.output
    read = ran(
        *(host, cluster, tmp_path, settings, "kafka-console-consumer", "--topic", topic, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", "30000", "--group", f"g-{topic}"),
    )
    assert re.search(r"^one\ntwo\n", read.output, re.M), read.output


WRONG: Mapping[str, tuple[Mapping[str, str], str]] = {
    "a wrong password": ({"password": "wrong"}, "invalid credentials with SASL mechanism"),
    "an unknown name": ({"user": "nobody"}, "invalid credentials with SASL mechanism"),
}


@pytest.mark.parametrize("way", WAYS[:-1])
@pytest.mark.parametrize("wrong", WRONG)
def test_java_is_told_what_is_wrong_with_a_login(
    host: ToolHost, cluster: LocalCluster, tmp_path: Path, way: str, wrong: str
) -> None:
    changed, says = WRONG[wrong]
    settings = properties(cluster, way, **{"user": "carol", "password": CAROL, **changed})
    asked = ran(host, cluster, tmp_path, settings, "kafka-topics", "--list")
    assert asked.code != 0
    assert says in asked.output, asked.output


def test_java_does_not_believe_another_authority(
    host: ToolHost, cluster: LocalCluster, tmp_path: Path
) -> None:
    from datetime import UTC, datetime

    other = CertificateFolder(tmp_path / "other", now=datetime.now(UTC)).create_authority("other")
    settings = properties(cluster, "SCRAM-SHA-512") | {"ssl.truststore.location": str(other)}
    asked = ran(host, cluster, tmp_path, settings, "kafka-topics", "--list")
    assert asked.code != 0
    assert "SslAuthenticationException" in asked.output or "SSL handshake failed" in asked.output


def test_kafka_acls_grants_lists_and_takes_away(
    host: ToolHost, cluster: LocalCluster, tmp_path: Path
) -> None:
    admin, carol = (
        properties(cluster, "SCRAM-SHA-512"),
        properties(cluster, "SCRAM-SHA-256", user="carol", password=CAROL),
    )
    topic = f"t{uuid.uuid4().hex[:8]}"
    assert ran(host, cluster, tmp_path, admin, "kafka-topics", "--create", "--topic", topic).code == 0
    seen = ran(host, cluster, tmp_path, carol, "kafka-topics", "--list")
    assert topic not in seen.output
    granted = ran(
        *(host, cluster, tmp_path, admin, "kafka-acls", "--add", "--allow-principal", "User:carol"),
        *("--producer", "--topic", topic),
    )
    assert granted.code == 0, granted.output
    listed = ran(host, cluster, tmp_path, admin, "kafka-acls", "--list", "--topic", topic)
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        entry = f"(principal=User:carol, host=*, operation={operation}, permissionType=ALLOW)"
        assert entry in listed.output, listed.output
    sent = ran(host, cluster, tmp_path, carol, "kafka-console-producer", "--topic", topic, stdin="one\n")
    assert (sent.code, "ERROR" in sent.output) == (0, False), sent.output
    prefixed = ran(
        *(host, cluster, tmp_path, admin, "kafka-acls", "--add", "--deny-principal", "User:carol"),
        *("--operation", "All", "--topic", topic[:4], "--resource-pattern-type", "prefixed"),
    )
    assert prefixed.code == 0, prefixed.output
    seen = ran(host, cluster, tmp_path, carol, "kafka-topics", "--list")
    assert topic not in seen.output
    for pattern in ((topic, "literal"), (topic[:4], "prefixed")):
        taken = ran(
            *(host, cluster, tmp_path, admin, "kafka-acls", "--remove", "--force"),
            *("--topic", pattern[0], "--resource-pattern-type", pattern[1]),
        )
        assert taken.code == 0, taken.output
    listed = ran(host, cluster, tmp_path, admin, "kafka-acls", "--list")
    assert "User:carol" not in listed.output


def test_kafka_configs_makes_a_user_sets_a_quota_and_removes_both(
    host: ToolHost, cluster: LocalCluster, tmp_path: Path
) -> None:
    admin = properties(cluster, "certificate")
    dave = ("--entity-type", "users", "--entity-name", "dave")
    made = ran(
        *(host, cluster, tmp_path, admin, "kafka-configs", "--alter", *dave),
        *("--add-config", "SCRAM-SHA-512=[iterations=8192,password=daves-own]"),
    )
    assert made.code == 0, made.output
    quota = ran(
        *(host, cluster, tmp_path, admin, "kafka-configs", "--alter", *dave),
        *("--add-config", "producer_byte_rate=1000000"),
    )
    assert quota.code == 0, quota.output
    told = ran(host, cluster, tmp_path, admin, "kafka-configs", "--describe", *dave)
    assert "SCRAM-SHA-512=iterations=8192" in told.output, told.output
    assert "producer_byte_rate=1000000" in told.output, told.output
    login = properties(cluster, "SCRAM-SHA-512", user="dave", password="daves-own")
    asked = ran(host, cluster, tmp_path, login, "kafka-topics", "--list")
    assert asked.code == 0, asked.output
    for option in ("producer_byte_rate", "SCRAM-SHA-512"):
        gone = ran(
            *(host, cluster, tmp_path, admin, "kafka-configs", "--alter", *dave),
            *("--delete-config", option),
        )
        assert gone.code == 0, gone.output
    asked = ran(host, cluster, tmp_path, login, "kafka-topics", "--list")
    assert asked.code != 0
    assert "invalid credentials" in asked.output
