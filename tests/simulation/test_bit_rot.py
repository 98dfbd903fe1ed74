"""Broker clusters in whose old segments bits flip, one replica at a time: the scrub or a read finds it, and
the replica is fetched anew. What may be lost or read meanwhile is checked by every run (`BrokerRun`)."""

from dataclasses import replace

import pytest

from quorate.simulation.brokers.bit_rot import ROT_VALUES, RotSettings
from quorate.simulation.brokers.broker_clients import BrokerClientSettings
from quorate.simulation.brokers.broker_cluster import MORE
from quorate.simulation.brokers.broker_run import BrokerRun
from quorate.simulation.faults import FOLDER
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.seeds import broker_run


def with_bit_rot(seed: int, *kinds: Fault, mends_itself: bool, lines: list[str]) -> BrokerRun:
    run = broker_run(seed, show=lines.append)
    own = {"quorate.replica.refetch.damaged": str(mends_itself).lower()}
    values = {**run.settings.cluster.values, **ROT_VALUES, **own}
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, min_isr=2, log_dirs=(FOLDER, MORE), values=values),
        clients=BrokerClientSettings(think_max_s=0.1, members=0),
        faults=FaultSettings(kinds=(Fault.DAMAGE, *kinds), mean_interval_s=0.5, mean_duration_s=1.0),
        faults_s=10.0,
        rot=RotSettings(mends_itself=mends_itself),
        reassigns=False,
        compacted=None,
    )
    return run


@pytest.mark.parametrize(
    ("seed", "mends_itself", "folder"), [(1, True, FOLDER), (1, False, FOLDER), (3, True, MORE)]
)
def test_flipped_bits_lose_nothing_and_their_replicas_come_back(
    seed: int, mends_itself: bool, folder: str
) -> None:
    lines: list[str] = []
    run = with_bit_rot(seed, Fault.CRASH, mends_itself=mends_itself, lines=lines)
    result = run.execute()
    assert any(f"a bit flips in {folder}/" in line for line in lines), f"no bit has flipped in {folder}"
    assert sum("the flipped bit is gone" in line for line in lines) == result.flips
    assert sum("a damaged log was set aside" in line for line in lines) == result.flips
