"""The snapshots of a live cluster. Its controllers have them, and serve them in the quorum's own protocol.

Each call is a trio run of its own, which raises `LogUnavailableError`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import trio

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.controllers import Controllers
from quorate.broker.admin.quorum import controllers_of
from quorate.broker.wire.wire_errors import KafkaError
from quorate.error_code import ErrorCode
from quorate.history.history_errors import LogUnavailableError
from quorate.history.metadata_history import CLIENT_ID, StoredSnapshot
from quorate.kafka_bytes.varints import MalformedError
from quorate.raft import OutcomeUnknownError, RequestRefusedError
from quorate.runtime import Address, Network, NetworkError
from quorate.types import SnapshotId

_FAILURES = (NetworkError, KafkaError, MalformedError, OutcomeUnknownError, RequestRefusedError)


def find_snapshots(
    network: Network, servers: Sequence[Address], *, controllers: bool, timeout_ms: int
) -> list[tuple[StoredSnapshot, Address]]:
    """Return the snapshots of all controllers that answer, each with its holder. `controllers`: the servers
    are controllers, and not brokers."""

    async def find() -> list[tuple[StoredSnapshot, Address]]:
        addresses = servers if controllers else await _ask_brokers(network, servers, timeout_ms=timeout_ms)
        listed = await Controllers(network, addresses, timeout_ms=timeout_ms).list_snapshots()
        return [
            (StoredSnapshot(each.snapshot, each.last_timestamp_ms), holder)
            for holder, snapshots in listed.items()
            for each in snapshots
        ]

    try:
        return trio.run(find)
    except _FAILURES as error:
        raise LogUnavailableError(str(error)) from error


async def _ask_brokers(network: Network, servers: Sequence[Address], *, timeout_ms: int) -> list[Address]:
    async with open_admin(
        network, servers, client_id=CLIENT_ID, connect_timeout_s=timeout_ms / 1000
    ) as admin:
        return await controllers_of(admin)


def download_snapshot(
    network: Network, holders: Iterable[Address], snapshot: SnapshotId, file: Path, *, timeout_ms: int
) -> None:
    """Write the snapshot to `file`, from the first of its holders that still has it."""
    problems: list[str] = []
    for holder in holders:
        controllers = Controllers(network, [holder], timeout_ms=timeout_ms)
        try:
            with file.open("wb") as opened:
                trio.run(controllers.read_snapshot, holder, snapshot, opened.write)
        except RequestRefusedError as error:
            gone = error.code is ErrorCode.SNAPSHOT_NOT_FOUND
            problems.append(f"{holder} has deleted it" if gone else f"{holder}: {error}")
        except _FAILURES as error:
            problems.append(str(error))
        else:
            return
    raise LogUnavailableError(
        f"the snapshot at {snapshot.end_offset} can't be read: "
        f"{'; '.join(problems) or 'no controller that answers has it'}. Try again"
    )
