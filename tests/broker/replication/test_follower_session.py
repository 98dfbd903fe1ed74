"""A follower's side of a fetch session: what its requests have to say."""

import uuid

import pytest

from quorate.broker.replication.following.leader_session import FollowerSession, by_topic, forgotten_by_topic
from quorate.broker.wire.codecs.fetch_codec import FetchPartition, FetchTopic, ForgottenTopic
from quorate.error_code import ErrorCode
from quorate.runtime.slices import at_once

TOPIC = uuid.UUID(int=7)
KEY = (TOPIC, 0)


def begun(session_id=5):
    session = FollowerSession()
    assert not session.incremental
    assert session.name(KEY, FetchPartition(0, fetch_offset=1))
    session.sent()
    session.answered(ErrorCode.NONE, session_id)
    return session


def test_a_partition_is_named_when_anything_of_it_differs():
    session = begun()
    assert (session.session_id, session.epoch) == (5, 1)
    assert not session.name(KEY, FetchPartition(0, fetch_offset=1))
    for changed in ({"fetch_offset": 2}, {"log_start_offset": 1}, {"current_leader_epoch": 3}):
        part = session.asks(KEY)._replace(**changed)
        assert session.name(KEY, part), changed
        assert session.asks(KEY) == part
    assert session.forget(KEY)
    assert not session.forget(KEY)
    assert session.name(KEY, FetchPartition(0, fetch_offset=1))


def test_each_request_moves_the_epoch_on_and_it_never_returns_to_zero():
    session = begun()
    session.sent()
    assert session.epoch == 2, "before the answer, so that the next may be sent ahead"
    session.answered(ErrorCode.NONE, 5)
    assert session.epoch == 2
    session.epoch = 2**31 - 1
    session.sent()
    assert (session.epoch, session.incremental) == (1, True)


def test_a_session_that_its_leader_does_not_know_is_begun_anew():
    for error, named in (
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        # The leader closes what it still knows.
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5),
    ):
        session = begun()
        session.answered(error, 0)
        assert (session.session_id, session.epoch, len(session)) == (named, 0, 0)


def test_a_leader_without_room_is_asked_for_everything_each_time():
    session = begun(session_id=0)
    assert (session.session_id, session.epoch, len(session)) == (0, 0, 0)
    assert session.name(KEY, FetchPartition(0, fetch_offset=1))


@pytest.mark.bug("KAFKA-13079")
def test_a_request_has_each_topic_once():
    parts = [FetchPartition(number) for number in range(3)]
    named = at_once(by_topic({(TOPIC, 0): parts[0], ("t", 1): parts[1], (TOPIC, 2): parts[2]}))
    assert named == (FetchTopic(None, TOPIC, [parts[0], parts[2]]), FetchTopic("t", None, [parts[1]]))
    assert at_once(forgotten_by_topic([(TOPIC, 0), ("t", 1), (TOPIC, 2)])) == (
        ForgottenTopic(None, TOPIC, [0, 2]),
        ForgottenTopic("t", None, [1]),
    )
