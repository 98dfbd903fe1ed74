"""`quorate cluster health` names certificates that end, until they are replaced as its remedy says."""

import json
import shlex
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quorate.certs import CertificateFolder
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from quorate.health import catalogue
from quorate.types import NodeId
from tests.cli.command import Processes
from tests.cli.health_checks import commands_in
from tests.kit.clusters import running_cluster
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

DAYS = 3
LOOK_S = 15.0
"""Nodes look at their files every two seconds, on a machine that may be busy."""


def folder_of(cluster: LocalCluster) -> CertificateFolder:
    return CertificateFolder(cluster.secrets.folder, now=datetime.now(UTC))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A protected cluster, in which the certificate of node 2 ends in some days."""

    def shorten(planned: LocalCluster) -> None:
        folder_of(planned).create_node(NodeId(2), hosts=[planned.host, "localhost"], days=DAYS)

    folder = tmp_path_factory.mktemp("certificates") / "cluster"
    with running_cluster(folder, secure=True, before_start=shorten) as started:
        yield started


def problems_of(cluster: LocalCluster, processes: Processes, client_file: Path) -> list[dict[str, Any]]:
    ran = processes.run(
        "cluster", "health", "--command-config", client_file, "-b", cluster.bootstrap, "--json"
    )
    assert ran.code in (ExitCode.OK, ExitCode.FAILED), ran.errors
    found: list[dict[str, Any]] = json.loads(ran.output)["problems"]
    return found


def problems_on_page(cluster: LocalCluster, node: int) -> list[dict[str, Any]]:
    token = cluster.secrets.metrics_token.read_text().strip()
    asked = urllib.request.Request(
        f"{cluster.page_url(node)}/page/api/health", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context(cafile=str(cluster.secrets.authorities))
    with urllib.request.urlopen(asked, timeout=5, context=context) as response:
        found: list[dict[str, Any]] = json.load(response)["health"]["problems"]
    return found


def test_a_certificate_that_ends_in_some_days_is_named_until_it_is_rotated(
    cluster: LocalCluster, processes: Processes
) -> None:
    known = cluster.secrets.client_file
    (found,) = problems_of(cluster, processes, known)
    assert (found["name"], found["where"]) == ("certificate-ends", "broker 2")
    date = (datetime.now(UTC) + timedelta(days=DAYS)).date()
    assert found["why"] in {
        f"the one that is shown to clients ends in {DAYS:.1f} days, on {each}"
        for each in (date, date - timedelta(days=1))
    }
    assert problems_on_page(cluster, 1) == [], "a node's page knows its own"
    (own,) = problems_on_page(cluster, 2)
    keystore = cluster.secrets.folder / "node-2-keystore.pem"
    assert (own["name"], own["where"]) == ("certificate-ends", "node 2")
    assert own["why"].startswith(f"certificate 1 of {keystore} ends in {DAYS:.1f} days, on ")
    listing, rotating = (
        [str(cluster.secrets.folder) if word == "FOLDER" else word for word in words]
        for words in commands_in(found["remedy"])
    )
    assert "node-2.pem" in processes.run(*listing).output
    assert processes.run(*rotating).code == ExitCode.OK, shlex.join(rotating)
    wait_until(
        lambda: problems_of(cluster, processes, known) == [],
        "nodes show the new certificates",
        seconds=LOOK_S,
    )
    assert problems_on_page(cluster, 2) == []


def test_a_certificate_of_the_command_itself_that_ends_is_named(
    cluster: LocalCluster, processes: Processes
) -> None:
    certificates = folder_of(cluster)
    keystore = Path(certificates.create_client("admin", days=catalogue.CERTIFICATE_DAYS - 1).certificate)
    keystore = keystore.with_name("client-admin-keystore.pem")
    brokers = ",".join(f"{cluster.host}:{node.broker_port}" for node in cluster.nodes)
    ran = processes.run(
        *("cluster", "health", "--command-config", cluster.secrets.certificate_file),
        *("-b", brokers, "--json"),
    )
    found = json.loads(ran.output)["problems"]
    assert str(keystore) in [each["where"] for each in found if each["name"] == "certificate-ends"]
    certificates.create_client("admin")
