"""Opens the directories of `log.dirs`: locks each, checks its owner, and gives a new one its id (KIP-858)."""

import uuid
from collections.abc import Callable, Sequence

from quorate.broker.replication.storage.log_directory import BadDirectory, Directory
from quorate.quorum_state import (
    MetaProperties,
    MissingStateError,
    load_meta_properties,
    store_meta_properties,
)
from quorate.runtime import (
    DescriptorsExhaustedError,
    DiskError,
    DiskLockedError,
    Runtime,
    get_logger,
    uuid_text,
)

log = get_logger(__name__)


class SameDirectoryError(Exception):
    """Two entries of `log.dirs` are the same directory: mounted twice, linked or copied."""

    def __init__(self, first: str, second: str, directory: uuid.UUID) -> None:
        super().__init__(
            f"{first} and {second} in log.dirs are both directory {uuid_text(directory)} (directory.id in "
            f"meta.properties): one is mounted twice, or is a copy of the other. Take one of them out of "
            "log.dirs; keep the one that this node used last"
        )


async def open_directories(
    runtime: Runtime,
    paths: Sequence[str],
    *,
    cluster_id: str,
    node_id: int,
    metadata_dir: str | None,
    lock: Callable[[str], None],
) -> list[Directory | BadDirectory]:
    """The folders in `paths`, those that can't be used as `BadDirectory`.

    `lock` takes a folder's lock, or raises `DiskLockedError`; it is not asked for `metadata_dir`, which the
    quorum has locked. Raises `SameDirectoryError`, and `QuorumStateError` for a folder of another cluster or
    node, or with a `meta.properties` that can't be understood.
    """
    found: list[Directory | BadDirectory] = []
    by_id: dict[uuid.UUID, str] = {}
    for path in paths:
        holds_metadata = path == metadata_dir
        try:
            runtime.disk.make_folder(path)
            meta = _known(runtime, path)
            if meta is not None:
                meta.check(path, cluster_id=cluster_id, node_id=node_id)
                # Before the lock, which would find itself taken and blame another process.
                first = by_id.setdefault(meta.directory_id, path)
                if first != path:
                    raise SameDirectoryError(first, path, meta.directory_id)
            if not holds_metadata:
                lock(path)
            if meta is None:
                meta = MetaProperties(
                    cluster_id=cluster_id, node_id=node_id, directory_id=runtime.entropy.uuid()
                )
                await store_meta_properties(runtime.disk, path, meta)
                by_id[meta.directory_id] = path
                log.info("a new log directory", path=path, directory_id=uuid_text(meta.directory_id))
        except (DiskLockedError, DescriptorsExhaustedError):
            raise
        except DiskError as error:
            if holds_metadata:
                raise
            found.append(BadDirectory(path=path, reason=str(error)))
        else:
            found.append(Directory(path=path, id=meta.directory_id, holds_metadata=holds_metadata))
    return found


def _known(runtime: Runtime, path: str) -> MetaProperties | None:
    try:
        return load_meta_properties(runtime.disk, path)
    except MissingStateError:
        return None
