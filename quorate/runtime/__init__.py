"""The seams to the outside world. Everything above them runs unchanged in simulation."""

from dataclasses import dataclass

from quorate.runtime.clock import WallClock, loop_clock
from quorate.runtime.compute import Compute, Result
from quorate.runtime.disk import (
    Buffer,
    DescriptorsExhaustedError,
    Disk,
    DiskError,
    DiskFullError,
    DiskLock,
    DiskLockedError,
    File,
    read_file,
    write_file_atomically,
)
from quorate.runtime.entropy import Entropy, parse_uuid, uuid_text
from quorate.runtime.extras import MissingExtraError, need
from quorate.runtime.forks import tell_forked
from quorate.runtime.log import ROOT, get_logger
from quorate.runtime.network import Address, AddressInUseError, Listener, Network, NetworkError, Stream
from quorate.runtime.slices import SLICE_SECONDS, Mapped, Slices, Steps, at_once, in_slices, let_go
from quorate.runtime.timers import Timers
from quorate.runtime.work import WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a node may touch of the outside world."""

    disk: Disk
    network: Network
    wall_clock: WallClock
    entropy: Entropy
    compute: Compute
    boot_id: str
    """Another one after each start of the host: while it is the same, everything that any process has
    written to files is still to be read from them, synced or not."""


__all__ = [
    "ROOT",
    "SLICE_SECONDS",
    "WORK",
    "Address",
    "AddressInUseError",
    "Buffer",
    "Compute",
    "DescriptorsExhaustedError",
    "Disk",
    "DiskError",
    "DiskFullError",
    "DiskLock",
    "DiskLockedError",
    "Entropy",
    "File",
    "Listener",
    "Mapped",
    "MissingExtraError",
    "Network",
    "NetworkError",
    "Result",
    "Runtime",
    "Slices",
    "Steps",
    "Stream",
    "Timers",
    "WallClock",
    "at_once",
    "get_logger",
    "in_slices",
    "let_go",
    "loop_clock",
    "need",
    "parse_uuid",
    "read_file",
    "tell_forked",
    "uuid_text",
    "write_file_atomically",
]
