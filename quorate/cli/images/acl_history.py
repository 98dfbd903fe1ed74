"""Since when a decision is what it is: the metadata log, walked from its beginning."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import Acl
from quorate.cli.images.replay import Moment, Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The last change of a decision."""

    place: str
    """The place of the history."""
    first_offset: int
    """The first record of the batch that changed it, or of all that is there if nothing did."""
    timestamp_ms: int | None
    """The time of its last record. None: unknown."""
    changed: bool
    """False: it has been the same since the beginning of the history."""
    added: Sequence[Acl] = ()
    removed: Sequence[Acl] = ()
    """The ACLs of that batch that are about the decision."""


def since(
    replay: Replay,
    moment: Moment,
    *,
    allows: Callable[[AclIndex], bool],
    about: Callable[[AclIndex], Iterable[Acl]],
) -> Since:
    """Walk to `moment`, and return since when the decision is the one of then. `replay`: not moved yet.
    `about`: the ACLs that the decision may be made by. Raises as `Replay.move_to`."""
    replay.move_to_earliest()
    held = _held(replay, about)
    allowed = allows(replay.image.acls)
    version = replay.image.acls.version
    found = Since(
        place=replay.place, first_offset=replay.end_offset, timestamp_ms=replay.timestamp_ms, changed=False
    )
    start = replay.end_offset
    for _ in replay.walk_to(moment):
        acls = replay.image.acls
        if acls.version is not version:
            version, before, held = acls.version, held, _held(replay, about)
            if allows(acls) is not allowed:
                allowed = not allowed
                found = Since(
                    place=replay.place,
                    first_offset=start,
                    timestamp_ms=replay.timestamp_ms,
                    changed=True,
                    added=[each for each in held if each not in before],
                    removed=[each for each in before if each not in held],
                )
        start = replay.end_offset
    return found


def _held(replay: Replay, about: Callable[[AclIndex], Iterable[Acl]]) -> dict[Acl, None]:
    return dict.fromkeys(about(replay.image.acls))
