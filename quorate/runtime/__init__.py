"""Interfaces to disk, network, time and entropy. All code above them runs unchanged in simulation.

Names are imported at their first use, because programs without an event loop use some of them.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.runtime.clock import SteadyClock, WallClock, loop_clock
    from quorate.runtime.compute import Compute, Result
    from quorate.runtime.disk import (
        Buffer,
        DescriptorsExhaustedError,
        Disk,
        DiskError,
        DiskFullError,
        DiskLock,
        DiskLockedError,
        DiskSpace,
        File,
        ReadableFile,
        read_file,
        replace_file,
        write_file_atomically,
    )
    from quorate.runtime.entropy import Entropy, parse_uuid, uuid_text
    from quorate.runtime.event_log import LOG_LEVELS, ROOT, get_logger, log_levels, set_log_level
    from quorate.runtime.extras import MissingExtraError, need
    from quorate.runtime.forks import tell_forked
    from quorate.runtime.network import (
        MEMBERS,
        Address,
        AddressInUseError,
        ClientAuth,
        ConnectRefusedError,
        Listener,
        Network,
        NetworkError,
        Stream,
        TlsError,
        TlsFiles,
        TlsFilesError,
        TlsTerms,
    )
    from quorate.runtime.runtime import Runtime
    from quorate.runtime.slices import (
        SLICE_SECONDS,
        Mapped,
        Slices,
        Steps,
        at_once,
        in_slices,
        let_go,
        own_turns,
    )
    from quorate.runtime.tasks import Tasks
    from quorate.runtime.timers import Timers
    from quorate.runtime.token_bucket import QuotaWindows, TokenBucket
    from quorate.runtime.work import WORK

_HOMES = {
    "SteadyClock": "quorate.runtime.clock",
    "WallClock": "quorate.runtime.clock",
    "loop_clock": "quorate.runtime.clock",
    "Compute": "quorate.runtime.compute",
    "Result": "quorate.runtime.compute",
    "Buffer": "quorate.runtime.disk",
    "DescriptorsExhaustedError": "quorate.runtime.disk",
    "Disk": "quorate.runtime.disk",
    "DiskError": "quorate.runtime.disk",
    "DiskFullError": "quorate.runtime.disk",
    "DiskLock": "quorate.runtime.disk",
    "DiskLockedError": "quorate.runtime.disk",
    "DiskSpace": "quorate.runtime.disk",
    "File": "quorate.runtime.disk",
    "ReadableFile": "quorate.runtime.disk",
    "read_file": "quorate.runtime.disk",
    "replace_file": "quorate.runtime.disk",
    "write_file_atomically": "quorate.runtime.disk",
    "Entropy": "quorate.runtime.entropy",
    "parse_uuid": "quorate.runtime.entropy",
    "uuid_text": "quorate.runtime.entropy",
    "MissingExtraError": "quorate.runtime.extras",
    "need": "quorate.runtime.extras",
    "tell_forked": "quorate.runtime.forks",
    "LOG_LEVELS": "quorate.runtime.event_log",
    "ROOT": "quorate.runtime.event_log",
    "get_logger": "quorate.runtime.event_log",
    "log_levels": "quorate.runtime.event_log",
    "set_log_level": "quorate.runtime.event_log",
    "Address": "quorate.runtime.network",
    "AddressInUseError": "quorate.runtime.network",
    "ConnectRefusedError": "quorate.runtime.network",
    "Listener": "quorate.runtime.network",
    "Network": "quorate.runtime.network",
    "NetworkError": "quorate.runtime.network",
    "Stream": "quorate.runtime.network",
    "TlsError": "quorate.runtime.network",
    "ClientAuth": "quorate.runtime.network",
    "MEMBERS": "quorate.runtime.network",
    "TlsFiles": "quorate.runtime.network",
    "TlsFilesError": "quorate.runtime.network",
    "TlsTerms": "quorate.runtime.network",
    "Runtime": "quorate.runtime.runtime",
    "SLICE_SECONDS": "quorate.runtime.slices",
    "Mapped": "quorate.runtime.slices",
    "Slices": "quorate.runtime.slices",
    "Steps": "quorate.runtime.slices",
    "at_once": "quorate.runtime.slices",
    "in_slices": "quorate.runtime.slices",
    "let_go": "quorate.runtime.slices",
    "own_turns": "quorate.runtime.slices",
    "Tasks": "quorate.runtime.tasks",
    "Timers": "quorate.runtime.timers",
    "QuotaWindows": "quorate.runtime.token_bucket",
    "TokenBucket": "quorate.runtime.token_bucket",
    "WORK": "quorate.runtime.work",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "LOG_LEVELS",
    "MEMBERS",
    "ROOT",
    "SLICE_SECONDS",
    "WORK",
    "Address",
    "AddressInUseError",
    "Buffer",
    "ClientAuth",
    "Compute",
    "ConnectRefusedError",
    "DescriptorsExhaustedError",
    "Disk",
    "DiskError",
    "DiskFullError",
    "DiskLock",
    "DiskLockedError",
    "DiskSpace",
    "Entropy",
    "File",
    "Listener",
    "Mapped",
    "MissingExtraError",
    "Network",
    "NetworkError",
    "QuotaWindows",
    "ReadableFile",
    "Result",
    "Runtime",
    "Slices",
    "SteadyClock",
    "Steps",
    "Stream",
    "Tasks",
    "Timers",
    "TlsError",
    "TlsFiles",
    "TlsFilesError",
    "TlsTerms",
    "TokenBucket",
    "WallClock",
    "at_once",
    "get_logger",
    "in_slices",
    "let_go",
    "log_levels",
    "loop_clock",
    "need",
    "own_turns",
    "parse_uuid",
    "read_file",
    "replace_file",
    "set_log_level",
    "tell_forked",
    "uuid_text",
    "write_file_atomically",
]
