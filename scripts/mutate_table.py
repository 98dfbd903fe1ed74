# ruff: noqa: E501
"""Small faults, each a real bug of the field or a plausible slip, and who is meant to find it.

`source` is an id of the scenario catalogue that the tests cite (E elections, T truncation, S snapshots, R
reconfiguration, F fencing) or says what kind of slip it is.
"""

import enum
from dataclasses import dataclass


class Finder(enum.Enum):
    EXPLORER = "explorer"
    """Every interleaving within the small bound, then the named exploration of the ci bound."""
    UNIT = "unit"
    TRACE = "trace"
    SIMULATION = "simulation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    name: str
    file: str
    old: str
    """Occurs exactly once."""
    new: str
    source: str
    finder: Finder
    where: tuple[str, ...] = ()
    """Tests; or for the explorer, explorations of the ci bound if the small one does not find it."""


def _explorer(name: str, file: str, old: str, new: str, source: str, *where: str) -> Mutation:
    return Mutation(
        name=name,
        file=f"raft/core/{file}",
        old=old,
        new=new,
        source=source,
        finder=Finder.EXPLORER,
        where=where,
    )


def _tested(
    name: str, file: str, old: str, new: str, source: str, *where: str, finder: Finder = Finder.UNIT
) -> Mutation:
    return Mutation(name=name, file=file, old=old, new=new, source=source, finder=finder, where=where)


_CORE = "tests/raft/core"
_TRACES = "tests/traces"
_CONTROLLER = "tests/broker/controller"

