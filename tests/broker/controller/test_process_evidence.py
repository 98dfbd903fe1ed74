"""When a controller may take a broker's process for dead."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.liveness.process_evidence import REFUSALS_MIN, ProcessEvidence

CONFIRM_S = 0.15


class Connection:
    """The one that heartbeats come on."""

    def __init__(self) -> None:
        self.is_closed = False


def evidence(*reached: int) -> ProcessEvidence:
    found = ProcessEvidence(confirm_s=CONFIRM_S)
    for address in reached:
        found.accepted(address)
    return found


def refuse(
    found: ProcessEvidence, address: int = 0, *, since: float = 10.0, times: int = REFUSALS_MIN
) -> float:
    """So many refusals, evenly over just the time that confirms a death; when the last came."""
    for number in range(times):
        found.refused(address, now=since + CONFIRM_S * number / max(1, times - 1))
    return since + CONFIRM_S


def test_an_address_that_worked_and_refuses_for_a_while_is_a_process_that_is_gone() -> None:
    found = evidence(0)
    assert found.process_ended(now=refuse(found))


def test_an_address_that_never_worked_says_nothing() -> None:
    found = evidence()
    now = refuse(found, times=100)
    assert not found.process_ended(now=now)
    found.accepted(1)
    assert not found.process_ended(now=now)


def test_a_few_refusals_are_needed_however_long_they_take() -> None:
    found = evidence(0)
    now = refuse(found, times=REFUSALS_MIN - 1)
    assert not found.process_ended(now=now + 60)


def test_refusals_must_last_however_many_they_are() -> None:
    found = evidence(0)
    for _ in range(100):
        found.refused(0, now=10.0)
    assert not found.process_ended(now=10.0 + CONFIRM_S - 0.001)
    assert found.process_ended(now=10.0 + CONFIRM_S)


def test_a_connect_that_succeeds_is_no_proof_of_death_and_counting_begins_anew() -> None:
    found = evidence(0)
    refuse(found, times=REFUSALS_MIN - 1)
    found.accepted(0)
    found.refused(0, now=20.0)
    assert not found.process_ended(now=60.0)


def test_a_connect_that_is_not_answered_is_no_refusal_and_counting_begins_anew() -> None:
    found = evidence(0)
    now = refuse(found)
    found.unclear(0)
    assert not found.process_ended(now=now)


def test_every_address_that_worked_must_refuse() -> None:
    found = evidence(0, 1)
    now = refuse(found, 0)
    assert not found.process_ended(now=now)
    refuse(found, 1)
    assert found.process_ended(now=now)


def test_a_broker_that_is_heard_lives_and_counting_begins_anew() -> None:
    found = evidence(0)
    now = refuse(found)
    found.heard(None)
    assert not found.process_ended(now=now)
    assert found.process_ended(now=refuse(found, since=now + 1))


def test_while_the_connection_of_the_heartbeats_is_there_the_process_is_too() -> None:
    found, connection = evidence(0), Connection()
    found.heard(connection)
    now = refuse(found, times=100)
    assert not found.process_ended(now=now)
    connection.is_closed = True
    assert found.process_ended(now=now)


def test_refusals_before_the_controller_was_active_do_not_count() -> None:
    found = evidence(0)
    now = refuse(found)
    found.ask_again()
    assert not found.process_ended(now=now)
    assert found.process_ended(now=refuse(found, since=now))


SIGNS = st.sampled_from(("accepted", "unclear", "heard", *["refused"] * 12))
PAUSES = st.floats(0, CONFIRM_S / 4)


@given(st.lists(st.tuples(SIGNS, st.integers(0, 1), PAUSES), min_size=20))
def test_no_broker_is_dead_that_gave_a_sign_within_the_time_that_confirms_a_death(
    steps: list[tuple[str, int, float]],
) -> None:
    found, now = evidence(0, 1), 0.0
    signs = {0: 0.0, 1: 0.0}
    """When each address was last known to do anything but refuse."""
    for sign, address, pause in steps:
        now += pause
        match sign:
            case "accepted":
                found.accepted(address)
                signs[address] = now
            case "unclear":
                found.unclear(address)
                signs[address] = now
            case "heard":
                found.heard(None)
                signs = dict.fromkeys(signs, now)
            case _:
                found.refused(address, now=now)
        if found.process_ended(now=now):
            assert all(now - at >= CONFIRM_S for at in signs.values())
