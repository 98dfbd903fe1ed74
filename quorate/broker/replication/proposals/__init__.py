"""Leaders propose ISR changes to the controller, and every broker names the directories of its replicas."""

from quorate.broker.replication.proposals.directory_assignments import AssignDirectories, DirectoryAssignments
from quorate.broker.replication.proposals.isr_updater import AlterPartition, IsrUpdater

__all__ = ["AlterPartition", "AssignDirectories", "DirectoryAssignments", "IsrUpdater"]
