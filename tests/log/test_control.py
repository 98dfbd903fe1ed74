"""Control records, in Kafka's bytes: kio's generated codecs read what ours write, and the other way round."""

import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage
from kio.schema.leader_change_message.v1.data import Voter as ChangeVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0.data import Endpoint as KafkaEndpoint
from kio.schema.voters_record.v0.data import KRaftVersionFeature, VotersRecord
from kio.schema.voters_record.v0.data import Voter as KafkaVoter
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, u16

from quorate.log.batches import control
from quorate.log.batches.batch import read_batches
from quorate.log.batches.control import ControlType, control_records_of, voters_in
from quorate.log.batches.records import RecordContent, build_batch, build_keyed_batch
from quorate.log.log_errors import InvalidBatchError
from quorate.runtime.entropy import parse_uuid, uuid_text
from quorate.types import Endpoint, NodeId, Offset, ReplicaKey, StateDigest, Voter, VotersAt, VoterSet

PLACE = {"base_offset": 40, "epoch": 3, "timestamp_ms": 1234}
DIRECTORY = uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10)

directories = st.none() | st.uuids().filter(lambda drawn: drawn.int != 0).map(uuid_text)
voter_sets = st.dictionaries(
    st.integers(0, 2**31 - 1), st.tuples(directories, st.text(max_size=30), st.integers(0, 65535)), max_size=7
).map(
    lambda drawn: VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(node), directory), Endpoint(host, port))
            for node, (directory, host, port) in sorted(drawn.items())
        )
    )
)


def one_voter(directory: str | None = None) -> VoterSet:
    return VoterSet((Voter(ReplicaKey(NodeId(1), directory), Endpoint("h", 9093)),))


def records_in(data: bytes) -> list[tuple[int, ControlType | None, bytes]]:
    [batch] = read_batches(data)
    assert batch.header.is_control
    return [(record.offset, kind, record.value or b"") for record, kind in control_records_of(batch)]


def kafka_voters(voters: VoterSet) -> VotersRecord:
    return VotersRecord(
        version=i16(0),
        voters=tuple(
            KafkaVoter(
                voter_id=BrokerId(voter.key.id),
                voter_directory_id=None
                if voter.key.directory_id is None
                else parse_uuid(voter.key.directory_id),
                endpoints=(
                    KafkaEndpoint(name="CONTROLLER", host=voter.endpoint.host, port=u16(voter.endpoint.port)),
                ),
                k_raft_version_feature=KRaftVersionFeature(
                    min_supported_version=i16(0), max_supported_version=i16(1)
                ),
            )
            for voter in voters
        ),
    )


def test_a_voter_set_is_written_in_kafkas_bytes() -> None:
    assert (
        control.encode_voters(one_voter(uuid_text(DIRECTORY)))
        == (
            b"\x00\x00"  # version
            b"\x02"  # one voter
            b"\x00\x00\x00\x01"
            + DIRECTORY.bytes
            + b"\x02\x0bCONTROLLER\x02h\x23\x85\x00"  # one endpoint, no tags
            b"\x00\x00\x00\x01\x00"  # kraft.version 0 to 1, no tags
            b"\x00\x00"  # no tags in the voter, none in the record
        )
    )


@given(voter_sets)
def test_kafkas_codec_reads_and_writes_the_same_voters(voters: VoterSet) -> None:
    ours = control.encode_voters(voters)
    assert entity_reader(VotersRecord)(ours, 0) == (kafka_voters(voters), len(ours))
    written = io.BytesIO()
    entity_writer(VotersRecord)(written, kafka_voters(voters))
    assert written.getvalue() == ours
    assert control.read_voters(ours) == voters


@given(voter_sets, st.booleans())
def test_a_voters_batch_tells_its_voters_and_where_they_are(voters: VoterSet, first: bool) -> None:
    data = control.voters_batch(**PLACE, voters=voters, first=first)
    [batch] = read_batches(data)
    assert (batch.header.base_offset, batch.header.leader_epoch) == (40, 3)
    assert voters_in(batch) == VotersAt(Offset(40 + first), voters)
    kinds = [kind for _, kind, _ in records_in(data)]
    assert kinds == [ControlType.KRAFT_VERSION] * first + [ControlType.KRAFT_VOTERS]


@given(voter_sets, st.integers(0, 2**31 - 1))
def test_a_leader_may_write_the_bootstrap_voters_behind_its_leader_change(
    voters: VoterSet, leader: int
) -> None:
    data = control.leader_change_batch(
        **PLACE, leader=leader, voters=voters.ids, granting_voters=voters.ids[:1], voter_set=voters
    )
    first, second, third = records_in(data)
    assert [one[:2] for one in (first, second, third)] == [
        (40, ControlType.LEADER_CHANGE),
        (41, ControlType.KRAFT_VERSION),
        (42, ControlType.KRAFT_VOTERS),
    ]
    assert entity_reader(KRaftVersionRecord)(second[2], 0)[0].k_raft_version == 1
    assert control.read_kraft_version(second[2]) == 1
    [batch] = read_batches(data)
    assert voters_in(batch) == VotersAt(Offset(42), voters)
    change = control.read_leader_change(first[2])
    assert (change.leader, change.voters, change.granting_voters) == (leader, voters.ids, voters.ids[:1])
    known = tuple(voter.key.directory_id for voter in voters)
    assert change.directory_ids == (known if any(known) else ())


