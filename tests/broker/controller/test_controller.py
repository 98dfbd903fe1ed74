import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio
import trio.testing

from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AlterConfigsRequest,
    AlterPartitionItem,
    AlterPartitionRequest,
    DeleteTopicsRequest,
    IsrMember,
    TopicRef,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.rpc_codec import (
    ANSWERS,
    Refusal,
    RpcDecodeError,
    decode_answer,
    decode_response,
    encode_response,
)
from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    ChangeReason,
    FeatureLevel,
    PartitionChange,
    RegisterBroker,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata.states import PartitionKey
from quorate.broker.metadata.supported_features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
)
from quorate.broker.settings.broker_settings import LeaderBalance
from quorate.error_code import ErrorCode
from quorate.raft import HeardLeader
from quorate.types import NodeId, Offset
from tests.broker.controller.controller_node import IN_PIECES, Batch, Node, running


async def test_an_inactive_controller_says_so_to_everything() -> None:
    node = Node()
    node.epochs[1] = 0
    topic = uuid.UUID(int=1)
    item = AlterPartitionItem(
        topic_id=topic, partition_id=0, leader_epoch=0, partition_epoch=0, new_isr=(IsrMember(broker_id=1),)
    )
    assert await node.register(1) is ErrorCode.NOT_CONTROLLER
    assert await node.beat(1) == "NOT_CONTROLLER"
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    for answer in (
        await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="t"),))),
        await node.ask(UnregisterBrokerRequest(broker_id=1)),
        await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)),
        await node.ask(AlterConfigsRequest(resources=())),
        await node.ask(AlterPartitionRequest(broker_id=1, broker_epoch=0, partitions=(item,))),
    ):
        assert answer.error is ErrorCode.NOT_CONTROLLER
    assert not node.log.batches


async def test_a_whole_life_over_the_wire() -> None:
    node = await running(1, 2)
    assert await node.create("t", partitions=2, factor=2) == [ErrorCode.NONE]
    topic = node.log.image.topic("t")
    assert topic is not None
    key = PartitionKey(topic.topic_id, 0)
    leader = node.log.image.partitions(topic.topic_id)[0].leader
    assert (await node.alter_isr(key, leader)).partition_epoch == 1
    ids = [
        await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epochs[1])) for _ in range(2)
    ]
    assert [(each.first_producer_id, each.count) for each in ids] == [(0, 1000), (1000, 1000)]
    stale = await node.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=77))
    assert stale.error is ErrorCode.STALE_BROKER_EPOCH
    gone = await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="t"),)))
    assert gone.topics[0].topic_id == topic.topic_id
    assert node.log.image.topic("t") is None
    bye = await node.ask(UnregisterBrokerRequest(broker_id=2))
    assert bye.error is ErrorCode.NONE
    assert set(node.log.image.brokers) == {1}


async def test_a_brokers_epoch_is_the_offset_of_its_record() -> None:
    node = await running(1, 2)
    for broker_id, epoch in node.epochs.items():
        record = node.log.committed[epoch]
        assert isinstance(record, RegisterBroker)
        assert record.broker_id == broker_id


