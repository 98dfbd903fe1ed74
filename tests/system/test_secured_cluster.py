"""A cluster of `quorate cluster start --secure`, as stock clients, strangers and members with the wrong
certificate meet it.

The cluster is one for all tests here.
"""

import asyncio
import re
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which
from ssl import create_default_context

import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.errors
import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kio.schema.errors import ErrorCode
from prometheus_client.parser import text_string_to_metric_families

from quorate.broker.access.sealing import prepend_key
from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.users import (
    SCRAM_NAMES,
    Sealed,
    list_users,
    remove_password,
    seal_again,
    set_password,
)
from quorate.broker.wire.codecs.fetch_codec import FetchPartition, FetchTopic, KafkaFetchRequest
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginNetwork
from quorate.certs import CertificateFolder, keystore_of
from quorate.cli.console.command_config import network_by
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address, NetworkError, TlsFiles, TlsTerms
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from tests.kit.clusters import running_cluster

pytestmark = pytest.mark.slow

BOB = "bobs-own-password"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("secured") / "cluster"
    with running_cluster(folder, secure=True, overrides={"offsets.topic.num.partitions": "1"}) as cluster:
        entropy = real_runtime(sync=SyncStrategy.INLINE).entropy

        async def users() -> None:
            async with open_admin(cluster.network(), brokers_at(cluster), client_id="t") as admin:
                for mechanism in SCRAM_NAMES:
                    await set_password(
                        admin, "bob", BOB, mechanism=mechanism, iterations=4096, entropy=entropy
                    )
                assert {each.user for each in await list_users(admin)} == {"admin", "bob"}

        trio.run(users)
        yield cluster
        assert cluster.running() == [1, 2, 3]


def brokers_at(cluster: LocalCluster) -> list[Address]:
    return [Address(cluster.host, node.broker_port) for node in cluster.nodes]


def authorities(cluster: LocalCluster) -> str:
    return str(cluster.secrets.folder / "ca.pem")


def login(cluster: LocalCluster, user: str, password: str, mechanism: str) -> dict[str, str]:
    """The settings of librdkafka."""
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": authorities(cluster),
    }


def admin_of(cluster: LocalCluster) -> dict[str, str]:
    return login(cluster, "admin", cluster.secrets.password, "SCRAM-SHA-512")


def new_topic(cluster: LocalCluster) -> str:
    topic = f"t{uuid.uuid4().hex[:8]}"
    client = confluent_kafka.admin.AdminClient(admin_of(cluster))
    created = client.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 3)])
    created[topic].result(timeout=30)
    return topic


def produced_and_read(settings: Mapping[str, str], topic: str) -> bytes | None:
    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {**settings, "error_cb": failures.append, "message.timeout.ms": 15_000, "linger.ms": 0}
    )
    producer.produce(topic, b"hello", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0, failures
    assert not failures
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        for _ in range(40):
            record = consumer.poll(1)
            if record is not None and record.error() is None:
                return record.value()
    finally:
        consumer.close()
    return None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluents_client_produces_and_reads(cluster: LocalCluster, mechanism: str) -> None:
    topic = new_topic(cluster)
    settings = login(cluster, "admin", cluster.secrets.password, mechanism)
    assert produced_and_read(settings, topic) == b"hello"


def test_a_client_certificate_is_a_user(cluster: LocalCluster) -> None:
    topic = new_topic(cluster)
    folder = cluster.secrets.folder
    settings = {
        "bootstrap.servers": ",".join(map(str, brokers_at(cluster))),
        "security.protocol": "ssl",
        "ssl.ca.location": authorities(cluster),
        "ssl.certificate.location": str(folder / "client-admin.pem"),
        "ssl.key.location": str(folder / "client-admin-key.pem"),
    }
    assert produced_and_read(settings, topic) == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces(cluster: LocalCluster, mechanism: str) -> None:
    topic = new_topic(cluster)
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","),
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username="admin",
        sasl_plain_password=cluster.secrets.password,
        ssl_cafile=authorities(cluster),
    )
    try:
        assert producer.send(topic, b"hello").get(timeout=20).offset == 0
    finally:
        producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_produces_and_reads(cluster: LocalCluster, mechanism: str) -> None:
    topic = new_topic(cluster)

    async def main() -> bytes | None:
        settings = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "admin",
            "sasl_plain_password": cluster.secrets.password,
            "ssl_context": create_default_context(cafile=authorities(cluster)),
        }
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 20)
        return record.value

    assert asyncio.run(main()) == b"hello"


