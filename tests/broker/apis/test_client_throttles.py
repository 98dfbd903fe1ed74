"""Who obeys a quota never gets more than it and one burst. In virtual time."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ClientQuota, QuotaEntity
from quorate.broker.metadata.quota_precedence import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.exchanges import ConnectionContext, RequestContext
from quorate.broker.wire.principals import Principal
from quorate.runtime.token_bucket import QuotaWindows

BURST_S = QuotaWindows().burst_s


class Clients:
    """Clients of a broker, and its quotas."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.throttles = ClientThrottles(lambda: self.image, QuotaWindows())

    def limit(self, key: str, value: float | None, **entity: str) -> None:
        record = ClientQuota(entity=QuotaEntity(**entity), key=key, value=value)
        self.image.apply(record, offset=self.image.offset + 1, epoch=1)
        self.throttles.quotas_changed()

    def connected(self, client_id: str, user: str = "ann") -> RequestContext:
        connection = ConnectionContext(
            id=1, peer="c:1", listener="PLAINTEXT", principal=Principal("User", user)
        )
        return RequestContext(connection, APIS[ApiKey.PRODUCE], 0, 0, client_id)


def in_virtual_time(run: Callable[[], Any]) -> None:
    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@given(
    percent=st.sampled_from([0.5, 5, 50, 150]),
    requests=st.lists(st.tuples(st.floats(0, 2), st.floats(0.0001, 0.4)), min_size=1, max_size=120),
)
def test_a_client_gets_its_share_of_the_loop_one_burst_and_a_request_a_second(
    percent: float, requests: list[tuple[float, float]]
) -> None:
    """A wait is a second at most, as in Kafka: who is over its share for long asks once a second."""

    async def run() -> None:
        clients = Clients()
        clients.limit(REQUEST_PERCENTAGE, percent, client_id="")
        context = clients.connected("app")
        began, taken, over = trio.current_time(), 0.0, 0.0
        for pause, seconds in requests:
            await trio.sleep(pause)
            wait_s = clients.throttles.charge_time(context, seconds)
            taken += seconds
            assert 0 <= wait_s <= 1
            allowed = percent / 100 * (trio.current_time() - began + BURST_S)
            if wait_s:
                over += seconds
            assert taken <= allowed + over + 1e-6, f"{taken:.3f} s of {allowed:.3f} s"
            if wait_s:
                assert context.connection.gate.opens_at == trio.current_time() + wait_s
            await trio.sleep(wait_s)

    in_virtual_time(run)


@given(
    key=st.sampled_from([PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE]),
    rate=st.integers(1, 10_000),
    uses=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50_000)), min_size=1, max_size=100),
)
def test_a_client_that_waits_as_it_is_told_gets_its_rate_and_one_burst(
    key: str, rate: int, uses: list[tuple[float, int]]
) -> None:
    async def run() -> None:
        clients = Clients()
        clients.limit(key, rate, user="ann")
        began, used = trio.current_time(), 0
        for pause, size in uses:
            await trio.sleep(pause)
            wait_s = clients.throttles.charge(key, clients.connected("app"), size)
            used += size
            allowed = rate * (trio.current_time() - began + BURST_S) + size
            assert used <= allowed * (1 + 1e-9), f"{used} bytes of {allowed:.0f}"
            await trio.sleep(wait_s)

    in_virtual_time(run)


async def test_time_counts_while_somebody_has_a_quota_of_it(autojump_clock: object) -> None:
    clients = Clients()
    assert not clients.throttles.counts
    clients.limit(PRODUCER_BYTE_RATE, 5, client_id="app")
    assert not clients.throttles.counts
    clients.limit(REQUEST_PERCENTAGE, 5, client_id="app")
    assert clients.throttles.counts
    clients.limit(REQUEST_PERCENTAGE, None, client_id="app")
    assert not clients.throttles.counts


async def test_another_clients_share_is_its_own(autojump_clock: object) -> None:
    clients = Clients()
    clients.limit(REQUEST_PERCENTAGE, 1, client_id="")
    assert clients.throttles.charge_time(clients.connected("greedy"), 5) == 1
    assert clients.throttles.charge_time(clients.connected("modest"), 0.05) == 0
    clients.limit(REQUEST_PERCENTAGE, 100, client_id="greedy")
    assert clients.throttles.charge_time(clients.connected("greedy"), 0.01) == 0


async def test_how_often_and_how_long_clients_waited_is_counted_by_quota(autojump_clock: object) -> None:
    clients = Clients()
    clients.limit(PRODUCER_BYTE_RATE, 10, client_id="app")
    context = clients.connected("app")
    assert clients.throttles.charge(PRODUCER_BYTE_RATE, context, 100) == 0
    assert clients.throttles.charge(PRODUCER_BYTE_RATE, context, 20) == 2
    assert clients.throttles.debt_s(PRODUCER_BYTE_RATE, context) == 2
    assert clients.throttles.overdrawn(PRODUCER_BYTE_RATE, context) == 2
    assert clients.throttles.throttled == {PRODUCER_BYTE_RATE: 2}
    assert clients.throttles.throttled_s == {PRODUCER_BYTE_RATE: 4.0}


@pytest.mark.bug("KAFKA-9658")
async def test_a_quota_that_was_removed_holds_nobody_back(autojump_clock: object) -> None:
    """In every order of the user's and the client's."""
    entities = ({"user": ""}, {"user": "ann"}, {"user": "ann", "client_id": "app"})
    for last in entities:
        clients = Clients()
        for entity in entities:
            clients.limit(PRODUCER_BYTE_RATE, 1, **entity)
        assert clients.throttles.charge(PRODUCER_BYTE_RATE, clients.connected("app"), 1000) > 0
        for entity in (*(each for each in entities if each is not last), last):
            clients.limit(PRODUCER_BYTE_RATE, None, **entity)
        assert clients.throttles.charge(PRODUCER_BYTE_RATE, clients.connected("app"), 1000) == 0
