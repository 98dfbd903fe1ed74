"""The problems that a cluster can have: what each is, what it threatens, and what mends it.

A bound is a constant here. `diagnose` and the alert rules use the same.
"""

import enum
from dataclasses import dataclass
from typing import Final

FLAPS: Final = 3
"""A broker flaps that was fenced so often within `FLAP_MINUTES`."""
FLAP_MINUTES: Final = 10
ELECTIONS: Final = 5
"""Elections of an active controller are too many if there were so many within `ELECTION_MINUTES`. A rolling
restart of three nodes has three at most."""
ELECTION_MINUTES: Final = 10
PLANNED_S: Final = 300
"""A controlled shutdown and the start after it take less than this time. Until then they, and what follows
from them, are no problem, unless clients are refused."""
DRAIN_S: Final = 60
"""A broker that shuts down in order has left after this time: `controlled.shutdown.timeout.ms` is 10 s by
default. One that may take longer is held by something."""
SETTLE_S: Final = 15
"""A replica has so long to catch up, a new broker to be unfenced, and a voter to fetch from a new leader."""
SILENT_S: Final = 5
"""A voter that has not fetched for so long is silent. It fetches at least every
`controller.quorum.fetch.timeout.ms`, 2 s by default."""
LAG_S: Final = 10
"""A voter that fetches lags if it did not have all records of the leader for so long."""
SLOW_CHANGE_S: Final = 10
REASSIGNMENT_S: Final = 3600
"""A reassignment is stuck if nothing was recorded of it for so long."""
REBALANCE_S: Final = 60
CLOCK_S: Final = 2
NEARLY_FULL_PERCENT: Final = 5
FULL_PERCENT: Final = 1
NEARLY_FULL_BYTES: Final = 5 * 1000**3
"""The bounds of the alerts: no metric has the size of a disk."""
FULL_BYTES: Final = 1000**3
UNCLEAN_HOURS: Final = 24
CERTIFICATE_DAYS: Final = 14