def test_kcat_of_debian_reads_with_the_file_that_was_made_for_it(cluster: LocalCluster) -> None:
    if which("kcat") is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    topic = new_topic(cluster)
    base = ["kcat", "-F", str(cluster.secrets.librdkafka_file), "-b", cluster.bootstrap, "-t", topic]
    subprocess.run([*base, "-P"], input=b"hello", check=True, timeout=30, capture_output=True)
    read = subprocess.run([*base, "-C", "-e", "-q"], check=True, timeout=30, capture_output=True)
    assert read.stdout == b"hello\n"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sasl.password": "wrong-password"}, "Authentication failed during authentication due to invalid"),
        ({"sasl.username": "nobody"}, "Authentication failed during authentication due to invalid"),
        ({"sasl.mechanisms": "PLAIN", "sasl.password": "wrong-password"}, "invalid credentials with SASL"),
        ({"security.protocol": "plaintext"}, ""),
        ({"security.protocol": "ssl"}, ""),
    ],
)
def test_a_stranger_gets_nothing(cluster: LocalCluster, changed: dict[str, str], says: str) -> None:
    errors: list[str] = []
    settings = {**login(cluster, "bob", BOB, "SCRAM-SHA-256"), **changed}
    if not settings["security.protocol"].startswith("sasl"):
        settings = {key: value for key, value in settings.items() if not key.startswith("sasl.")}
    client = confluent_kafka.admin.AdminClient(
        {**settings, "error_cb": lambda each: errors.append(str(each))}
    )
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=4)
    client.poll(0.1)
    assert says in " ".join(errors)


def test_another_authority_is_not_believed(cluster: LocalCluster, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    other = CertificateFolder(tmp_path / "other", now=datetime.now(UTC)).create_authority("other")
    errors: list[str] = []
    settings = {**login(cluster, "bob", BOB, "SCRAM-SHA-256"), "ssl.ca.location": str(other)}
    client = confluent_kafka.admin.AdminClient(
        {**settings, "error_cb": lambda each: errors.append(str(each))}
    )
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=4)
    client.poll(0.1)
    assert "certificate verify failed" in " ".join(errors)


