"""The requests and answers between brokers and the controller, and the brokers that wait for them."""

from typing import NamedTuple, TypeAlias

from quorate.broker.controller.rpc import AlterPartitionItem, AlterPartitionResult, RegisterBrokerRequest
from quorate.broker.wire.codecs.fetch_codec import FetchedPartition, FetchPartition


class FetchUnderWay(NamedTuple):
    follower: int
    leader: int
    asked: FetchPartition
    epoch: int
    """The follower's broker epoch."""
    awaited: bool


class FetchAnswer(NamedTuple):
    follower: int
    leader: int
    answer: FetchedPartition


class QuestionUnderWay(NamedTuple):
    leader: int
    item: AlterPartitionItem
    epoch: int
    awaited: bool


class QuestionAnswer(NamedTuple):
    leader: int
    result: AlterPartitionResult | None


class RegistrationUnderWay(NamedTuple):
    request: RegisterBrokerRequest
    life: int
    departed: int | None
    """The broker epoch that is leaving its ISRs, or has left them."""
    awaited: bool


class UnregistrationUnderWay(NamedTuple):
    broker_id: int
    departed: int | None


Packet: TypeAlias = (
    FetchUnderWay
    | FetchAnswer
    | QuestionUnderWay
    | QuestionAnswer
    | RegistrationUnderWay
    | UnregistrationUnderWay
)


def receiver_of(packet: Packet) -> int:
    """Return the broker that it is for; 0: the controller."""
    match packet:
        case FetchUnderWay():
            return packet.leader
        case FetchAnswer():
            return packet.follower
        case QuestionAnswer():
            return packet.leader
        case _:
            return 0


def is_parked(packet: Packet) -> bool:
    """Return whether the active controller has it, and decides when a broker has left its ISRs."""
    return isinstance(packet, RegistrationUnderWay | UnregistrationUnderWay) and packet.departed is not None


def waits_for(packet: Packet) -> int:
    """Return the broker that waits for it, or for an answer to it; 0 for none."""
    match packet:
        case FetchAnswer():
            return packet.follower
        case QuestionAnswer():
            return packet.leader
        case UnregistrationUnderWay():
            return 0
        case FetchUnderWay():
            return packet.follower if packet.awaited else 0
        case QuestionUnderWay():
            return packet.leader if packet.awaited else 0
        case RegistrationUnderWay():
            return packet.request.broker_id if packet.awaited else 0
