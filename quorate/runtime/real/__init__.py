"""The real disk, network, clock and entropy.

Names are imported at their first use, because a program that only reads files needs no event loop.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.runtime.real.child_process import ChildProcess, inherited_stream, is_orphan
    from quorate.runtime.real.descriptors import raise_soft_limit
    from quorate.runtime.real.disk_threads import DiskThreads
    from quorate.runtime.real.freed_memory import give_back_freed_memory
    from quorate.runtime.real.garbage import short_collections
    from quorate.runtime.real.host_runtime import RealWallClock, real_runtime
    from quorate.runtime.real.loop_thread import (
        LoopThread,
        Mailbox,
        PatchedThreadsError,
        ShortCall,
        TaskCall,
    )
    from quorate.runtime.real.read_only_file import open_read_only
    from quorate.runtime.real.real_disk import RealDisk, RealFile, SyncStrategy
    from quorate.runtime.real.real_network import RealNetwork
    from quorate.runtime.real.slow_steps import watch_slow_steps
    from quorate.runtime.real.tcp import TcpStream
    from quorate.runtime.real.tls_network import TlsNetwork, TlsStream
    from quorate.runtime.real.tls_watch import ExpiryLog, TlsWatch

_HOMES = {
    "ChildProcess": "quorate.runtime.real.child_process",
    "inherited_stream": "quorate.runtime.real.child_process",
    "is_orphan": "quorate.runtime.real.child_process",
    "raise_soft_limit": "quorate.runtime.real.descriptors",
    "DiskThreads": "quorate.runtime.real.disk_threads",
    "give_back_freed_memory": "quorate.runtime.real.freed_memory",
    "short_collections": "quorate.runtime.real.garbage",
    "LoopThread": "quorate.runtime.real.loop_thread",
    "Mailbox": "quorate.runtime.real.loop_thread",
    "PatchedThreadsError": "quorate.runtime.real.loop_thread",
    "ShortCall": "quorate.runtime.real.loop_thread",
    "TaskCall": "quorate.runtime.real.loop_thread",
    "open_read_only": "quorate.runtime.real.read_only_file",
    "RealDisk": "quorate.runtime.real.real_disk",
    "RealFile": "quorate.runtime.real.real_disk",
    "SyncStrategy": "quorate.runtime.real.real_disk",
    "RealNetwork": "quorate.runtime.real.real_network",
    "TcpStream": "quorate.runtime.real.tcp",
    "TlsNetwork": "quorate.runtime.real.tls_network",
    "TlsStream": "quorate.runtime.real.tls_network",
    "ExpiryLog": "quorate.runtime.real.tls_watch",
    "TlsWatch": "quorate.runtime.real.tls_watch",
    "RealWallClock": "quorate.runtime.real.host_runtime",
    "real_runtime": "quorate.runtime.real.host_runtime",
    "watch_slow_steps": "quorate.runtime.real.slow_steps",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "ChildProcess",
    "DiskThreads",
    "ExpiryLog",
    "LoopThread",
    "Mailbox",
    "PatchedThreadsError",
    "RealDisk",
    "RealFile",
    "RealNetwork",
    "RealWallClock",
    "ShortCall",
    "SyncStrategy",
    "TaskCall",
    "TcpStream",
    "TlsNetwork",
    "TlsStream",
    "TlsWatch",
    "give_back_freed_memory",
    "inherited_stream",
    "is_orphan",
    "open_read_only",
    "raise_soft_limit",
    "real_runtime",
    "short_collections",
    "watch_slow_steps",
]