@pytest.mark.parametrize(
    ("option", "protocol"),
    [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2"), ("-tls1_1", None), ("-tls1", None)],
)
def test_openssl_sees_tls_1_3_and_1_2_and_nothing_older(
    cluster: LocalCluster, option: str, protocol: str | None
) -> None:
    if which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
    address = cluster.bootstrap.split(",")[0]
    asked = ["openssl", "s_client", "-connect", address, "-CAfile", authorities(cluster), option]
    # Security level 0: the client itself would not speak the old ones.
    done = subprocess.run(
        [*asked, "-cipher", "ALL:@SECLEVEL=0"], input=b"R\n", capture_output=True, timeout=30
    )
    said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    if protocol is None:
        assert "Cipher is (NONE)" in said, said
        return
    assert f"New, {protocol}" in said, said
    assert "Verify return code: 0 (ok)" in said, said
    if protocol == "TLSv1.2":
        assert "no renegotiation" in said, said


def test_a_user_may_what_acls_say_and_no_more(cluster: LocalCluster) -> None:
    topic = new_topic(cluster)
    bob = login(cluster, "bob", BOB, "SCRAM-SHA-512")
    admin = confluent_kafka.admin.AdminClient(admin_of(cluster))
    assert topic not in confluent_kafka.admin.AdminClient(bob).list_topics(timeout=20).topics
    acls = [
        confluent_kafka.admin.AclBinding(
            kind,
            name,
            confluent_kafka.admin.ResourcePatternType.LITERAL,
            "User:bob",
            "*",
            operation,
            confluent_kafka.admin.AclPermissionType.ALLOW,
        )
        for kind, name, operation in (
            (confluent_kafka.admin.ResourceType.TOPIC, topic, confluent_kafka.admin.AclOperation.READ),
            (confluent_kafka.admin.ResourceType.TOPIC, topic, confluent_kafka.admin.AclOperation.WRITE),
            (confluent_kafka.admin.ResourceType.GROUP, f"g-{topic}", confluent_kafka.admin.AclOperation.READ),
        )
    ]
    for each in admin.create_acls(acls).values():
        each.result(timeout=20)
    assert produced_and_read(bob, topic) == b"hello"
    anything = confluent_kafka.admin.AclBindingFilter(
        confluent_kafka.admin.ResourceType.TOPIC,
        topic,
        confluent_kafka.admin.ResourcePatternType.ANY,
        None,
        None,
        confluent_kafka.admin.AclOperation.ANY,
        confluent_kafka.admin.AclPermissionType.ANY,
    )
    (removed,) = admin.delete_acls([anything]).values()
    assert len(removed.result(timeout=20)) == 2
    failures: list[object] = []
    producer = confluent_kafka.Producer({**bob, "message.timeout.ms": 15_000})
    producer.produce(topic, b"again", on_delivery=lambda error, _: failures.append(error.code()))
    producer.flush(20)
    assert failures == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]
    logs = "".join(node.log_file.read_text() for node in cluster.nodes)
    denial = rf"Principal = User:bob is Denied operation = \w+ from host = 127.0.0.1 .*:LITERAL:{topic} for "
    assert re.search(denial, logs), "the denial has an audit line in the log of a node"
    for request in ("CreateAcls", "DeleteAcls"):
        change = rf"a client changes the cluster .*principal=User:admin request={request}"
        assert re.search(change, logs), change


def test_who_may_alter_the_cluster_does_not_set_the_password_of_a_super_user(cluster: LocalCluster) -> None:
    sdk = confluent_kafka.admin
    admin = sdk.AdminClient(admin_of(cluster))
    right = sdk.AclBinding(
        sdk.ResourceType.BROKER,
        "kafka-cluster",
        sdk.ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        sdk.AclOperation.ALTER,
        sdk.AclPermissionType.ALLOW,
    )
    (granted,) = admin.create_acls([right]).values()
    granted.result(timeout=20)
    bob = sdk.AdminClient(login(cluster, "bob", BOB, "SCRAM-SHA-512"))

    def set_by_bob(user: str) -> None:
        info = sdk.ScramCredentialInfo(sdk.ScramMechanism.SCRAM_SHA_256, 4096)
        asked = sdk.UserScramCredentialUpsertion(user, info, b"bobs-password")
        (done,) = bob.alter_user_scram_credentials([asked]).values()
        done.result(timeout=20)

    set_by_bob("carol")
    with pytest.raises(confluent_kafka.KafkaException, match="Only a super user"):
        set_by_bob("admin")
    assert produced_and_read(admin_of(cluster), new_topic(cluster)) == b"hello"


def fetched_as(cluster: LocalCluster, files: TlsFiles, replica_id: int, topic: str) -> ErrorCode:
    """The error of a Fetch of broker 1 over the listener of brokers, under an id."""
    request = KafkaFetchRequest(
        version=12,
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        topics=[FetchTopic(topic, None, partitions=[FetchPartition(partition=0)])],
    )

    async def main() -> ErrorCode:
        async with open_client(RealNetwork().secured(files), brokers_at(cluster)[0]) as client:
            answer = await client.fetch(request)
        if answer.error is not ErrorCode.none:
            return answer.error
        return answer.topics[0].partitions[0].error

    return trio.run(main)