class Severity(enum.IntEnum):
    """How bad a problem is, the worst first."""

    CRITICAL = 0
    """Clients are refused, or the cluster can't change."""
    SERIOUS = 1
    """One more failure refuses clients or loses records."""
    WARNING = 2
    """Nothing is refused yet."""

    @property
    def word(self) -> str:
        """The name for people and programs."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """When Prometheus says that the problem is there."""

    expression: str
    """In PromQL, over the metrics of nodes."""
    for_s: int
    """It has to hold for so long, in seconds."""

    @property
    def words(self) -> str:
        """The alert in a line; the expression is between backticks."""
        return f"`{self.expression}`" + (f", for {self.for_s} s" if self.for_s else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """A problem that a cluster can have."""

    name: str
    """Its id, for programs and for anchors."""
    severity: Severity
    title: str
    """What is wrong, as the end of a sentence that begins with where."""
    title_of_many: str = ""
    """The same for several places. Empty: no other words."""
    meaning: str
    """When the problem is there."""
    threatens: str
    remedy: str
    """What mends it. Commands are between backticks. Placeholders: `{brokers}` and `{reach}` are the options
    that reach the cluster, the others what `Problem` names."""
    page: str
    """Where there is more, with its heading."""
    alert: Alert | None = None
    """None: no metric tells."""

    @property
    def section(self) -> str:
        """The place of the problem in the reference."""
        return f"docs/reference/problems.md#{self.name}"


def _live_voters(window: str = "") -> str:
    live = 'count by (job) (raft_manager_current_state{raft_manager_current_state=~"leader|follower"} == 1)'
    return f"max_over_time(({live})[{window}:1m])" if window else live


QUORUM_WITHOUT_LEADER: Final = ProblemKind(
    name="quorum-without-leader",
    severity=Severity.CRITICAL,
    title="has no leader",
    meaning="No controller leads the metadata quorum: fewer than a majority of the voters run and reach each "
    "other.",
    threatens="Nothing in the metadata can change: no leader of a partition is replaced, no topic is "
    "created. Brokers go on with what they know.",
    remedy="Start the voters that do not answer, where they ran: `quorate server start server.properties`. "
    "Then look who leads: `quorate quorum describe {reach}`",
    page="docs/how-to/restore-a-node.md#no-majority-is-left",
    alert=Alert(expression="max by (job) (quorate_controller_active) == 0", for_s=30),
)
MAJORITY_AT_RISK: Final = ProblemKind(
    name="majority-at-risk",
    severity=Severity.SERIOUS,
    title="does not answer, and the quorum needs all others",
    meaning=f"Voters have not fetched for {SILENT_S} s, and the others are just a majority.",
    threatens="One more failure, and the quorum has no leader.",
    remedy="Start voter {voters} where it ran: `quorate server start server.properties`. If its machine is "
    "lost, replace it",
    page="docs/how-to/restore-a-node.md#a-majority-is-left",
    alert=Alert(
        expression=f"{_live_voters()} <= floor({_live_voters('1h')} / 2) + 1 and "
        f"{_live_voters()} < {_live_voters('1h')}",
        for_s=60,
    ),
)
VOTER_SILENT: Final = ProblemKind(
    name="voter-silent",
    severity=Severity.WARNING,
    title="does not answer",
    meaning=f"A voter has not fetched for {SILENT_S} s. More voters than a majority are left.",
    threatens="The quorum survives fewer failures than it was made for.",
    remedy="Start voter {voters} where it ran: `quorate server start server.properties`. If its machine is "
    "lost, replace it",
    page="docs/how-to/restore-a-node.md#a-majority-is-left",
    alert=Alert(
        expression=f"{_live_voters()} < {_live_voters('1h')} and {_live_voters()} > "
        f"floor({_live_voters('1h')} / 2) + 1",
        for_s=60,
    ),
)
VOTER_LAGGING: Final = ProblemKind(
    name="voter-lagging",
    severity=Severity.WARNING,
    title="lags",
    meaning=f"A voter fetches, and has not had all records of the leader for {LAG_S} s.",
    threatens="It counts for the majority only once it has caught up.",
    remedy="See whether its lag becomes less: `quorate quorum describe {reach}`. If not, look at node "
    "{voter}: its disk, on which each fetch waits for a sync, its processor, and the network between it and "
    "the leader",
    page="docs/how-to/find-slow-steps.md",
    alert=Alert(
        expression="max by (job) (raft_manager_log_end_offset) - on (job) group_right () "
        "raft_manager_log_end_offset > 1000",
        for_s=60,
    ),
)
VOTER_OF_ANOTHER_DISK: Final = ProblemKind(
    name="voter-of-another-disk",
    severity=Severity.SERIOUS,
    title="came back with another disk",
    meaning="The voter set names another directory for the node than the node has: its disk was replaced. It "
    "does not vote.",
    threatens="The quorum has one voter less than it seems.",
    remedy="Let it catch up. Then `quorate quorum remove-voter {voter} --directory-id {directory} "
    "{reach}`, and on the node itself `quorate quorum add-voter --config server.properties {reach}`",
    page="docs/how-to/replace-a-disk.md#voters-in-the-log",
)
REPEATED_ELECTIONS: Final = ProblemKind(
    name="repeated-elections",
    severity=Severity.WARNING,
    title="elects leaders again and again",
    meaning=f"The quorum elected {ELECTIONS} leaders or more within {ELECTION_MINUTES} minutes.",
    threatens="Changes of the metadata wait for each election.",
    remedy="See which voters lag or are silent: `quorate quorum describe {reach}`. Look at the network and "
    "the load of the controllers",
    page="docs/how-to/find-slow-steps.md",
    alert=Alert(
        expression=f"changes(raft_manager_current_epoch[{ELECTION_MINUTES}m]) >= {ELECTIONS}", for_s=0
    ),
)
BROKER_FENCED: Final = ProblemKind(
    name="broker-fenced",
    severity=Severity.SERIOUS,
    title="is fenced",
    meaning="The controller fenced the broker: its process ended, or sent no heartbeat. A broker that was "
    f"shut down in order is no problem for {PLANNED_S} s, nor a new one for {SETTLE_S} s.",
    threatens="Its replicas are out of sync: one more failure may take partitions offline.",
    remedy="Start it again where it ran: `quorate server start server.properties`. If it runs, its "
    "server.log says why the controller does not hear it. If it won't return: `quorate brokers unregister "
    "{broker} {brokers}`",
    page="docs/how-to/restart-a-node.md#a-node-that-is-killed",
    alert=Alert(expression="max by (job) (quorate_controller_fenced_brokers) > 0", for_s=PLANNED_S),
)
BROKER_DRAINING: Final = ProblemKind(
    name="broker-draining",
    severity=Severity.WARNING,
    title="has not finished its controlled shutdown",
    meaning=f"The broker began its controlled shutdown more than {DRAIN_S} s ago, and runs. Only a broker "
    "whose controlled.shutdown.timeout.ms is longer waits so long.",
    threatens="It neither leads nor stops.",
    remedy="See what it still leads: `quorate topics describe {brokers}`, and which brokers have not applied "
    "that it leaves: `quorate state-changes --brokers {reach}`. Mend these; otherwise end its process",
    page="docs/how-to/restart-a-node.md",
)
BROKER_FLAPPING: Final = ProblemKind(
    name="broker-flapping",
    severity=Severity.SERIOUS,
    title="is fenced again and again",
    meaning=f"The broker was fenced {FLAPS} times or more within {FLAP_MINUTES} minutes.",
    threatens="Its partitions change their leaders and ISRs each time.",
    remedy="Look why it stops, or why the controller does not hear it: `quorate state-changes --broker "
    "{broker} {reach}` and its server.log. Shut it down until that is mended",
    page="docs/how-to/state-changes.md#a-slow-broker",
    alert=Alert(
        expression="sum by (job) (increase(quorate_controller_timed_out_broker_heartbeats_total"
        f"[{FLAP_MINUTES}m])) >= {FLAPS}",
        for_s=0,
    ),
)
OFFLINE_PARTITIONS: Final = ProblemKind(
    name="offline-partitions",
    severity=Severity.CRITICAL,
    title="has no leader",
    title_of_many="have no leader",
    meaning="No live broker leads the partition.",
    threatens="It can be neither written nor read.",
    remedy="Start {candidates}, which may lead it. Only if they are lost for ever, and records "
    "may be lost: `quorate leader-election --election-type unclean --topic {topic} --partition {partition} "
    "{brokers}`",
    page="docs/how-to/leaders.md#a-partition-without-a-leader",
    alert=Alert(expression="max by (job) (quorate_controller_offline_partitions) > 0", for_s=30),
)
UNDER_MIN_ISR: Final = ProblemKind(
    name="under-min-isr",
    severity=Severity.CRITICAL,
    title="has fewer replicas in sync than min.insync.replicas",
    title_of_many="have fewer replicas in sync than min.insync.replicas",
    meaning="The ISR of the partition is smaller than min.insync.replicas.",
    threatens="Producers with acks=all are refused.",
    remedy="Start {missing}. To accept fewer copies instead: `quorate configs alter "
    "--entity-type topics --entity-name {topic} --add-config min.insync.replicas={isr_size} {brokers}`",
    page="docs/how-to/restart-a-node.md#a-node-that-is-killed",
    alert=Alert(expression="kafka_server_replicamanager_underminisrpartitioncount > 0", for_s=30),
)
UNDER_REPLICATED: Final = ProblemKind(
    name="under-replicated",
    severity=Severity.SERIOUS,
    title="has replicas that are not in sync",
    title_of_many="have replicas that are not in sync",
    meaning=f"A replica of the partition is not in the ISR, and has had {SETTLE_S} s to catch up.",
    threatens="Fewer failures than planned take it offline or lose records.",
    remedy="Start {missing}. If they run, see what holds them up: `quorate state-changes --topic "
    "{topic} {reach}`",
    page="docs/how-to/state-changes.md#a-slow-broker",
    alert=Alert(expression="kafka_server_replicamanager_underreplicatedpartitions > 0", for_s=PLANNED_S),
)
UNCLEAN_ELECTION: Final = ProblemKind(
    name="unclean-election",
    severity=Severity.WARNING,
    title="got a leader that may lack committed records",
    meaning=f"Within the last {UNCLEAN_HOURS} hours a replica was elected that was not sure to have all "
    f"committed records.",
    threatens="Records that were acknowledged may be lost. Nothing brings them back.",
    remedy="See what happened: `quorate state-changes --topic {topic} --since 1d {reach}`. Send again what "
    "producers still have",
    page="docs/how-to/leaders.md#a-partition-without-a-leader",
    alert=Alert(
        expression="sum by (job) (increase(quorate_controller_unclean_leader_elections_total"
        f"[{UNCLEAN_HOURS}h])) > 0",
        for_s=0,
    ),
)
DIRECTORY_FAILED: Final = ProblemKind(
    name="directory-failed",
    severity=Severity.SERIOUS,
    title="is offline",
    meaning="The broker could not read or write the log directory, and took its replicas offline.",
    threatens="The replicas in it are out of sync: one more failure may take partitions offline.",
    remedy="Look at the directory: `quorate log-dirs describe {brokers}`. Mend or replace the disk, then "
    "restart broker {broker}",
    page="docs/how-to/replace-a-disk.md#one-of-several-directories-of-logdirs",
    alert=Alert(expression="kafka_server_replicamanager_offlinereplicacount > 0", for_s=0),
)
DISK_FULL: Final = ProblemKind(
    name="disk-full",
    severity=Severity.CRITICAL,
    title="is full",
    meaning=f"Less than {FULL_PERCENT} % of the file system of a log directory can be used. The alert: less "
    f"than {FULL_BYTES // 1000**3} GB.",
    threatens="The directory goes offline with the first write that fails.",
    remedy="See what fills it: `quorate log-dirs describe {brokers}`. Delete records, lower "
    "retention.bytes, or move replicas to another directory",
    page="docs/how-to/log-directories.md",
    alert=Alert(expression=f"quorate_log_dir_usable_bytes < {FULL_BYTES}", for_s=0),
)
DISK_NEARLY_FULL: Final = ProblemKind(
    name="disk-nearly-full",
    severity=Severity.WARNING,
    title="is nearly full",
    meaning=f"Less than {NEARLY_FULL_PERCENT} % of the file system of a log directory can be used. The "
    f"alert: less than {NEARLY_FULL_BYTES // 1000**3} GB.",
    threatens="A full disk takes the directory offline.",
    remedy="See what fills it: `quorate log-dirs describe {brokers}`. Delete records, lower "
    "retention.bytes, or move replicas to another directory",
    page="docs/how-to/log-directories.md",
    alert=Alert(expression=f"quorate_log_dir_usable_bytes < {NEARLY_FULL_BYTES} >= {FULL_BYTES}", for_s=60),
)
DAMAGED_REPLICA: Final = ProblemKind(
    name="damaged-replica",
    severity=Severity.SERIOUS,
    title="is damaged",
    meaning="A part of the replica's log can't be read as it was written.",
    threatens="The records there can't be read from this replica. If the others fail, they are lost.",
    remedy="Fetch it anew: `quorate log-dirs refetch --replica {topic}:{partition}:{broker} {brokers}`",
    page="docs/how-to/recover-a-damaged-replica.md",
    alert=Alert(expression="quorate_damaged_replicas > 0", for_s=0),
)
SLOW_STATE_CHANGE: Final = ProblemKind(
    name="slow-state-change",
    severity=Severity.WARNING,
    title="does not end a state change",
    meaning=f"The broker began a change of its replicas more than {SLOW_CHANGE_S} s ago, and has not ended "
    "it.",
    threatens="Its replicas neither lead nor follow as the controller asked.",
    remedy="See which: `quorate state-changes --broker {broker} --pending {reach}`",
    page="docs/how-to/state-changes.md#a-slow-broker",
    alert=Alert(expression=f"quorate_controller_broker_oldest_change_seconds > {SLOW_CHANGE_S}", for_s=0),
)
REASSIGNMENT_STUCK: Final = ProblemKind(
    name="reassignment-stuck",
    severity=Severity.WARNING,
    title="is being moved, and does not get on",
    title_of_many="are being moved, and do not get on",
    meaning="The reassignment waits for a broker that is fenced or unregistered, or nothing was recorded of "
    f"it for {REASSIGNMENT_S // 60} minutes.",
    threatens="The partition keeps its old replicas, and the new ones take space.",
    remedy="{begin} {moves}: `{cancel} {brokers}`",
    page="docs/how-to/reassign.md#the-end-of-a-move",
    alert=Alert(
        expression=f"min_over_time(quorate_controller_reassigning_partitions[{REASSIGNMENT_S // 60}m]) > 0",
        for_s=0,
    ),
)
GROUP_REBALANCING: Final = ProblemKind(
    name="group-rebalancing",
    severity=Severity.WARNING,
    title="rebalances without end",
    meaning=f"The group was rebalancing each time that it was looked at, for {REBALANCE_S} s (with --watch, "
    "and on the page of its coordinator).",
    threatens="Its members read nothing.",
    remedy="See its members: `quorate groups describe --group {group} {brokers}`. One that joins and "
    "leaves again has a session.timeout.ms or max.poll.interval.ms that is too short",
    page="docs/how-to/groups.md#see-what-there-is",
)
CLOCKS_DIFFER: Final = ProblemKind(
    name="clocks-differ",
    severity=Severity.WARNING,
    title="has another time",
    meaning=f"Two clocks differ by {CLOCK_S} s or more: that of the active controller and this machine's, "
    f"or that of a broker and the controller's.",
    threatens="Retention by time and the order of events in logs are wrong.",
    remedy="Synchronise the clocks of the machines: `chronyc tracking`",
    page="docs/reference/problems.md#clocks-differ",
)
FEATURES_BEHIND: Final = ProblemKind(
    name="features-behind",
    severity=Severity.WARNING,
    title="works at a lower level than all brokers support",
    meaning="All registered brokers support a higher level of the feature (kraft.version left aside) than "
    "the cluster works at.",
    threatens="An upgrade has not ended: new abilities are off.",
    remedy="End the upgrade: `quorate features upgrade --feature {feature}={level} {brokers}`",
    page="docs/how-to/features.md",
)
CERTIFICATE_ENDS: Final = ProblemKind(
    name="certificate-ends",
    severity=Severity.WARNING,
    title="has a certificate that ends soon",
    title_of_many="have certificates that end soon",
    meaning=f"A certificate ends within {CERTIFICATE_DAYS} days. The command knows those that brokers show "
    "it, and those of its own files; the page of a node all that the node uses, of authorities too, as the "
    "metrics do.",
    threatens="Nodes and clients refuse each other from then on.",
    remedy="See what ends when: `quorate certs list FOLDER`, in the folder of the authority. Make new "
    "certificates: `quorate certs rotate FOLDER`, and give them out. An authority that ends is replaced in "
    "three steps",
    page="docs/how-to/rotate-certificates.md",
    alert=Alert(
        expression=f"quorate_certificate_seconds_left < {CERTIFICATE_DAYS * 86400}",
        for_s=0,
    ),
)

CATALOGUE: Final = tuple(
    sorted(
        (
            QUORUM_WITHOUT_LEADER,
            OFFLINE_PARTITIONS,
            UNDER_MIN_ISR,
            DISK_FULL,
            MAJORITY_AT_RISK,
            VOTER_OF_ANOTHER_DISK,
            BROKER_FENCED,
            BROKER_FLAPPING,
            DIRECTORY_FAILED,
            DAMAGED_REPLICA,
            UNDER_REPLICATED,
            UNCLEAN_ELECTION,
            VOTER_SILENT,
            VOTER_LAGGING,
            REPEATED_ELECTIONS,
            BROKER_DRAINING,
            SLOW_STATE_CHANGE,
            REASSIGNMENT_STUCK,
            DISK_NEARLY_FULL,
            GROUP_REBALANCING,
            CLOCKS_DIFFER,
            FEATURES_BEHIND,
            CERTIFICATE_ENDS,
        ),
        key=lambda kind: kind.severity,
    )
)
"""All problems, the worst first."""
