"""The metrics that a node serves are those of the reference."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.system

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


@pytest.mark.slow
def test_the_reference_has_every_metric_that_is_served_and_no_other(cluster: LocalCluster) -> None:
    served = {
        # A histogram is documented by its name, not by its buckets, sum and count.
        family.name if family.type in ("histogram", "summary") else sample.name
        # Some only the active controller has.
        for node in cluster.nodes
        for family in text_string_to_metric_families(cluster.metrics(node.node_id))
        for sample in family.samples
    }
    # Those of a protected cluster, whose test is tests/system/test_secured_cluster.py.
    served |= {"quorate_certificate_seconds_left"}
    documented = set(re.findall(r"`((?:raft_manager|kafka|quorate)_\w+)`", PAGE.read_text()))
    assert not served - documented
    assert not documented - served
