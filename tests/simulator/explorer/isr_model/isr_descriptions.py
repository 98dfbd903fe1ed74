"""The ISR protocol's model in words."""

from quorate.broker.metadata.metadata_records import LeaderRecoveryState
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.replica.roles import LeaderState
from tests.simulator.explorer.isr_model.explored_broker import ExploredBroker
from tests.simulator.explorer.isr_model.isr_actions import IsrAction
from tests.simulator.explorer.isr_model.isr_packets import (
    FetchAnswer,
    FetchUnderWay,
    Packet,
    QuestionAnswer,
    QuestionUnderWay,
    RegistrationUnderWay,
    UnregistrationUnderWay,
)
from tests.simulator.explorer.isr_model.scene import Tables

_SAID = {
    "start": "broker {} starts",
    "register": "broker {} asks to be registered",
    "heartbeat": "broker {} heartbeats",
    "fetch": "broker {} fetches",
    "propose": "broker {} asks for another ISR",
    "produce": "broker {} appends a record for a producer (acks=all)",
    "lag": "the lag time passes on broker {}, and it scans its ISR",
    "assign": "broker {} says in which directory its replica is",
    "fence": "the session of broker {} runs out",
    "unregister": "an operator unregisters broker {}",
    "kill": "broker {}'s process is killed",
    "shut down": "broker {} is asked to shut down",
    "stop now": "broker {} ends in order without waiting for the controller",
    "directory fails": "broker {}'s first directory fails under it",
    "directory gone": "broker {}'s first directory is not there any more",
    "directory back": "broker {}'s first directory is back as it was",
    "disk replaced": "broker {} gets an empty disk in the place of its first directory",
    "work": "the controller does what is left to be done",
    "take over": "another controller takes over",
}


def describe(tables: Tables, action: IsrAction) -> str:
    """Describe an action. The text tells it from any other in the same state."""
    match action.what:
        case "apply":
            (images,) = action.detail
            return f"broker {action.broker} acts upon {images} change{'s' if images > 1 else ''} of metadata"
        case "deliver":
            return _delivered(tables.packets[action.packet])
        case "give up":
            waits = f"broker {action.broker} waits no longer: "
            return waits + _delivered(tables.packets[action.packet])
        case "power":
            kept = "but what was not synced is there" if action.detail[0] else "and what was not synced"
            return f"the host of broker {action.broker} loses power, {kept}"
        case "reassign":
            return (
                f"an operator reassigns to {list(action.detail)}"
                if action.detail
                else "the reassignment is cancelled"
            )
        case "configure":
            return f"min.insync.replicas becomes {action.detail[0]}"
        case _:
            return _SAID[action.what].format(action.broker)


def _delivered(packet: Packet) -> str:
    match packet:
        case FetchUnderWay(follower, leader, asked, epoch, awaited):
            late = "" if awaited else ", late"
            return (
                f"broker {leader} gets the fetch of broker {follower} (broker epoch {epoch}) at offset "
                f"{asked.fetch_offset} in leader epoch {asked.current_leader_epoch}, last epoch "
                f"{asked.last_fetched_epoch}{late}"
            )
        case FetchAnswer(follower, leader, answer):
            what = f"{sum(len(each) > 0 for each in answer.records)} runs of records"
            if answer.diverging_epoch is not None:
                what = f"diverging at {answer.diverging_epoch}"
            elif int(answer.error):
                what = answer.error.name
            return (
                f"broker {follower} gets the answer of broker {leader}: {what}, high watermark "
                f"{answer.high_watermark}"
            )
        case QuestionUnderWay(leader, item, epoch, awaited):
            isr = [(each.broker_id, each.broker_epoch) for each in item.new_isr]
            return (
                f"the controller gets the question of broker {leader} (broker epoch {epoch}): ISR {isr} for "
                f"partition epoch {item.partition_epoch} of leader epoch {item.leader_epoch}"
                f"{'' if awaited else ', late'}"
            )
        case QuestionAnswer(leader, result):
            what = "nothing" if result is None else f"{result.error.name}, ISR {list(result.isr)}"
            return f"broker {leader} gets the controller's answer: {what}"
        case RegistrationUnderWay(request, life, departed, awaited):
            again = "" if departed is None else " again, now that it has left its ISRs"
            return (
                f"the controller gets the registration of broker {request.broker_id}, life {life}, which "
                f"proves epoch {request.previous_broker_epoch}{again}{'' if awaited else ', late'}"
            )
        case UnregistrationUnderWay(broker_id, _):
            return f"the controller forgets broker {broker_id}, now that it has left its ISRs"


def describe_partition(state: PartitionState) -> str:
    """Describe the partition's metadata in a line."""
    recovering = state.leader_recovery_state is LeaderRecoveryState.RECOVERING
    return (
        f"metadata: leader {state.leader} in epoch {state.leader_epoch}, partition epoch "
        f"{state.partition_epoch}, replicas {list(state.replicas)}, ISR {list(state.isr)}, "
        f"ELR {list(state.elr)}{', recovering' if recovering else ''}"
    )


def describe_broker(machine: ExploredBroker) -> str:
    """Describe a broker in a line."""
    process = machine.process
    values = machine.values
    log = (
        "no log" if values is None else "[" + " ".join(f"{each.value}:e{each.epoch}" for each in values) + "]"
    )
    if process is None:
        return f"broker {machine.id}: down, {log}"
    role = "nothing"
    if isinstance(process.role, LeaderState):
        pending = process.role.isr.pending
        asks = "" if pending is None else f", asks for {list(pending.isr)}"
        role = f"leads epoch {process.role.leader_epoch} with ISR {list(process.role.isr.committed)}{asks}"
    elif process.role is not None:
        role = f"follows {process.role.leader} in epoch {process.role.leader_epoch}"
    failed = ", its disk failed" if process.failure else ""
    high_watermark = "" if process.log is None else f", high watermark {process.log.high_watermark}"
    return (
        f"broker {machine.id} (epoch {process.epoch}): {role}, {log}{high_watermark}{failed}, "
        f"{len(process.inbox)} behind"
    )
