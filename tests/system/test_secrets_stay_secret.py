"""The secrets of a protected cluster are planted, and looked for wherever others may look."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from quorate.broker.admin.admin_client import AdminClient, open_admin
from quorate.broker.admin.configs import Entity, EntityType, alter_configs, describe_configs
from quorate.broker.admin.users import list_users, remove_password, seal_again, set_password
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginError, LoginNetwork
from quorate.cli.console.command_config import network_by
from quorate.cli.node.local_cluster import LocalCluster
from quorate.history import FolderLog, entries_of, record_json
from quorate.runtime import ROOT, Address, TlsFiles, TlsTerms
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.spark_source.columns import plain
from tests.kit.clusters import running_cluster
from tests.kit.planted_secrets import PASSWORD, records, search, secrets_of

pytestmark = [pytest.mark.slow, pytest.mark.system]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("planted") / "cluster"
    with running_cluster(folder, nodes=1, secure=True) as cluster:
        trio.run(use, cluster)
        yield cluster


async def use(cluster: LocalCluster) -> None:
    """Do everything that has to do with secrets, with every log line written."""
    addresses = [Address.parse(each) for each in cluster.bootstrap.split(",")]
    entropy = real_runtime(sync=SyncStrategy.INLINE).entropy

    async def by(admin: AdminClient) -> None:
        loggers = Entity(EntityType.BROKER_LOGGERS, "1")
        await alter_configs(admin, loggers, {ROOT: "DEBUG"})
        shown = await describe_configs(admin, loggers, everything=True)
        assert "DEBUG" in [each.value for each in shown if each.name == ROOT]
        for user in ("planted", "removed"):
            await set_password(
                admin, user, PASSWORD, mechanism="SCRAM-SHA-512", iterations=4096, entropy=entropy
            )
        await seal_again(admin)
        await remove_password(admin, "removed", mechanism="SCRAM-SHA-512")

    async with open_admin(network_by(cluster.secrets.client_file), addresses, client_id="t") as admin:
        await by(admin)
        assert {each.user for each in await list_users(admin)} == {"admin", "planted"}
    files = TlsFiles(certificate="", key="", authorities=str(cluster.secrets.folder / "ca.pem"))
    secured = RealNetwork().secured(files, TlsTerms(strict=False, connects=True))
    for mechanism in (each for each in SaslMechanism if each is not SaslMechanism.OAUTHBEARER):
        for password in (PASSWORD, f"not {PASSWORD}"):
            login = Login(mechanism=mechanism, user="planted", password=password)
            with suppress(LoginError):
                (await LoginNetwork(secured, login, entropy).connect(addresses[0])).close()


def test_no_file_has_a_secret_but_the_private_ones(cluster: LocalCluster) -> None:
    secrets, salts = secrets_of(cluster), [bytes(each.salt) for each in records(cluster)]
    seen = {False: 0, True: 0}
    for path in cluster.folder.rglob("*"):
        if path.is_file() and cluster.secrets.folder not in path.parents:
            content = path.read_bytes()
            search(str(path), content, secrets)
            seen[all(salt in content for salt in salts)] += 1
    assert seen[True] >= 1, "the search finds what is there: the salts in the log"
    assert seen[False] > 5
    for path in cluster.secrets.folder.iterdir():
        if path.stat().st_mode & 0o077:
            search(str(path), path.read_bytes(), secrets)


@pytest.mark.bug("CVE-2021-28235")
def test_no_log_line_has_a_secret_not_even_at_debug(cluster: LocalCluster) -> None:
    lines = cluster.node(1).log_file.read_bytes()
    assert b"login failed" in lines
    search("the log", lines, secrets_of(cluster))


@pytest.mark.bug("CVE-2021-28235")
def test_neither_metrics_nor_processes_have_a_secret(cluster: LocalCluster) -> None:
    secrets = secrets_of(cluster)
    search("the metrics", cluster.metrics(1).encode(), secrets)
    seen = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("cmdline").read_bytes().find(str(cluster.folder).encode()) >= 0:
                seen += 1
                for file in ("cmdline", "environ"):
                    search(file, process.joinpath(file).read_bytes(), secrets)
    assert seen >= 1


@pytest.mark.bug("CVE-2019-12399")
def test_no_command_or_view_shows_a_secret(cluster: LocalCluster) -> None:
    secrets, node = secrets_of(cluster), cluster.node(1)
    (segment,) = (node.folder / "data" / "__cluster_metadata-0").glob("*.log")
    dumped = subprocess.run(
        [Path(sys.executable).with_name("quorate"), "log", "dump", str(segment), "--json"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert b"UserScramCredential" in dumped.stdout
    search("log dump", dumped.stdout + dumped.stderr, secrets)
    log = FolderLog(path=str(node.folder / "data"), read_uncommitted=True)
    end = log.extent().end_offset
    shown = [
        (record_json(entry), plain(entry.record), repr(entry.record))
        for batch in log.batches(0, end)
        for entry in entries_of(batch, start=0, end=end)
        if not entry.control
    ]
    assert any("[hidden]" in str(each) for each in shown)
    search("a view of the records", str(shown).encode(), secrets)
