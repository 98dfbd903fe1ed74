"""Replicas of partitions: logs, ISR, high watermark, fetchers.

This is the manual of replication inside one broker. It says what each room has, who owns which state, and
what happens to a record, a fetch, an ISR and a disk on their way through the rooms. Line by line, the rules
of Kafka are in docs/explanation/kafka-in-the-code.md.

The rooms
---------
Each room uses those below it, and none above.

  `wiring`, `replica_manager`
    Make the parts in order, run them, and end them.
  hosting
    Replicas follow the metadata: logs are opened and removed, roles are taken, damaged replicas are fetched
    anew.
  following, serving, upkeep
    What is done with open replicas: one fetcher for each leader; the answers to Produce, Fetch, ListOffsets
    and DeleteRecords; work on logs beside the requests, such as flushes, compaction, the scrub and moves
    between directories.
  replica
    The state of one partition, all replicas of this broker, and those who tell the controller of them.
  producing, storage
    The checks of batches before the append, and idempotent producers. The directories of `log.dirs`, their
    folders, checkpoint files and logs.
  foundation
    Configuration, errors, requests, counts, quotas, waiting requests, the metadata, and failures.

The log itself is `quorate.log`. The controller's part of ISRs and elections is
`quorate.broker.controller.operations`.

State and its owners
--------------------
  `CurrentMetadata`
    The image that replicas act upon, and the broker's epoch. `MetadataIntake` sets the first,
    `ReplicaManager` the second. All others read.
  `HostedReplicas`
    The replicas by name and by topic id, open or not. Only `Hosting` changes it.
  `PartitionReplica`
    The log, the role, the last committed state, the idempotent producers, and what is known to be damaged.
  `LeaderState`, `FollowerState`
    What is true in one leader epoch, and ends with it: the ISR, committed and proposed, and the positions of
    followers; or the leader that is followed.
  `LogManager`, `LogDirectory`, `PartitionFolders`
    What is on the disks, and which of it is durable.
  `FetchSessions`
    What clients and followers fetch in sessions.
  `ChangeJournal`
    The state changes under way, and the last finished ones.

Steps and locks
---------------
All parts belong to one trio run. What changes a replica's state is a plain call, so it happens in one step of
the event loop, and requests that wait are completed after it. Three things keep tasks apart where a change
has to wait for the disk: `PartitionReplica.lock` is held while the log is cut or closed, `upkeep` while its
files are flushed or removed, and the gate of compaction is closed by each change of what a pass reads. They
are taken in the order gate, `upkeep`, `lock`.

The life of a produced record
-----------------------------
1. `ProduceService` finds the replica. `BatchChecker` checks every record of the batch, which may take many
   steps.
2. `PartitionReplica.append` checks in one step that this broker leads, that the ISR is large enough for
   acks=all, and that the batch is new. It appends to the log, which is a write to the operating system's
   cache.
3. In the same step the followers' waiting fetches are completed (`Watchers.appended`), and the high watermark
   moves if the leader is alone in the ISR.
4. With acks=all the answer waits as a `ParkedBatch`. Each follower's next fetch says how far its log reaches.
   When the least log end of the ISR has passed the record, the high watermark does, and the answer is
   complete.
5. At the deadline, or when the leadership is lost, the answer is an error. The record may be committed all
   the same.

The life of a fetch
-------------------
1. A follower fetches in a session. `FetchSessions` finds it, and the request changes it: only what differs
   from the last request is named. A consumer may fetch without one (`FetchService`).
2. A follower's position is taken in first (`take_in_fetch`), so that the answer has the newest high
   watermark. It may propose that the follower joins the ISR.
3. `readable` returns the range that may be read: up to the log end for a follower, up to the high watermark
   for a consumer, nothing if the follower's log departs from this one. `PartitionReader` reads.
4. If that is too little, the fetch waits. The `Watchers` of its partitions complete it, or the `Purgatory`
   does at its deadline. Then it is read again.
5. The follower takes the answer in (`following`): it appends, or cuts its log to where it departs. Its next
   fetch acknowledges what it appended.

The life of an ISR change
-------------------------
1. A follower that has caught up fetches, or a scan finds one behind (`PartitionReplica.scan_isr`).
   `LeaderState` makes an `IsrProposal`, at most one at a time. From now on members of both ISRs hold the high
   watermark back.
2. `IsrUpdater` asks the controller until it answers. A lost answer is asked for again.
3. Granted: the answer is applied at once, and metadata brings the same later. Refused for good: the leader
   proposes the committed ISR, because an earlier try may still arrive. In all other cases metadata ends the
   proposal.

The life of a failed disk
-------------------------
1. The part that meets the error reports `LogFailed`, `DirectoryFailed` or `OpeningFailed` to `Failures`.
   `DiskFailures` handles it before the report returns.
2. Every replica in the directory fails: it serves nothing more, and what waited for it is refused. The mark
   that the page cache is complete is removed, so that the next life proves nothing.
3. The next heartbeat names the directory, and the controller takes its replicas out of their ISRs.
4. Without a directory, or without that of the metadata log, the broker stops (`AllDirectoriesFailedError`).
5. Damage is not a failure of the disk. `DamageRead` has a segment checked, `DamageFound` has the replica
   fetched anew if the configuration says so. The other replicas of the directory go on.

Invariants
----------
`PartitionReplica.validate` checks them on an open replica, `MetadataImage.validate` in the metadata. The
simulator calls both.

- low watermark <= durable log start <= log start <= high watermark <= log end.
- Leader epochs rise in the log, and none begins beyond its end or after the epoch of the role.
- The ISR is among the replicas and has the leader. The maximal ISR has the committed one. No eligible leader
  replica is in the ISR.
- No follower of this leader is known to be further than the leader's log end.
- The high watermark of a leader never goes back. That of a follower does only with a cut, which a member of
  the ISR refuses.
"""
