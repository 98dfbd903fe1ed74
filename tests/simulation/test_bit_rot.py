"""Broker clusters in whose old segments bits flip, one replica at a time: the scrub or a read finds it, and
the replica is fetched anew. What may be lost or read meanwhile is checked by every run (`BrokerRun`)."""

from dataclasses import replace

import pytest
import trio

from quorate.broker.wire.codecs.fetch_codec import FetchedPartition
from quorate.broker.wire.kafka_client import WireClient
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.faults.hosts import FOLDER
from quorate.simulation.violations import SafetyViolation
from tests.simulator.brokers.bit_rot import ROT_VALUES, RotSettings
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_cluster import MORE
from tests.simulator.brokers.broker_run import BrokerRun
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.seeds import broker_run


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "mends_itself", "folder"), [(7, True, FOLDER), (1, False, FOLDER), (3, True, MORE)]
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


@pytest.mark.slow
@pytest.mark.parametrize("flipped", [True, False])
def test_a_consumer_takes_no_record_of_a_batch_with_a_wrong_checksum(
    flipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the run (seed 9305122): a bit had flipped just before the batch was read. Where none has,
    what is served is whole."""

    async def scenario(scene: BrokerScene) -> None:
        cluster, clients = scene.cluster, scene.clients
        fetch_at = clients.fetch_at
        spoiled: list[FetchedPartition] = []

        async def spoiling(
            connection: WireClient, client: str, partition: int, offset: int, *, rack: str = ""
        ) -> FetchedPartition:
            fetched = await fetch_at(connection, client, partition, offset, rack=rack)
            if not spoiled and fetched.records:
                data = bytearray(b"".join(fetched.records))
                data[-1] ^= 1
                spoiled.append(replace(fetched, records=[data]))
                return spoiled[0]
            return fetched

        await trio.sleep(2)
        cluster.has_flipped = flipped
        monkeypatch.setattr(clients, "fetch_at", spoiling)
        await clients.consume_partition("late", 0, until=1)
        assert spoiled

    def run() -> None:
        run_scenario(1, scenario, clients=BrokerClientSettings(idempotent=1, plain=0))

    if flipped:
        run()
    else:
        with pytest.raises(SafetyViolation, match="WhatIsServedIsWhole: "):
            run()