def test_a_leader_change_names_directories_where_they_are_known() -> None:
    data = control.leader_change_batch(
        **PLACE, leader=2, voters=(1, 2), granting_voters=(2,), directory_ids={2: uuid_text(DIRECTORY)}
    )
    [(_, _, value)] = records_in(data)
    assert entity_reader(LeaderChangeMessage)(value, 0)[0] == LeaderChangeMessage(
        version=i16(1),
        leader_id=BrokerId(2),
        voters=(
            ChangeVoter(voter_id=i32(1), voter_directory_id=None),
            ChangeVoter(voter_id=i32(2), voter_directory_id=DIRECTORY),
        ),
        granting_voters=(ChangeVoter(voter_id=i32(2), voter_directory_id=DIRECTORY),),
    )
    change = control.read_leader_change(value)
    assert change.directory_ids == (None, uuid_text(DIRECTORY))


def test_a_snapshots_header_and_footer_are_kafkas() -> None:
    [(_, kind, value)] = records_in(control.snapshot_header_batch(base_offset=0, epoch=1, timestamp_ms=77))
    assert kind is ControlType.SNAPSHOT_HEADER
    assert entity_reader(SnapshotHeaderRecord)(value, 0)[0].last_contained_log_timestamp == 77
    assert control.read_snapshot_header(value) == 77
    [(_, kind, value)] = records_in(control.snapshot_footer_batch(base_offset=9, epoch=1, timestamp_ms=0))
    assert kind is ControlType.SNAPSHOT_FOOTER
    assert entity_reader(SnapshotFooterRecord)(value, 0) == (SnapshotFooterRecord(version=i16(0)), len(value))
    assert control.read_snapshot_footer(value) is None


def test_a_footers_digest_is_a_tagged_field_that_kafka_skips() -> None:
    """By KIP-482: the number of tagged fields, then of each its tag, size and bytes."""
    state = StateDigest("0.3 own 0", "ab12")
    [(_, _, value)] = records_in(
        control.snapshot_footer_batch(base_offset=9, epoch=1, timestamp_ms=0, state=state)
    )
    assert control.read_snapshot_footer(value) == state
    assert value == b"\x00\x00" + b"\x01\x90\x4e\x10" + b"\x0a0.3 own 0" + b"\x05ab12" + b"\x00"
    newer = value[:2] + b"\x02\x00\x01z" + value[3:]  # with a tag of Kafka's before ours
    assert control.read_snapshot_footer(newer) == state


def test_kafkas_further_endpoints_and_unknown_tags_are_skipped() -> None:
    endpoint = b"\x02O\x02o\x00\x07\x00"
    ours = b"\x0bCONTROLLER\x02h\x00\x09" + b"\x01\x05\x02zz"  # a tagged field
    voter = b"\x00\x00\x00\x05" + bytes(16) + b"\x03" + endpoint + ours + b"\x00\x00\x00\x01\x00\x00"
    value = b"\x00\x00\x02" + voter + b"\x00"
    [read] = control.read_voters(value)
    assert read == Voter(ReplicaKey(NodeId(5)), Endpoint("h", 9))
    other = value.replace(b"CONTROLLER", b"CONTRALTOR")
    assert [voter.endpoint for voter in control.read_voters(other)] == [Endpoint("o", 7)]


def test_voters_that_make_no_sense_are_refused() -> None:
    good = control.encode_voters(one_voter())
    assert control.read_voters(good) == one_voter()
    bad = [good[:length] for length in range(len(good) - 1)]
    bad.append(b"\x00\x01" + good[2:])  # a later version
    bad.append(good[:2] + b"\xff\xff\xff\xff\x0f" + good[3:])  # so many voters
    bad.append(good[:2] + b"\xff\xff\xff\xff\xff\x0f" + good[3:])
    bad.append(good[:2] + b"\x00" + good[3:])  # a null array
    bad.append(good[:2] + b"\x03" + good[3:-1] + good[3:])  # the same voter twice
    bad.append(good.replace(b"\x02\x0bCONTROLLER\x02h\x23\x85\x00", b"\x01"))  # no endpoint
    for value in bad:
        with pytest.raises(ValueError, match="not a KRaftVoters record"):
            control.read_voters(value)
        data = build_keyed_batch(**PLACE, records=[RecordContent(b"\x00\x00\x00\x06", value)], control=True)
        with pytest.raises(InvalidBatchError, match="KRaftVoters"):
            voters_in(next(read_batches(data)))


@pytest.mark.parametrize(("version", "is_known"), [(-1, False), (0, True), (1, True), (2, False)])
def test_a_kraft_version_that_is_not_known_is_refused(version: int, is_known: bool) -> None:
    value = b"\x00\x00" + version.to_bytes(2, "big", signed=True) + b"\x00"
    data = build_keyed_batch(**PLACE, records=[RecordContent(b"\x00\x00\x00\x05", value)], control=True)
    [batch] = read_batches(data)
    if is_known:
        assert voters_in(batch) is None
        return
    with pytest.raises(InvalidBatchError, match="only up to 1: a newer quorate wrote it"):
        voters_in(batch)


def test_other_batches_have_no_voters() -> None:
    change = control.leader_change_batch(**PLACE, leader=1, voters=(1,), granting_voters=(1,))
    unknown = build_keyed_batch(**PLACE, records=[RecordContent(b"\x00\x00\x00\x63", b"?")], control=True)
    data = build_batch(**PLACE, values=[b"x"])
    assert [voters_in(batch) for batch in read_batches(change + unknown + data)] == [None] * 3
    keyless = build_batch(**PLACE, values=[b"x"], control=True)
    with pytest.raises(InvalidBatchError, match="has no key"):
        voters_in(next(read_batches(keyless)))
