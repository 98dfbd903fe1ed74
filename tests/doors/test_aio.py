"""`quorate.aio`: a quorum for asyncio."""

import asyncio
import time

import pytest
import trio

from quorate.aio import Quorum, format_folder
from quorate.raft import (
    NodeId,
    QuorumConfigError,
    QuorumError,
    QuorumStoppedError,
    QuorumThreadError,
    StateMachineError,
)
from tests.doors.conftest import Sums


def test_tasks_append_at_once_and_a_restart_goes_on(config) -> None:
    async def main(before: int) -> None:
        async with Quorum.open(config, Sums()) as quorum:
            assert await quorum.wait_leader(timeout_ms=20_000) == quorum.leader == 1
            appended = await asyncio.gather(*(quorum.append([b"1", b"1"]) for _ in range(40)))
            totals = [(before + 2 * n + 1, before + 2 * n + 2) for n in range(40)]
            assert sorted(each.results for each in appended) == totals
            await quorum.take_snapshot()

    asyncio.run(main(0))
    asyncio.run(main(80))


def test_appends_keep_the_order_in_which_their_places_were_reserved(config) -> None:
    async def main() -> None:
        async with Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            pending = [await quorum.append_nowait([b"1"]) for _ in range(20)]
            assert [(await each.wait()).results for each in pending] == [(n,) for n in range(1, 21)]

    asyncio.run(main())


def test_errors_are_those_of_raft(config) -> None:
    async def main() -> None:
        with pytest.raises(QuorumConfigError, match="is formatted already"):
            await format_folder(config.folder, cluster_id="doors", node_id=NodeId(1))
        with pytest.raises(QuorumConfigError, match="no method apply"):
            async with Quorum.open(config, object()):
                pass

    asyncio.run(main())


def test_a_cancelled_call_ends_at_once_on_the_quorums_thread_too(config) -> None:
    async def main() -> None:
        async with Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            tasks = [asyncio.create_task(quorum.wait_applied(10**9)) for _ in range(20)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await quorum.wait_applied(10**9)
            for each in tasks:
                each.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in outcomes} == {asyncio.CancelledError}
            await quorum.append([b"1"])  # behind the cancellations
            tasks_left = await quorum.read(
                lambda: len(trio.lowlevel.current_task().parent_nursery.child_tasks)
            )
            assert tasks_left == 1  # the reader's own

    asyncio.run(asyncio.wait_for(main(), 60))


CALLS = {
    "wait_leader": lambda quorum: quorum.wait_leader(),
    "append": lambda quorum: quorum.append([b"1"]),
    "wait_read_index": lambda quorum: quorum.wait_read_index(),
    "ask_description": lambda quorum: quorum.ask_description(),
    "transfer_leadership": lambda quorum: quorum.transfer_leadership(NodeId(2)),
}


