"""The `meta.properties` file: the identity of a directory (Kafka's version 1)."""

import uuid
from dataclasses import dataclass

from quorate.quorum_state.parameter_names import SERVER, ParameterNames
from quorate.quorum_state.quorum_state_errors import (
    ForeignStateError,
    MissingStateError,
    UnknownVersionError,
    UnreadableStateError,
)
from quorate.runtime import Disk, parse_uuid, read_file, uuid_text, write_file_atomically

META_PROPERTIES = "meta.properties"
"""The name of the file with the identity of a directory."""
_NODE_ID_DIGITS = 10
"""The most digits of a node id. `int` refuses thousands of them."""
_RESTORE = "Restore it: version=1 and the cluster.id, node.id and directory.id that the other nodes know."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a directory: cluster, node and directory id. Formatting writes it once."""

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID

    def check(
        self,
        folder: str,
        *,
        cluster_id: str | None = None,
        node_id: int | None = None,
        names: ParameterNames = SERVER,
    ) -> None:
        """Check that the directory belongs to this cluster and node. None: any. Raises
        `ForeignStateError`."""
        path = f"{folder}/{META_PROPERTIES}"
        if cluster_id is not None and cluster_id != self.cluster_id:
            raise ForeignStateError(
                path,
                f"the directory belongs to cluster {self.cluster_id}, not {cluster_id}",
                f"Point {names.folder} at the right directory, or format an empty one for this cluster.",
            )
        if node_id is not None and node_id != self.node_id:
            raise ForeignStateError(
                path,
                f"the directory belongs to node {self.node_id}, not {node_id}",
                f"Correct {names.node_id}, or point {names.folder} at this node's directory.",
            )


def load_meta_properties(disk: Disk, folder: str, *, names: ParameterNames = SERVER) -> MetaProperties:
    """Read the identity of a directory. Raises `MissingStateError` if it is not formatted, or another
    `QuorumStateError`."""
    path = f"{folder}/{META_PROPERTIES}"
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        raise MissingStateError(
            path,
            "the directory is not formatted",
            f"Format a new node's directory with {names.format_command}; if it has data, " + _RESTORE.lower(),
        ) from None
    properties = _parse_properties(path, data)

    def value_of(key: str) -> str:
        if not properties.get(key):
            raise UnreadableStateError(path, f"{key} is missing", _RESTORE)
        return properties[key]

    version = value_of("version")
    if version != "1":
        raise UnknownVersionError(
            path,
            f"version is {version}, this quorate knows 1",
            "Start the version that wrote it, or a newer one.",
        )
    node = value_of("node.id")
    if not (node.isascii() and node.isdigit() and len(node) <= _NODE_ID_DIGITS and int(node) < 2**31):
        raise UnreadableStateError(path, f"node.id is {node!r}, not a number below 2**31", _RESTORE)
    try:
        directory = parse_uuid(value_of("directory.id"))
    except ValueError as error:
        raise UnreadableStateError(path, f"directory.id: {error}", _RESTORE) from error
    return MetaProperties(cluster_id=value_of("cluster.id"), node_id=int(node), directory_id=directory)


async def store_meta_properties(disk: Disk, folder: str, properties: MetaProperties) -> None:
    """Write the identity of a directory. It is durable when this returns. Raises `DiskError`."""
    lines = [
        "#",
        "version=1",
        f"cluster.id={properties.cluster_id}",
        f"node.id={properties.node_id}",
        f"directory.id={uuid_text(properties.directory_id)}",
        "",
    ]
    await write_file_atomically(disk, f"{folder}/{META_PROPERTIES}", "\n".join(lines).encode())


def _parse_properties(path: str, data: bytes) -> dict[str, str]:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise UnreadableStateError(path, f"byte {error.start} is not text", _RESTORE) from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key, separator, value = line.partition("=")
        if not separator or key.strip() in properties:
            raise UnreadableStateError(path, f"line {number} is {line!r}, not a new key=value", _RESTORE)
        properties[key.strip()] = value.strip()
    return properties