def test_a_certificate_of_node_3_fetches_as_replica_3_only(cluster: LocalCluster) -> None:
    topic = new_topic(cluster)
    folder = cluster.secrets.folder

    def files(name: str) -> TlsFiles:
        return TlsFiles(
            certificate=str(folder / f"{name}.pem"),
            key=str(folder / f"{name}-key.pem"),
            authorities=authorities(cluster),
        )

    refused = ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed
    assert fetched_as(cluster, files("node-3"), 2, topic) in refused
    assert fetched_as(cluster, files("node-3"), 3, topic) not in refused
    # A consumer that says it is a replica (CVE-2018-1288), by the certificate of a user that may do little.
    from datetime import UTC, datetime

    eve = CertificateFolder(folder, now=datetime.now(UTC)).create_client("eve")
    assert fetched_as(cluster, eve, 2, topic) in refused


def test_who_has_no_certificate_reaches_no_port_between_nodes(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        for port in (node.broker_port, node.controller_port):

            async def ask(port: int = port) -> None:
                async with open_client(RealNetwork(), Address(cluster.host, port), timeout_s=5):
                    pass

            with pytest.raises(NetworkError):
                trio.run(ask)


def test_the_time_that_certificates_have_is_a_metric(cluster: LocalCluster) -> None:
    found = {
        (each.labels["listener"], Path(each.labels["file"]).name): each.value
        for family in text_string_to_metric_families(cluster.metrics(2))
        for each in family.samples
        if each.name == "quorate_certificate_seconds_left"
    }
    year = 365 * 86400
    assert found == {
        (listener, file): pytest.approx(years * year, rel=0.01)
        for listener in ("BROKERS", "CLIENTS", "CONTROLLER")
        for file, years in (("node-2-keystore.pem", 1), ("ca.pem", 10))
    } | {("metrics", "node-2-keystore.pem"): pytest.approx(year, rel=0.01)}


def test_metrics_are_for_those_with_the_token(cluster: LocalCluster) -> None:
    context = create_default_context(cafile=authorities(cluster))
    url = cluster.metrics_url(1)
    for headers in ({}, {"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5, context=context)
        assert refused.value.code == 401
        assert refused.value.headers["WWW-Authenticate"].startswith('Bearer realm="metrics"')
    with urllib.request.urlopen(url.removesuffix("metrics") + "health", timeout=5, context=context) as answer:
        assert answer.read() == b'{"healthy": true}\n'
    with pytest.raises(OSError):
        urllib.request.urlopen(url.replace("https", "http"), timeout=5)
    assert "raft_manager_current_leader" in cluster.metrics(1)


def test_no_secret_is_found_where_it_does_not_belong(cluster: LocalCluster) -> None:
    token = cluster.secrets.metrics_token.read_bytes().strip()
    secrets = [cluster.secrets.password.encode(), BOB.encode(), token]
    searched = 0
    for path in cluster.folder.rglob("*"):
        if path.is_file() and cluster.secrets.folder not in path.parents:
            content = path.read_bytes()
            searched += 1
            assert not any(each in content for each in secrets), path
            assert b"PRIVATE KEY" not in content, path
    assert searched > 10
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            assert cluster.secrets.password.encode() not in process.read_bytes()


def test_the_metrics_count_logins(cluster: LocalCluster) -> None:
    def counted() -> dict[str, float]:
        found = {"successful": 0.0, "failed": 0.0}
        for node in cluster.nodes:
            for family in text_string_to_metric_families(cluster.metrics(node.node_id)):
                for sample in family.samples:
                    for kind in found:
                        if sample.name == f"kafka_server_socketservermetrics_{kind}_authentication_total":
                            assert sample.labels["listener"] in ("CLIENTS", "BROKERS")
                            found[kind] += sample.value
        return found

    before = counted()
    confluent_kafka.admin.AdminClient(admin_of(cluster)).list_topics(timeout=20)
    between = counted()
    assert between["successful"] > before["successful"]
    with pytest.raises(confluent_kafka.KafkaException):
        wrong = login(cluster, "admin", "wrong-password", "SCRAM-SHA-512")
        confluent_kafka.admin.AdminClient(wrong).list_topics(timeout=4)
    assert counted()["failed"] > between["failed"]


def test_the_connections_of_a_removed_user_are_closed(cluster: LocalCluster) -> None:
    by_admin = network_by(cluster.secrets.client_file)
    addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
    entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
    files = TlsFiles(certificate="", key="", authorities=authorities(cluster))
    secured = RealNetwork().secured(files, TlsTerms(strict=False, connects=True))
    mechanism = SaslMechanism.SCRAM_SHA_256

    async def main() -> None:
        async with open_admin(by_admin, addresses, client_id="t") as admin:
            for user in ("dan", "eve"):
                await set_password(
                    admin, user, BOB, mechanism=mechanism.value, iterations=4096, entropy=entropy
                )

            async def ends(user: str) -> None:
                login = Login(mechanism=mechanism, user=user, password=BOB)
                for _ in range(100):
                    try:
                        stream = await LoginNetwork(secured, login, entropy).connect(addresses[0])
                        break
                    except NetworkError:  # the broker has not heard of the user
                        await trio.sleep(0.1)
                else:
                    raise AssertionError("no login")
                try:
                    started[user].set()
                    with suppress(NetworkError):
                        assert await stream.receive_some(1) == b""
                finally:
                    stream.close()

            started = {"dan": trio.Event(), "eve": trio.Event()}
            async with trio.open_nursery() as nursery:
                with trio.fail_after(30):
                    nursery.start_soon(ends, "eve")
                    await started["eve"].wait()
                    async with trio.open_nursery() as of_dan:
                        of_dan.start_soon(ends, "dan")
                        await started["dan"].wait()
                        await remove_password(admin, "dan", mechanism=mechanism.value)
                    await trio.sleep(0.3)
                    assert len(nursery.child_tasks) == 1, "the other user's connection is open"
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_passwords_are_sealed_again_by_a_new_key_and_the_old_one_can_go(cluster: LocalCluster) -> None:
    keys = cluster.secrets.sealing_keys
    runtime = real_runtime(sync=SyncStrategy.INLINE)

    async def rotate() -> tuple[Sealed, Sealed]:
        await prepend_key(runtime.disk, str(keys), runtime.entropy)
        network = network_by(cluster.secrets.client_file)
        addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
        async with open_admin(network, addresses, client_id="t") as admin:
            return await seal_again(admin), await seal_again(admin)

    first, second = trio.run(rotate)
    assert (first.kept, first.unopened, second.sealed) == (0, 0, 0)
    assert first.sealed == second.kept >= 3
    keys.write_text(keys.read_text().splitlines()[0])
    assert produced_and_read(admin_of(cluster), new_topic(cluster)) == b"hello"
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.admin.AdminClient(
            login(cluster, "admin", "wrong-password", "SCRAM-SHA-512")
        ).list_topics(timeout=4)


@pytest.mark.bug("CVE-2020-15113")
def test_private_files_are_their_owners_alone(cluster: LocalCluster) -> None:
    assert cluster.secrets.folder.stat().st_mode & 0o777 == 0o700
    for path in cluster.secrets.folder.iterdir():
        if path.name in ("ca.pem",) or (path.suffix == ".pem" and "key" not in path.name):
            continue
        assert path.stat().st_mode & 0o777 == 0o600, path
    for path in (cluster.node(1).folder / "data").rglob("*.log"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert keystore_of(cluster.secrets.folder / "node-1.pem").exists()


def test_the_client_file_serves_our_own_commands(cluster: LocalCluster) -> None:
    async def ask() -> int:
        addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
        async with open_admin(network_by(cluster.secrets.client_file), addresses, client_id="t") as admin:
            return len(await list_users(admin))

    assert trio.run(ask) >= 4