@pytest.mark.bug("kazoo issue 482")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_flight_and_a_late_one_of_asyncio_are_told_of_the_stop(lone_config, name) -> None:
    async def main() -> None:
        async with Quorum.open(lone_config, Sums()) as quorum:
            waiting = asyncio.ensure_future(CALLS[name](quorum))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        for call in (waiting, CALLS[name](quorum)):
            with pytest.raises(QuorumStoppedError):
                await call

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_node_that_stops_by_itself_cancels_the_block_and_no_more(config) -> None:
    async def main() -> None:
        with pytest.raises(QuorumStoppedError) as stopped:
            async with Quorum.open(config, Sums()) as quorum:
                await quorum.wait_leader()
                poisoned = asyncio.create_task(quorum.append([b"poison"]))
                await asyncio.sleep(60)
        assert isinstance(stopped.value.__cause__, StateMachineError)
        with pytest.raises(QuorumError):
            await poisoned
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)  # not cancelled

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_cancelled_block_frees_the_folder_at_once(config) -> None:
    async def main() -> None:
        opened = asyncio.Event()

        async def serve() -> None:
            async with Quorum.open(config, Sums()):
                opened.set()
                await asyncio.sleep(60)

        for _ in range(2):
            serving = asyncio.create_task(serve())
            await opened.wait()
            opened.clear()
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.bug("aiokafka issue 689")
def test_a_quorum_that_one_loop_opened_serves_others_and_a_call_outside_of_loops_is_refused(config) -> None:
    async def use(quorum: Quorum[int]) -> int:
        return (await quorum.append([b"1"])).results[0]

    async def main() -> None:
        async with Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            here = [use(quorum) for _ in range(3)]
            there = [asyncio.to_thread(asyncio.run, use(quorum)) for _ in range(3)]
            assert sorted(await asyncio.gather(*here, *there)) == [1, 2, 3, 4, 5, 6]
            with pytest.raises(RuntimeError, match="no running event loop"):
                await asyncio.to_thread(lambda: quorum.append([b"1"]).send(None))

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_loop_that_ends_under_a_call_harms_nobody(config) -> None:
    async def main() -> None:
        async def leave(quorum: Quorum[int]) -> None:
            asyncio.get_running_loop().create_task(quorum.append([b"1"]))
            await asyncio.sleep(0)

        async with Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            for _ in range(20):
                await asyncio.to_thread(asyncio.run, leave(quorum))
            assert (await quorum.append([b"1"])).base_offset > 0

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_loop_that_its_caller_blocks_delays_no_commit_of_another(config) -> None:
    async def main() -> None:
        async with Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            epoch, committed = quorum.epoch, quorum.high_watermark
            pending = asyncio.create_task(quorum.append([b"1"]))
            await asyncio.sleep(0)  # it is on its way
            time.sleep(1.5)  # noqa: ASYNC251
            assert quorum.high_watermark > committed
            assert (await pending).results == (1,)
            assert quorum.epoch == epoch

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.bug("kazoo issue 208")
def test_a_call_of_the_state_machine_into_asyncios_door_is_refused(config) -> None:
    sums, errors = Sums(), []

    def call_back() -> None:
        with pytest.raises(QuorumThreadError) as refused:
            asyncio.run(quorum.append([b"1"]))
        errors.append(refused.value)

    async def main() -> None:
        nonlocal quorum
        async with Quorum.open(config, sums) as quorum:
            await quorum.wait_leader()
            sums.calls.append(call_back)
            assert (await quorum.append([b"5"])).results == (5,)

    quorum = None
    asyncio.run(asyncio.wait_for(main(), 60))
    assert len(errors) == 1


def test_the_work_of_a_leader_is_cancelled_with_its_leadership_and_begins_again_in_a_later_epoch(
    config,
) -> None:
    async def main() -> None:
        begun, ended = [], []
        async with Quorum.open(config, Sums()) as quorum:
            for _ in range(2):
                async with quorum.while_leading() as epoch:
                    begun.append(epoch)
                    await quorum.resign()
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        ended.append(epoch)
                        raise
                assert asyncio.current_task().cancelling() == 0
            with pytest.raises(ZeroDivisionError):
                async with quorum.while_leading():
                    raise ZeroDivisionError
            async with quorum.while_leading() as epoch:
                begun.append(epoch)
        assert begun[:2] == ended
        assert begun[0] < begun[1] < begun[2]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_cancellation_of_a_leaders_work_from_outside_passes_through(config) -> None:
    async def main() -> None:
        async with Quorum.open(config, Sums()) as quorum:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), quorum.while_leading():
                    await asyncio.sleep(60)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_read_sees_what_was_appended_before_it_and_raises_its_own_error(config) -> None:
    async def main() -> None:
        sums = Sums()
        async with Quorum.open(config, sums) as quorum:
            await quorum.wait_leader()
            await quorum.append([b"7"])
            assert await quorum.read(lambda: sums.total) == 7
            with pytest.raises(ZeroDivisionError):
                await quorum.read(lambda: 1 // 0)
            assert quorum.health.healthy

    asyncio.run(asyncio.wait_for(main(), 60))
