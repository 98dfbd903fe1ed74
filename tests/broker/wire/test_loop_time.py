"""What requests take of the event loop is measured, and told to the client. In virtual time, which a handler
lets pass as if it computed for so long."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from served_wire import Handler, client, heartbeat_ok, serving

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, encode_entity, response_type
from quorate.broker.wire.codecs.fetch_codec import (
    KafkaFetchRequest,
    KafkaFetchResponse,
    encode_fetch_response,
)
from quorate.broker.wire.exchanges import Deferred, EncodedResponse
from quorate.broker.wire.loop_time import LoopTime
from quorate.broker.wire.throttle_times import throttle_offset, with_throttle


async def test_only_the_steps_of_a_coroutine_count(autojump_clock: Any) -> None:
    seen: list[float] = []
    watch = LoopTime()

    async def work() -> str:
        autojump_clock.jump(0.25)
        await trio.sleep(10)
        autojump_clock.jump(0.5)
        seen.append(watch.take())
        autojump_clock.jump(0.125)
        await trio.lowlevel.checkpoint()
        return "done"

    assert await watch.of(work()) == "done"
    assert seen == [0.75], "from within, up to now"
    assert watch.take() == 0.125
    assert watch.take() == 0.0


async def test_errors_and_cancellation_pass_through_the_stopwatch(autojump_clock: Any) -> None:
    async def fail() -> None:
        try:
            await trio.sleep(1)
        finally:
            autojump_clock.jump(0.5)
        raise ValueError("its own")

    watch = LoopTime()
    with pytest.raises(ValueError, match="its own"):
        await watch.of(fail())
    assert watch.take() == 0.5
    with trio.move_on_after(0.1) as scope:
        await watch.of(fail())
    assert scope.cancelled_caught
    assert watch.take() == 0.5


@pytest.mark.parametrize("api", sorted(APIS))
def test_the_throttle_time_of_every_answer_is_where_it_is_written(api: int) -> None:
    """But for Produce and ApiVersions, which have it behind fields of any size."""
    for version in range(APIS[api].min_version, APIS[api].max_version + 1):
        offset = throttle_offset(APIS[api], version)
        if api == ApiKey.FETCH:
            assert offset == 0
            continue
        names = [field.name for field in response_type(api, version).__dataclass_fields__.values()]
        expected = "throttle_time" in names and api not in (ApiKey.PRODUCE, ApiKey.API_VERSIONS)
        assert (offset is not None) is expected, f"{ApiKey(api).name} v{version}: {names}"


def test_a_longer_throttle_time_in_the_answer_stays() -> None:
    answer = build(response_type(ApiKey.HEARTBEAT, 4), throttle_time=timedelta(milliseconds=700))
    body = encode_entity(answer)
    for seconds, told in ((0.5, 700), (0.9001, 901)):
        pieces = with_throttle(body, api=APIS[ApiKey.HEARTBEAT], version=4, seconds=seconds)
        encoded = b"".join(pieces)
        assert int.from_bytes(encoded[:4], "big") == told
        assert encoded[4:] == b"".join(body)[4:]


async def test_a_fetch_answer_says_it_too() -> None:
    body = encode_fetch_response(KafkaFetchResponse(version=12))
    pieces = with_throttle(body, api=APIS[ApiKey.FETCH], version=12, seconds=1.0)
    assert int.from_bytes(b"".join(pieces)[:4], "big") == 1000
    assert b"".join(pieces)[4:] == b"".join(body)[4:]


class Times:
    """A quota of nothing: every second that is taken is waited for `factor` times."""

    def __init__(self, *, counts: bool = True, factor: float = 4.0) -> None:
        self.counts = counts
        self.factor = factor
        self.charged: list[tuple[str, float]] = []

    def charge_time(self, context: Any, seconds: float) -> float:
        self.charged.append((ApiKey(context.api.key).name, round(seconds, 6)))
        wait_s = seconds * self.factor
        context.connection.gate.close_for(wait_s)
        return wait_s


async def test_a_client_is_told_to_wait_and_its_next_request_does(autojump_clock: Any) -> None:
    def busy(context: Any, request: Any) -> Any:
        autojump_clock.jump(0.5)
        return heartbeat_ok(context, request)

    times = Times()
    async with serving(Handler(heartbeat=busy), times=times) as (net, _), client(net) as connection:
        began = trio.current_time()
        first = await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert first.throttle_time.total_seconds() == 2.0
        assert trio.current_time() - began < 1, "it is told at once"
        await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert trio.current_time() - began >= 2.5
    assert [each for each in times.charged if each[0] == "HEARTBEAT"] == [("HEARTBEAT", 0.5)] * 2


async def test_work_behind_a_deferred_answer_counts_and_waiting_does_not(autojump_clock: Any) -> None:
    def later(context: Any, request: Any) -> Any:
        autojump_clock.jump(0.25)
        deferred = Deferred()
        deferred.loop_s = 0.5

        async def build_it() -> Any:
            await trio.sleep(3)
            autojump_clock.jump(0.125)
            return heartbeat_ok(context, request)

        deferred.complete_with(build_it)
        return deferred

    times = Times(factor=0.0)
    async with serving(Handler(heartbeat=later), times=times) as (net, _), client(net) as connection:
        await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
    assert ("HEARTBEAT", 0.875) in times.charged, f"charged {times.charged}"


@pytest.mark.bug("KAFKA-10852")
async def test_brokers_that_fetch_are_not_counted(autojump_clock: Any) -> None:
    def fetched(context: Any, request: Any) -> Any:
        autojump_clock.jump(0.5)
        return EncodedResponse(encode_fetch_response(KafkaFetchResponse(version=request.version)))

    times = Times()
    async with serving(Handler(fetch=fetched), times=times) as (net, _):
        for replica_id, expected in ((2, []), (-1, [("FETCH", 0.5)])):
            async with client(net) as connection:
                await send_fetch(connection, replica_id)
            assert [each for each in times.charged if each[0] == "FETCH"] == expected


async def send_fetch(connection: Any, replica_id: int) -> None:
    answer = await connection.fetch(
        KafkaFetchRequest(
            version=12, replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[]
        )
    )
    assert answer is not None


async def test_nothing_is_measured_while_nobody_has_a_quota(autojump_clock: Any) -> None:
    times = Times(counts=False)
    async with serving(Handler(heartbeat=heartbeat_ok), times=times) as (net, _), client(net) as connection:
        await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert not times.charged
        times.counts = True
        await connection.call(ApiKey.HEARTBEAT, group_id="g", member_id="m")
        assert times.charged, "from the next request on"