async def test_an_answer_waits_for_the_commit_of_what_it_was_computed_from(autojump_clock) -> None:
    node = Node(automatic=False)
    node.activate()
    node.log.commit()
    answers: list[object] = []

    async def register() -> None:
        answers.append(await node.register(1))

    async def create(name: str, factor: int) -> None:
        answers.append(await node.create(name, factor=factor))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(register)
        await trio.testing.wait_all_tasks_blocked()
        # A refusal writes nothing, but was computed from a registration that isn't committed.
        nursery.start_soon(create, "t", 2)
        nursery.start_soon(create, "bad/name", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        node.log.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert len(answers) == 3


async def test_operations_see_what_the_ones_before_them_did_before_it_commits(autojump_clock) -> None:
    node = await running(1)
    node.log.automatic = False
    answers: list[list[ErrorCode]] = []

    async def create() -> None:
        answers.append(await node.create("t"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        node.log.commit()
    assert sorted(answers) == [[ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS]]


@pytest.mark.bug("KAFKA-14946")
async def test_losing_leadership_midway_says_what_may_have_happened_and_forgets(autojump_clock) -> None:
    node = await running(1)
    node.log.automatic = False
    answers: list[list[ErrorCode]] = []

    async def create() -> None:
        answers.append(await node.create("t"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        node.log.lose_leadership()
        node.controller.deactivate()
    # One has written the topic, the other was told that it is there, and wrote nothing.
    assert sorted(answers) == [[ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.NOT_CONTROLLER]]
    assert not node.controller.active

    node.log.leads = node.log.automatic = True
    node.activate()
    assert await node.create("t") == [ErrorCode.NONE]


async def test_an_append_refused_for_lost_leadership_ends_the_activity() -> None:
    node = await running(1)
    node.log.leads = False
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    assert not node.controller.active


async def test_control_records_of_the_quorum_in_between_do_not_disturb_the_controller() -> None:
    node = await running(1)
    node.log.next_offset += 2  # a first voter set, and the version that allows it
    assert await node.register(2) is ErrorCode.NONE
    registered = node.log.batches[-1]
    assert node.epochs[2] == registered.base_offset + len(registered.records) - 1
    assert node.controller.active


async def test_an_append_in_another_place_than_promised_costs_the_controller_its_leadership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = await running(1)
    append = node.log.append_nowait

    def behind_another(records: Sequence[bytes], *, epoch: int) -> Batch:
        node.log.next_offset = Offset(node.log.next_offset + 1)
        return append(records, epoch=epoch)

    monkeypatch.setattr(node.log, "append_nowait", behind_another)
    # The epoch that the broker would be told is not its record's offset.
    assert await node.register(2) is ErrorCode.REQUEST_TIMED_OUT
    assert (node.controller.active, node.log.resigned) == (False, 1)


async def test_a_controller_of_an_earlier_epoch_appends_nothing() -> None:
    node = await running(1)
    node.log.epoch = 2
    written = len(node.log.batches)
    assert await node.create("t") == [ErrorCode.NOT_CONTROLLER]
    assert len(node.log.batches) == written
    assert not node.controller.active


async def test_a_controller_that_fails_gives_up_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    node = await running(1)

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("quorate.broker.controller.administration.create_topics", broken)
    assert await node.create("t") == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert node.log.resigned == 1
    assert not node.controller.active
    assert await node.beat(1) == "NOT_CONTROLLER"


async def test_a_record_that_does_not_fit_the_image_never_gets_into_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from quorate.broker.controller.operations.outcome import Outcome
    from quorate.broker.controller.rpc import DeleteTopicsResponse

    node = Node()
    node.activate()
    bad = PartitionChange(topic_id=uuid.UUID(int=9), partition_id=0)
    monkeypatch.setattr(
        "quorate.broker.controller.administration.delete_topics",
        lambda *args, **kwargs: Outcome(response=DeleteTopicsResponse(), groups=((bad,),)),
    )
    before = node.log.next_offset
    answer = await node.ask(DeleteTopicsRequest(topics=()))
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (node.log.next_offset, node.log.resigned) == (before, 1)


async def test_a_silent_broker_is_fenced_and_one_that_beats_is_not(autojump_clock) -> None:
    node = await running(1, 2)
    await node.create("t", factor=2)
    async with node.tended():
        for _ in range(8):
            await trio.sleep(1.5)
            assert await node.beat(2) == "unfenced"
    brokers = node.log.image.brokers
    assert (brokers[1].fenced, brokers[2].fenced) == (True, False)
    [(_, state)] = node.log.image.all_partitions()
    assert (state.leader, state.isr) == (2, (2,))


def fencings(node: Node) -> list[tuple[int, ChangeReason | None, int | None]]:
    """Of each: the broker, why, and when it was last heard (s)."""
    return [
        (each.broker_id, each.reason, each.last_heard_ms and each.last_heard_ms - 10**12)
        for each in node.log.committed
        if isinstance(each, BrokerRegistrationChange) and each.fenced
    ]


async def test_the_log_says_when_a_silent_broker_was_last_heard(autojump_clock) -> None:
    node = Node()
    node.activate()
    await trio.sleep(5)
    await node.start(1)
    async with node.tended():
        await trio.sleep(20)
    assert fencings(node) == [(1, ChangeReason.BROKER_FENCED, 5000)]
    assert node.stats.timed_out_heartbeats == 1


async def taken_over(leader: int) -> Node:
    """A controller with brokers 1 and 2, active since second 5. `leader` led before, and was last heard in
    second 4."""
    node = await running(1, 2)
    node.controller.deactivate()
    await trio.sleep(5)
    node.activate(predecessor=HeardLeader(node=NodeId(leader), heard_at=trio.current_time() - 1))
    return node


async def test_the_log_says_when_the_broker_of_the_last_active_controller_was_heard(autojump_clock) -> None:
    node = await taken_over(1)
    async with node.tended():
        await trio.sleep(8.9)
        assert fencings(node) == [], "each has a whole session for its first heartbeat"
        await trio.sleep(2)
    assert fencings(node) == [(1, ChangeReason.BROKER_FENCED, 4000), (2, ChangeReason.BROKER_FENCED, None)]


async def test_the_log_says_when_a_controller_whose_process_is_gone_was_heard(autojump_clock) -> None:
    node = await taken_over(1)
    async with node.tended():
        await node.watch.report(1, node.epochs[1])
        await node.watch.report(2, node.epochs[2])
    assert fencings(node) == [(1, ChangeReason.BROKER_GONE, 4000), (2, ChangeReason.BROKER_GONE, None)]


async def test_a_heartbeat_to_the_new_controller_is_later_than_what_it_heard_before(autojump_clock) -> None:
    node = await taken_over(1)
    await trio.sleep(2)
    await node.beat(1)
    async with node.tended():
        await trio.sleep(1)
        await node.watch.report(1, node.epochs[1])
    assert fencings(node) == [(1, ChangeReason.BROKER_GONE, 7000)]


async def test_a_controller_without_a_broker_says_nothing_of_the_brokers(autojump_clock) -> None:
    node = await taken_over(3001)
    async with node.tended():
        await node.watch.report(1, node.epochs[1])
    assert fencings(node) == [(1, ChangeReason.BROKER_GONE, None)]


async def test_a_broker_whose_process_is_gone_is_fenced_at_once(autojump_clock) -> None:
    node = Node()
    node.activate()
    assert node.watch.hurried == 1
    await node.start(1, 2)
    assert node.watch.heard_of == [(1, 1, None), (2, 3, None)]
    await node.create("t", factor=2)
    async with node.tended():
        await trio.sleep(2)
        await node.beat(1)
        await trio.sleep(1)
        await node.watch.report(1, node.epochs[1])
        assert node.log.image.brokers[1].fenced
        assert fencings(node) == [(1, ChangeReason.BROKER_GONE, 2000)]
        [(_, state)] = node.log.image.all_partitions()
        assert (state.leader, state.isr) == (2, (2,))
        assert await node.register(1, incarnation=1) is ErrorCode.NONE, "nobody waits for the session"
    assert node.stats.timed_out_heartbeats == 0


async def test_only_the_registration_that_is_gone_is_fenced_and_once(autojump_clock) -> None:
    node = await running(1)
    async with node.tended():
        await node.watch.report(1, node.epochs[1] - 1)
        await node.watch.report(2, 7)
        assert fencings(node) == []
        for _ in range(2):
            await node.watch.report(1, node.epochs[1])
        assert len(fencings(node)) == 1


async def test_an_inactive_controller_fences_nobody(autojump_clock) -> None:
    node = await running(1)
    async with node.tended():
        node.controller.deactivate()
        await node.watch.report(1, node.epochs[1])
        assert fencings(node) == []


async def test_a_broker_that_was_heard_while_its_fencing_waited_for_its_turn_stays(autojump_clock) -> None:
    node = await running(1)
    async with node.tended() as nursery:
        active = node.controller.tenure
        assert active is not None
        async with active.alone():
            nursery.start_soon(node.watch.report, 1, node.epochs[1])
            await trio.sleep(0.1)
            node.watch.gone.clear()
        await trio.sleep(0.1)
        assert fencings(node) == []


@pytest.mark.parametrize(("percentage", "back"), [(25, 0), (24, 1)])
async def test_a_broker_that_leads_nearly_all_that_it_should_is_left_alone(
    autojump_clock, percentage: int, back: int
) -> None:
    balance = LeaderBalance(
        leader_imbalance_check_interval_seconds=30, leader_imbalance_per_broker_percentage=percentage
    )
    node = await running(1, 2, settings=ControllerSettings(cluster_id="c", balance=balance))
    await node.create("t", partitions=8, factor=2)
    firsts = [key for key, state in node.log.image.all_partitions() if state.replicas[0] == 1]
    assert len(firsts) == 4
    moved = PartitionChange(topic_id=firsts[0].topic_id, partition_id=firsts[0].partition_id, leader=2)
    node.controller.tenure.append(((moved,),))
    assert node.log.image.imbalanced_count == 1
    async with node.tended():
        for _ in range(40):
            await trio.sleep(1)
            for broker_id in (1, 2):
                await node.beat(broker_id)
    assert node.log.image.imbalanced_count == 1 - back


async def test_leaders_go_back_to_their_first_replica_after_a_while(autojump_clock) -> None:
    balance = LeaderBalance(leader_imbalance_check_interval_seconds=30)
    node = await running(1, 2, settings=ControllerSettings(cluster_id="c", balance=balance))
    await node.create("t", partitions=2, factor=2)
    assert await node.beat(1, stop=True) == "unfenced"
    await node.beat(2)
    assert await node.beat(1, stop=True) == "shut down"
    await node.register(1, incarnation=1)
    assert await node.beat(1) == "unfenced"
    for key, state in node.log.image.all_partitions():
        assert state.leader == 2
        await node.alter_isr(key, 2, 1)
    async with node.tended():
        leaders = []
        for _ in range(8):
            await trio.sleep(5)
            await node.beat(1)
            await node.beat(2)
            leaders.append(sorted(state.leader for _, state in node.log.image.all_partitions()))
    assert leaders[0] == [2, 2]
    assert leaders[-1] == [1, 2]


async def test_a_new_controller_gives_every_broker_a_whole_session(autojump_clock) -> None:
    node = await running(1)
    async with node.tended():
        await trio.sleep(8)
        node.controller.deactivate()
        await trio.sleep(100)
        node.activate()
        await trio.sleep(8)
        assert not node.log.image.brokers[1].fenced
        await trio.sleep(2)
        assert node.log.image.brokers[1].fenced


async def test_a_restarted_process_is_let_in_when_the_session_has_run_out(autojump_clock) -> None:
    node = await running(1)
    assert await node.register(1, incarnation=1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE
    assert await node.beat(1) == "unfenced"


@pytest.mark.bug("KAFKA-14292")
async def test_a_shutdown_completes_under_steady_writes(autojump_clock) -> None:
    node = await running(1, 2)
    await node.create("t", partitions=2, factor=2)
    assert await node.beat(1, stop=True) == "unfenced"
    goal = node.log.image.offset
    seen = goal - 1
    for number in range(3):
        await node.create(f"more-{number}")
        assert await node.beat(2, offset=seen) == "unfenced"
        assert await node.beat(1, stop=True) == "unfenced"
    await node.beat(2, offset=goal)
    assert await node.beat(1, stop=True) == "shut down"
    assert node.log.image.brokers[1].fenced
    # It left in order: its next process need not wait for a session to run out.
    assert await node.register(1, incarnation=1) is ErrorCode.NONE


async def test_a_new_controller_finishes_what_the_last_one_left_half_done() -> None:
    node = await running(1, 2)
    await node.create("t", partitions=2, factor=2)
    node.controller.deactivate()
    fenced = BrokerRegistrationChange(broker_id=1, broker_epoch=node.epochs[1], fenced=True)
    node.log.append_nowait([encode(fenced)], epoch=1)
    node.activate()
    assert [(state.leader, state.isr) for _, state in node.log.image.all_partitions()] == [(2, (2,))] * 2


@pytest.mark.bug("KAFKA-14177")
async def test_the_first_controller_writes_the_metadata_version_once() -> None:
    node = Node()
    node.activate()
    node.controller.deactivate()
    node.activate()
    levels = [record for record in node.log.committed if isinstance(record, FeatureLevel)]
    assert levels == [FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)]


@pytest.mark.bug("KAFKA-12670")
async def test_turning_on_unclean_elections_elects_at_once() -> None:
    node = await running(1, 2)
    await node.create("t", factor=2)
    for broker_id in (2, 1):
        await node.beat(broker_id, fence=True, offset=99)
    assert await node.beat(2) == "unfenced"
    [(_, state)] = node.log.image.all_partitions()
    assert state.leader == -1
    await node.configure("t", "unclean.leader.election.enable", "true")
    [(_, state)] = node.log.image.all_partitions()
    assert state.leader == 2


async def test_work_too_large_for_one_batch_is_refused_and_the_rest_is_split() -> None:
    node = await running(1, settings=ControllerSettings(cluster_id="c", max_batch_bytes=4000))
    before = len(node.log.batches)
    assert await node.create("t", partitions=100) == [ErrorCode.POLICY_VIOLATION]
    assert len(node.log.batches) == before
    assert node.controller.active
    assert node.log.resigned == 0

    assert await node.create(*(f"t{number}" for number in range(100))) == [ErrorCode.NONE] * 100
    split = node.log.batches[before:]
    assert len(split) > 1
    assert all(sum(map(len, batch.records)) <= 4000 for batch in split)
    assert all(len(batch.records) % 2 == 0 for batch in split), "a topic and its partition share a batch"
    assert len(node.log.image.topics) == 100


def test_there_is_an_operation_for_every_request_that_has_a_codec() -> None:
    assert set(Node().controller.operations) == set(ANSWERS)


async def test_bytes_that_are_no_request_are_refused_and_named() -> None:
    node = Node()
    refused = await node.controller.answer_encoded(b"\x83\x18\x63\x00\xa0")
    answer = decode_response(refused)
    assert isinstance(answer, Refusal)
    assert answer.error is ErrorCode.INVALID_REQUEST
    told = decode_answer(DeleteTopicsRequest(topics=()), refused)
    assert told.error is ErrorCode.INVALID_REQUEST
    assert told.error_message is not None
    assert "did not understand DeleteTopicsRequest" in told.error_message


def test_an_answer_to_another_question_is_refused() -> None:
    other = encode_response(UnregisterBrokerResponse())
    with pytest.raises(RpcDecodeError, match="was answered with"):
        decode_answer(DeleteTopicsRequest(topics=()), other)


async def test_the_same_seed_makes_the_same_log() -> None:
    logs = []
    for _ in range(2):
        node = await running(1, 2, 3)
        await node.create("a", "b", partitions=5, factor=2)
        logs.append([encode(record) for record in node.log.committed])
    assert logs[0] == logs[1]


async def test_no_piece_of_a_fencing_is_longer_than_it_may_be_and_others_are_answered_meanwhile() -> None:
    node = await running(1, 2, 3, settings=IN_PIECES)
    await node.create("t", partitions=40, factor=3)
    before = len(node.log.batches)
    assert await node.beat(1, fence=True) == "fenced"
    answered_at: list[int] = []
    while left := node.log.image.isr_count(1):
        assert await node.beat(2) == "unfenced"
        if await node.beat(1) == "unfenced":
            assert node.log.image.isr_count(1) == 0, "it has not left yet"
        answered_at.append(left)
    assert len({*answered_at}) > 3
    written = node.log.batches[before:]
    assert len(written[0].records) == 1
    assert max(len(batch.records) for batch in written) <= 4
    assert await node.beat(1) == "unfenced"


async def test_a_registration_is_answered_when_the_last_life_has_left_in_pieces(autojump_clock) -> None:
    node = await running(1, 2, settings=IN_PIECES)
    await node.create("t", partitions=40, factor=2)
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE
    assert node.log.image.isr_count(1) == 0
    record = node.log.committed[node.epochs[1]]
    assert isinstance(record, RegisterBroker)
    assert record.broker_epoch == node.epochs[1]
    assert max(len(batch.records) for batch in node.log.batches[-11:]) <= 4


async def test_a_broker_may_stop_when_it_has_left_the_last_isr(autojump_clock) -> None:
    node = await running(1, 2, settings=IN_PIECES)
    await node.create("t", partitions=40, factor=2)
    answers = [await node.beat(1, stop=True)]
    while answers[-1] == "unfenced":
        await node.beat(2)
        answers.append(await node.beat(1, stop=True))
        left = node.log.image.isr_count(1)
    assert (answers[-1], left) == ("shut down", 0)
    assert len(answers) > 3


async def test_a_registration_that_waits_is_refused_when_leadership_is_lost(autojump_clock) -> None:
    node = await running(1, 2, settings=IN_PIECES)
    await node.create("t", partitions=400, factor=2)
    await trio.sleep(9)
    node.log.automatic = False
    answers: list[ErrorCode] = []

    async def register() -> None:
        answers.append(await node.register(1, incarnation=1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(register)
        await trio.testing.wait_all_tasks_blocked()
        # It does not run ahead of the log: a few pieces are on their way, and the rest waits for them.
        assert 0 < node.log.next_offset - node.log.image.offset < 50
        node.log.lose_leadership()
        node.controller.deactivate()
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]

    node.log.leads = node.log.automatic = True
    node.log.next_offset = node.log.image.offset + 1
    node.activate()
    await trio.sleep(9)
    assert await node.register(1, incarnation=1) is ErrorCode.NONE


async def test_lower_min_insync_replicas_empty_the_elrs_before_that_is_answered() -> None:
    static = {"min.insync.replicas": "2"}
    node = await running(1, 2, settings=replace(IN_PIECES, static=static))
    await node.create("t", partitions=20, factor=2)
    assert await node.beat(1, fence=True) == "fenced"
    await trio.testing.wait_all_tasks_blocked()
    assert node.log.image.elr_count(1) == 20
    assert await node.configure("t", "min.insync.replicas", "1") is ErrorCode.NONE
    assert node.log.image.elr_count(1) == 0, "their leaders commit nothing while others are eligible"
