from collections.abc import Callable

import pytest

from tests.broker.controller.model_cluster import ModelCluster


@pytest.fixture
def cluster() -> ModelCluster:
    return ModelCluster()


@pytest.fixture(scope="session")
def new_cluster() -> Callable[[], ModelCluster]:
    """For property tests, which need one per example."""
    return ModelCluster