MUTATIONS: tuple[Mutation, ...] = (
    # --- found by the explorer: elections ---
    _explorer(
        "a restarted leader stands again in its own epoch",
        "core.py",
        "return self._begin(Resigned(preferred_successors=successors))",
        "return self._begin(Candidate(node))",
        "E1 KAFKA-10527",
        "crashes",
    ),
    _explorer(
        "the high watermark may be the epoch's start",
        "voters.py",
        "return end if end > epoch_start else None",
        "return end if end >= epoch_start else None",
        "E2 KAFKA-12619",
    ),
    _explorer(
        "a vote is forgotten with a step down in its epoch",
        "role_holder.py",
        "voted = voted if voted is not None else stored.voted",
        "voted = voted",
        "E13 redpanda PR 14",
        "given votes",
    ),
    _explorer(
        "a vote is forgotten with the leader's first word",
        "role_holder.py",
        "voted = stored.voted if epoch == stored.epoch else None",
        "voted = None",
        "E13",
    ),
    _explorer(
        "who has voted votes for another candidate too",
        "unattached.py",
        "return node.election.voted.matches(request.candidate)",
        "return True",
        "a slip: the candidate is not compared",
        "rivals",
    ),
    _explorer(
        "the longer log wins, whatever its epochs",
        "request_handlers.py",
        "return (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)",
        "return request.end_offset >= log.end_offset",
        "E11; Raft section 5.4.1",
    ),
    _explorer(
        "the newer epoch wins, however short its log",
        "request_handlers.py",
        "return (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)",
        "return request.last_epoch >= log.last_epoch",
        "Raft section 5.4.1",
    ),
    _explorer(
        "a vote given on the way to a new epoch skips the look at the log",
        "request_handlers.py",
        "gives = is_asked and up_to_date and not request.pre_vote",
        "gives = is_asked and not request.pre_vote",
        "a slip in a short cut",
        "wooed voter",
    ),
    _explorer(
        "one vote short of a majority elects",
        "ballot.py",
        "return len(self._granted) >= node.voters.majority",
        "return len(self._granted) >= node.voters.majority - 1",
        "a slip: off by one",
        "rivals",
    ),
    _explorer(
        "a candidate does not store its own vote",
        "role_holder.py",
        "ElectionState(Epoch(stored.epoch + 1), None, node.key)",
        "ElectionState(Epoch(stored.epoch + 1), None, None)",
        "PySyncObj: the vote never reaches the disk",
    ),
    _explorer(
        "leader and vote are carried into the next epoch",
        "role_holder.py",
        "if epoch == stored.epoch:",
        "if epoch >= stored.epoch:",
        "a slip: what is true for one epoch only",
        "divergence",
    ),
    _explorer(
        "a candidate stands with a tail that it has not synced",
        "requests.py",
        "last_epoch=node.log.durable_epoch,\n            end_offset=node.log.durable_end_offset,\n            pre_vote",
        "last_epoch=node.log.last_epoch,\n            end_offset=node.log.end_offset,\n            pre_vote",
        "found by quorate's own random schedules",
        "crashes",
        "timeouts",
    ),
    _explorer(
        "an observer stands for election",
        "follower.py",
        "if node.may_stand:",
        "if node.may_stand or not node.is_voter:",
        "E9 KAFKA-17067",
    ),
    _explorer(
        "any answer from a peer is taken for the one waited for",
        "response_handlers.py",
        "node.in_flight.get(source) != response.correlation or",
        "source not in node.in_flight or",
        "E12, T5 KAFKA-13207",
        "repeats",
    ),
    # --- found by the explorer: replication ---
    _explorer(
        "half of an even number of voters commits",
        "voters.py",
        "return end if end > epoch_start else None",
        "end = sorted(ends)[count // 2]\n    return end if end > epoch_start else None",
        "a slip: n // 2 from the wrong side",
    ),
    _explorer(
        "the leader counts what it has not synced",
        "leader.py",
        "self._replicas.voter_ends[node.id] = node.log.durable_end_offset\n            self._advance(node)",
        "self._replicas.voter_ends[node.id] = node.log.end_offset\n            self._advance(node)",
        "KRaft raises its own end before the sync",
        "repeats",
    ),
    _explorer(
        "a follower acknowledges what it has not synced",
        "follower.py",
        "if not node.log.is_durable or self._leader_resigned",
        "if self._leader_resigned",
        "F1 of commit-path: durable before said",
    ),
    _explorer(
        "a diverging log counts towards the high watermark",
        "leader.py",
        "        if snapshot is not None or diverging is not None:\n            # Says",
        "        if diverging is not None:\n            replica.end_offset = request.offset\n"
        "            self._replicas.voter_ends[request.source] = request.offset\n"
        "            self._advance(node)\n"
        "        if snapshot is not None or diverging is not None:\n            # Says",
        "T7 KAFKA-13141",
        "divergence",
    ),
    _explorer(
        "a cut at the start of an epoch leaves the epoch",
        "epochs.py",
        "keep = bisect_left(self._starts, end_offset)\n        del",
        "keep = bisect_left(self._starts, end_offset + 1)\n        del",
        "T2, T6: epochs that are not in the log",
        "premature leader",
    ),
    _explorer(
        "every log is taken for a prefix of the leader's",
        "log_state.py",
        "return None if end.epoch == epoch and offset <= end.end_offset else end",
        "return None",
        "T3 KAFKA-6361, T4 KAFKA-7164",
    ),
    _explorer(
        "a follower is as far as the leader says",
        "follower.py",
        "Offset(min(node.log.end_offset, response.high_watermark))",
        "response.high_watermark",
        "a slip: HW <= LEO",
    ),
    # --- found by the explorer: voters ---
    _explorer(
        "a leader that removed itself still counts",
        "leader.py",
        "        if node.is_voter:\n            self._replicas.voter_ends[node.id] = node.log.durable_end_offset",
        "        if True:\n            self._replicas.voter_ends[node.id] = node.log.durable_end_offset",
        "R2 KAFKA-16531",
    ),
    _explorer(
        "a voter set that was cut off still counts",
        "log_state.py",
        "        self.voters.truncate(end_offset)\n        self.end_offset",
        "        self.end_offset",
        "KIP-853: undone when truncated",
        "undone change",
    ),
    _explorer(
        "a follower does not look at the voters it fetches",
        "log_state.py",
        "self.voters.append(batch.voters)",
        "pass",
        "KIP-853: effective on append",
    ),
    _explorer(
        "a new leader changes voters before it has committed",
        "voter_changes.py",
        "        if high_watermark is None:",
        "        if high_watermark is None and node.high_watermark is None:",
        "the bug of single-server changes in Raft's first dissertation",
        "undone change",
    ),
    _explorer(
        "the last voter may be removed",
        "voter_changes.py",
        "if len(voters) == 1:",
        "if len(voters) == 0:",
        "R8 redpanda PR 2290",
        "voters come and go",
    ),
    # --- found by the explorer: snapshots and reads ---
    _explorer(
        "the epoch of what the log start swallowed is forgotten",
        "log_state.py",
        "self.start_epoch = start.epoch",
        "pass",
        "T14 etcd-io/raft 76f1249",
    ),
    _explorer(
        "who is behind the log start is sent no snapshot",
        "log_state.py",
        "offset < start or epoch < self.start_epoch or (offset == start and epoch != self.start_epoch)",
        "False",
        "T9 KAFKA-12996",
    ),
    _explorer(
        "an installed snapshot does not move the high watermark",
        "follower.py",
        "node.advance_high_watermark(incoming.id.end_offset)",
        "pass",
        "T8 KAFKA-9491",
    ),
    _explorer(
        "a read passes without anybody's word",
        "read_barriers.py",
        "reached = self._pending[-1].round if needed == 0 else echoes[needed - 1]",
        "reached = self._pending[-1].round",
        "Raft section 8: reads of a deposed leader",
    ),
    _explorer(
        "a read passes with one voter's word too few",
        "read_barriers.py",
        "needed = node.voters.majority - (1 if node.is_voter else 0)",
        "needed = node.voters.majority - 2",
        "a slip: off by one",
    ),
    # --- found by traces and unit tests of the core ---
    _tested(
        "a completion of a log that was cut since counts",
        "raft/core/core.py",
        "if generation != log.generation:",
        "if generation > log.generation:",
        "DESIGN: a truncation begins a new generation",
        _TRACES,
        finder=Finder.TRACE,
    ),
    _tested(
        "the majority is not counted again with a change of voters",
        "raft/core/leader.py",
        "            node.role_changed(self.role, self.epoch_start_offset)\n        self._advance(node)\n",
        "            node.role_changed(self.role, self.epoch_start_offset)\n",
        "findings, mutation k2",
        _TRACES,
        _CORE,
        finder=Finder.TRACE,
    ),
    _tested(
        "check-quorum keeps who fetched before a change of voters",
        "raft/core/leader.py",
        "    def _arm_check_quorum(self, node: Node) -> None:\n        self._replicas.start_period()\n",
        "    def _arm_check_quorum(self, node: Node) -> None:\n",
        "findings, mutation k9",
        f"{_CORE}/test_voter_changes.py",
    ),
    _tested(
        "an observer that fell silent may become a voter",
        "raft/core/replica_progress.py",
        "        if not self.is_alive:\n            self.caught_up = False\n",
        "",
        "findings, replicas D2",
        f"{_CORE}/test_voter_changes.py",
    ),
    _tested(
        "a removal may leave voters that are down",
        "raft/core/replicas.py",
        "return silent if len(voters) - len(silent) < voters.majority else ()",
        "return ()",
        "etcd strict-reconfig-check",
        f"{_CORE}/test_voter_changes.py",
    ),
    _tested(
        "another node's address is written down for a voter",
        "raft/endpoint_check.py",
        "if not view.node.matches(voter.key):",
        "if view.node.id != voter.key.id and view.node.matches(voter.key):",
        "a slip: who answers is not compared",
        "tests/raft/test_endpoint_check.py",
    ),
    _tested(
        "a stranger is heeded while an election is under way",
        "raft/core/role_holder.py",
        "heeds_strangers=voted is None or transition.lost_election,",
        "heeds_strangers=True,",
        "findings, chaos Security",
        f"{_CORE}/test_strangers.py",
    ),
    _tested(
        "a stranger's epoch is taken though its log is behind",
        "raft/core/request_handlers.py",
        "if not up_to_date or (request.epoch == node.epoch and node.election.leader is not None):",
        "if request.epoch == node.epoch and (not up_to_date or node.election.leader is not None):",
        "a slip: the log is not looked at",
        f"{_CORE}/test_strangers.py",
    ),
    _tested(
        "a leader that nobody hears leads on",
        "raft/core/leader.py",
        "if timer.kind is TimerKind.CHECK_QUORUM:\n            return self.resign()",
        "if timer.kind is TimerKind.CHECK_QUORUM:\n            return None",
        "E3 KAFKA-15489",
        _TRACES,
        finder=Finder.TRACE,
    ),
    _tested(
        "who hears the leader grants a pre-vote",
        "raft/core/follower.py",
        "return up_to_date and (self._leader_gone or not self._has_fetched or request.leader_resigned)",
        "return up_to_date",
        "E14 etcd issue 9241; KIP-996",
        _TRACES,
        finder=Finder.TRACE,
    ),
    _tested(
        "the cut ignores what the follower's own epochs say",
        "raft/core/follower.py",
        "end = Offset(min(diverging.end_offset, log.end_of(diverging.epoch).end_offset))",
        "end = Offset(diverging.end_offset)",
        "T3 KAFKA-6361; Raft figure 7",
        _TRACES,
        _CORE,
        finder=Finder.TRACE,
    ),
    _tested(
        "fetches parked at a leader that resigns are left to wait",
        "raft/core/leader.py",
        "refuse_fetch(node, replica.parked)",
        "pass",
        "E8 KAFKA-10677",
        _TRACES,
        _CORE,
        finder=Finder.TRACE,
    ),
    _tested(
        "late answers count in the next role's round",
        "raft/core/role_holder.py",
        "            node.in_flight.clear()\n",
        "",
        "E12 etcd-io/raft 8edd37a",
        _TRACES,
        _CORE,
        finder=Finder.TRACE,
    ),
    _tested(
        "preferred successors all stand at once",
        "raft/core/follower.py",
        "(backoff_max_ms >> last) << (place - 1)) if place else 0",
        "0)",
        "KIP-595: staggered waits",
        _TRACES,
        _CORE,
        finder=Finder.TRACE,
    ),
    _tested(
        "a read of a new leader passes before it has committed anything",
        "raft/core/read_barriers.py",
        "if not self._pending or high_watermark is None:",
        "if not self._pending:",
        "F14 etcd-io/raft 3189a66",
        _CORE,
    ),
    # --- quorum state ---
    _tested(
        "a version of the future is read as if it were known",
        "quorum_state/election_state.py",
        "if version != DATA_VERSION:",
        "if version < DATA_VERSION:",
        "F12 KAFKA-15412",
        "tests/quorum_state",
    ),
    _tested(
        "a vote in the epoch that is stored already is not stored",
        "quorum_state/election_state.py",
        "if state == self._durable:",
        "if self._durable is not None and state.epoch == self._durable.epoch:",
        "PySyncObj: the vote never reaches the disk",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
    _tested(
        "the directory of who was voted for is not read back",
        "quorum_state/election_state.py",
        "None if directory == _NO_DIRECTORY else directory)",
        "None)",
        "KIP-853: a lost disk is another replica",
        "tests/quorum_state",
    ),
    _tested(
        "a renamed file was never synced",
        "runtime/disk.py",
        "        file.append([data])\n        await file.sync()",
        "        file.append([data])",
        "S1 KAFKA-15312",
        "tests/quorum_state",
        "tests/log",
    ),
    # --- the log ---
    _tested(
        "damaged bytes are taken for records",
        "log/batch.py",
        "if found != header.crc:",
        "if False:",
        "S5 KAFKA-14104",
        "tests/log/test_batch.py",
        "tests/log/test_recovery.py",
    ),
    _tested(
        "an own batch may leave a gap",
        "log/appends.py",
        "if base_offset != self.end_offset:",
        "if base_offset < self.end_offset:",
        "T19 KAFKA-12331",
        "tests/log",
    ),
    _tested(
        "a fetched batch may leave a gap",
        "log/appends.py",
        "if header.base_offset != expected:",
        "if False:",
        "T5 KAFKA-13207",
        "tests/log",
    ),
    _tested(
        "a log goes on after a sync failed",
        "log/durability.py",
        "            done = True\n        except DiskError as error:\n            self._failure = error\n",
        "            done = True\n        except DiskError:\n",
        "F8 KAFKA-10778",
        "tests/log",
    ),
    _tested(
        "a follower's log may be cut below the high watermark",
        "log/changes.py",
        "if end_offset < min(self.high_watermark, self.end_offset):",
        "if False:",
        "T1 KAFKA-12460",
        "tests/log",
    ),
    _tested(
        "epochs stay when no record is cut",
        "log/changes.py",
        "            self._epochs.trim_end(min(end_offset, self.end_offset))\n",
        "",
        "kraft.md section 3: even if no records are cut",
        "tests/log",
    ),
    _tested(
        "after a full truncation the high watermark is behind the start",
        "log/changes.py",
        "self.log_start_offset = self.high_watermark = offset",
        "self.log_start_offset = offset",
        "T8 KAFKA-9491",
        "tests/log",
    ),
    _tested(
        "a cut is not synced",
        "log/changes.py",
        "        await segment.file.sync()\n        segment.synced = segment.writes",
        "        segment.synced = segment.writes",
        "T15 KAFKA-16541",
        "tests/log",
    ),
    _tested(
        "records are cut before the recovery point is lowered",
        "log/changes.py",
        "        if self._checkpointed_end > offset:\n            if self._config",
        "        if False:\n            if self._config",
        "DESIGN: a crash halfway must not look like damage",
        "tests/log",
    ),
    _tested(
        "what recovery keeps is not synced again",
        "log/recovery.py",
        "        await self._rewrite(segment, start, end)\n",
        "",
        "DESIGN: rewritten and synced before the first Vote",
        "tests/log",
    ),
    _tested(
        "a log that lost its durable end starts",
        "log/recovery.py",
        "        if self._end_offset < self._trusted_end:\n            raise DamagedLogError(\n                segment.path,\n"
        "                segment.size,",
        "        if False:\n            raise DamagedLogError(\n                segment.path,\n                segment.size,",
        "DESIGN: damage below the recovery point",
        "tests/log",
    ),
    _tested(
        "a leader-epoch checkpoint that goes back is believed",
        "log/epoch_cache.py",
        "if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset <= entries[-1].start_offset):",
        "if False:",
        "T15 KAFKA-16541",
        "tests/log",
    ),
    # --- the driver ---
    _tested(
        "leadership is announced with the LeaderChange record still to be applied",
        "raft/leadership.py",
        "self._applied_offset > start",
        "self._applied_offset >= start",
        "E6 KAFKA-15345",
        "tests/raft/test_leadership.py",
    ),
    _tested(
        "what shares a batch gets the results of the first",
        "raft/proposals.py",
        "            position = end\n",
        "",
        "a slip in a group commit",
        "tests/raft/test_proposals.py",
    ),
    _tested(
        "the stored high watermark goes back",
        "raft/watermark.py",
        "if self._high_watermark is None or high_watermark > self._high_watermark:",
        "if True:",
        "a slip",
        "tests/raft/test_watermark.py",
    ),
    _tested(
        "a half-sent frame is sent again from its start",
        "raft/outbox.py",
        "self._queue[0] = memoryview(self._queue[0])[sent:]",
        "self._queue[0] = memoryview(self._queue[0])",
        "a slip with partial writes",
        "tests/raft/test_outbox.py",
    ),
    _tested(
        "a cancelled timer fires",
        "raft/timers.py",
        "self._deadlines.pop(name, None)",
        "self._deadlines.get(name)",
        "a slip",
        "tests/raft/test_timers.py",
    ),
    _tested(
        "a connection to the leader is tried for as long as the system tries",
        "raft/channel.py",
        "with trio.move_on_after(self._connect_s) as limit:",
        "with trio.CancelScope() as limit:",
        "ours: a broker that started beside a leader that was cut off did not hear of the next one",
        "tests/raft/test_leadership.py",
    ),
    _tested(
        "a voter set takes the place that an append was promised",
        "raft/driver.py",
        "if may_propose and (not events or isinstance(events[0], ChangeVoters)):",
        "if may_propose and not events:",
        "ours: each change of the voters put out the controller",
        "tests/raft/test_voters.py",
    ),
    # --- found by simulation ---
    _tested(
        "a vote is said before it is stored",
        "raft/driver.py",
        "await self._state_file.store(state)",
        "await trio.lowlevel.checkpoint()",
        "PySyncObj; DESIGN: durable before said",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
    _tested(
        "an append is called durable before it is",
        "raft/driver.py",
        "end_offset = await self.log.sync()",
        "end_offset = self.log.end_offset",
        "DESIGN: durable before said",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
    # --- found by unit tests: the controller, between two pieces of work ---
    _tested(
        "a broker in controlled shutdown may be elected while it leaves",
        "broker/controller/states.py",
        "return not self.fenced and not self.in_controlled_shutdown",
        "return not self.fenced",
        "c3: departures before the record of the controlled shutdown",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a lower min.insync.replicas leaves the ELRs as they are",
        "broker/controller/chores.py",
        'case Config(name="min.insync.replicas"):\n                self.settle()',
        'case Config(name="min.insync.replicas"):\n                pass',
        "c12: leaders commit nothing while others are eligible",
        f"{_CONTROLLER}/test_controller.py",
    ),
    _tested(
        "an unregistered broker stays in the ELRs",
        "broker/controller/brokers.py",
        "first=Departure(broker_id=broker.broker_id, broker_epoch=broker.epoch, lost=True)",
        "first=Departure(broker_id=broker.broker_id, broker_epoch=broker.epoch, lost=False)",
        "c15: it registers with an empty disk and is elected",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a fenced broker returns before it has left its ISRs",
        "broker/controller/brokers.py",
        "may_return=caught_up and not leaves and not image.isr_count(broker.broker_id)",
        "may_return=caught_up",
        "a slip: its departure goes on while it is active",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a new process is registered before the last one has left its ISRs",
        "broker/controller/brokers.py",
        "if held is not None and held.epoch != departed:",
        "if held is None and departed is None:",
        "a slip: it finds that it leads, with less than it had",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a pass ends though what it passed may be concerned again",
        "broker/controller/chores.py",
        "self._stale = self._sweep is not None",
        "self._stale = False",
        "a slip: an election that is asked for in the middle of one",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a rebalance counts the changes and not the looks",
        "broker/controller/chores.py",
        "most=size * LOOKS_PER_CHANGE",
        "most=1 << 40",
        "Kafka's trap (replication.md 7)",
        f"{_CONTROLLER}/test_pieces.py",
    ),
    _tested(
        "a follower acknowledges in the pass what it has only written",
        "raft/driver.py",
        "end_offset = self.log.sync_at_once()",
        "end_offset: Offset | None = self.log.end_offset",
        "DESIGN: durable before said",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
    _tested(
        "the leader applies what is not committed",
        "raft/applier.py",
        "groups[0].end_offset <= self._high_watermark",
        "groups[0].base_offset <= self._high_watermark",
        "F14: state beyond the high watermark",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
    _tested(
        "a batch is applied from memory and from the log",
        "raft/applier.py",
        "            if header.base_offset != self.applied_offset:\n                # Meanwhile applied from memory.\n"
        "                continue\n",
        "",
        "a slip: applied twice",
        "tests/simulation/test_quorum_seeds.py",
        finder=Finder.SIMULATION,
    ),
)
