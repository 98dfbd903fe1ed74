"""The history of rights that the access simulation compares with."""

from typing import Final

from quorate.broker.metadata.metadata_records import Record, ScramMechanism, UserScramCredential
from quorate.simulation.checkers.invariants import CommittedLog
from quorate.types import SecretBytes
from tests.kit.committed_batches import commit_batch
from tests.simulator.access.naive_rights import SUPER_USER
from tests.simulator.access.rights_history import RightsHistory

FIRST: Final = b"the first salt.."
SECOND: Final = b"the second salt."


def password(salt: bytes) -> UserScramCredential:
    return UserScramCredential(
        name="cat",
        mechanism=ScramMechanism.SCRAM_SHA_256,
        salt=SecretBytes(salt),
        stored_key=SecretBytes(bytes(32)),
        server_key=SecretBytes(bytes(32)),
        iterations=4096,
    )


def history_of(*batches: list[Record]) -> RightsHistory:
    committed = CommittedLog()
    history = RightsHistory(committed)
    for salt in (FIRST, SECOND):
        history.askers[f"salt/{salt.hex()}"].add(SUPER_USER)
    for records in batches:
        commit_batch(committed, records)
        history.read_committed()
    return history


async def test_a_change_that_another_follows_in_its_batch_is_in_the_log_but_no_node_goes_by_it() -> None:
    history = history_of([password(FIRST), password(SECOND)])
    assert history.were_there(0, lambda rights: rights.salt("cat") == FIRST)
    assert [rights.salt("cat") for rights in history.states] == [None, SECOND]


async def test_a_change_from_before_it_was_asked_for_does_not_count() -> None:
    history = history_of([password(FIRST), password(SECOND)])
    assert not history.were_there(1, lambda rights: rights.salt("cat") == FIRST)
    assert history.were_there(1, lambda rights: rights.salt("cat") == SECOND)
