"""The check of records by the user's state machine, before the append."""

from collections.abc import Callable, Sequence

from quorate.raft.quorum_errors import InvalidAppendError
from quorate.raft.state_machine.interface import StateMachine

Check = Callable[[Sequence[bytes]], None]


def record_check(state_machine: StateMachine[object]) -> Check | None:
    """Return the state machine's `check`, with `InvalidAppendError` in place of every error that it raises.
    None: it has no `check`, and takes all records."""
    check = getattr(state_machine, "check", None)
    if check is None:
        return None

    def refusing(records: Sequence[bytes]) -> None:
        try:
            returned = check(records)
        except InvalidAppendError:
            raise  # of a state machine within this one
        except Exception as error:
            raise InvalidAppendError(
                f"the state machine refuses the records: {type(error).__name__}: {error}"
            ) from error
        if returned is not None:
            # A predicate, most likely: its False must not pass for consent.
            raise InvalidAppendError(
                f"the state machine's check returned {returned!r}; it must return None for records that may "
                "be appended, and raise otherwise"
            )

    return refusing
