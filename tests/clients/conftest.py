"""One cluster of real processes for all stock clients; each test troubles a leader, and brings it back."""

from collections.abc import Iterator

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.clients.killable import Killable
from tests.kit.clusters import running_cluster


@pytest.fixture(scope="session")
def client_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("clients") / "cluster"
    with running_cluster(folder, overrides={"min.insync.replicas": "2"}) as cluster:
        yield cluster


@pytest.fixture
def killable(client_cluster: LocalCluster) -> Iterator[Killable]:
    killable = Killable(client_cluster)
    yield killable
    killable.restore()
