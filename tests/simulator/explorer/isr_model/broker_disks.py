"""The processes of a broker, and what they leave on its disks: after `LogManager` and `BrokerLifecycle`."""

import uuid
from dataclasses import replace

from quorate.broker.replication.storage import Proof, newest_proof
from tests.simulator.explorer.isr_model.explored_broker import (
    ExploredBroker,
    Process,
    ReplicaFolder,
    with_folder,
)


class BrokerLives:
    """Every method returns another broker, and leaves the one that it is given alone."""

    def start(self, machine: ExploredBroker) -> ExploredBroker:
        """Start a process on the directories that are there."""
        online = [each for each in machine.folders if each.online]
        folders = tuple(each._replace(clean=False) if each.online else each for each in machine.folders)
        process = Process(
            incarnation=machine.lives + 1, proof=newest_proof((each.id, each.proof) for each in online)
        )
        return replace(machine, folders=folders, process=process, lives=machine.lives + 1)

    def asked_to_stop(self, machine: ExploredBroker) -> ExploredBroker:
        """An operator wants the process to end in order."""
        assert machine.process is not None
        process = machine.process.copied()
        process.stopping = True
        return replace(machine, process=process)

    def registered(self, machine: ExploredBroker, epoch: int, view: int) -> ExploredBroker:
        """The controller has registered the process. `view`: the first image with its registration."""
        assert machine.process is not None
        process = machine.process.copied()
        online = [each.id for each in machine.folders if each.online and each.id not in process.failed]
        process.epoch = epoch
        if process.view < 0 and not process.inbox:
            process.inbox = (view,)
        folders = machine.folders
        if not process.failed:
            proof = Proof(epoch, frozenset(online))
            folders = tuple(
                each._replace(proof=proof, clean=False) if each.online else each for each in folders
            )
        return replace(machine, folders=folders, process=process)

    def killed(self, machine: ExploredBroker) -> ExploredBroker:
        """Kill the process. The page cache outlives it, checkpoints have what they had."""
        folders = machine.written_back(high_watermark=False, synced=False)
        return replace(machine, folders=folders, process=None)

    def stopped(self, machine: ExploredBroker) -> ExploredBroker:
        """End the process in order: everything is synced, and marked as complete unless a disk failed."""
        assert machine.process is not None
        process = machine.process
        folders = machine.written_back(high_watermark=True, synced=True)
        if not process.failed and process.epoch >= 0 and process.view >= 0:
            proof = Proof(process.epoch, frozenset(each.id for each in folders if each.online))
            folders = tuple(
                each._replace(proof=proof, clean=True) if each.online else each for each in folders
            )
        return replace(machine, folders=folders, process=None)

    def power_lost(self, machine: ExploredBroker, *, tail: bool) -> ExploredBroker:
        """The host goes down. `tail`: the records that were not synced are there all the same."""
        folders = machine.written_back(high_watermark=False, synced=False)
        kept: list[ReplicaFolder] = []
        for each in folders:
            if not each.clean:
                each = each._replace(proof=None)
            if each.values is not None and not tail:
                each = each._replace(values=each.values[: each.synced])
            kept.append(each)
        return replace(machine, folders=tuple(kept), process=None)

    def folder_missing(self, machine: ExploredBroker) -> ExploredBroker:
        """The first directory is not there any more, while no process runs."""
        return replace(
            machine, folders=with_folder(machine.folders, 0, machine.folders[0]._replace(online=False))
        )

    def folder_back(self, machine: ExploredBroker) -> ExploredBroker:
        """The first directory is there again, as it was."""
        return replace(
            machine, folders=with_folder(machine.folders, 0, machine.folders[0]._replace(online=True))
        )

    def disk_replaced(self, machine: ExploredBroker, directory: uuid.UUID) -> ExploredBroker:
        """An empty directory is in the place of the first one, while no process runs."""
        return replace(
            machine,
            folders=with_folder(machine.folders, 0, ReplicaFolder(directory)),
            disks=machine.disks + 1,
        )
