"""Whether what the clients saw is what one log could have told them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorate.simulation import UNKNOWN, Operation, Verdict, check_history, models


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a client: an append (`value`), or a read (`values`). `returned_at` is None if the outcome is
    unknown."""

    client: str
    key: str
    value: str | None
    values: tuple[str, ...]
    invoked_at: float
    returned_at: float | None
    offset: int | None


def load(files: Iterable[Path]) -> list[Call]:
    calls = []
    for file in files:
        for line in file.read_text().splitlines():
            kind, key, value, invoked_at, returned_at, offset = json.loads(line)
            calls.append(
                Call(
                    client=file.stem,
                    key=key,
                    value=value if kind == "append" else None,
                    values=() if kind == "append" else tuple(value),
                    invoked_at=invoked_at,
                    returned_at=returned_at,
                    offset=offset,
                )
            )
    return calls


def problems(calls: Sequence[Call], at_last: Mapping[str, tuple[str, ...]], *, ended_at: float) -> list[str]:
    """Return the problems: appends acknowledged and lost, doubled or invented, and lists that are not
    linearizable. `at_last`: all lists, as read from `ended_at` on."""
    by_key: dict[str, list[Call]] = {key: [] for key in at_last}
    for call in calls:
        by_key.setdefault(call.key, []).append(call)
    found = []
    for key, of_key in by_key.items():
        found += _of_one_list(key, of_key, at_last.get(key, ()), ended_at)
    return found


def _of_one_list(key: str, calls: Sequence[Call], at_last: tuple[str, ...], ended_at: float) -> list[str]:
    there = dict.fromkeys(at_last)
    found = []
    if len(there) < len(at_last):
        found.append(f"list {key} has values twice: {at_last}")
    asked = {call.value for call in calls if call.value is not None}
    strange = [value for value in at_last if value not in asked]
    if strange:
        found.append(f"list {key} has what nobody appended: {strange}")
    lost = [
        call
        for call in calls
        if call.value is not None and call.offset is not None and call.value not in there
    ]
    if lost:
        found.append(f"acknowledged and lost: {lost}")
    operations: list[Operation[models.Read | models.Append, object]] = [
        Operation(
            client="at last",
            request=models.Read(),
            answer=at_last,
            invoked_at=ended_at,
            returned_at=ended_at + 1,
        )
    ]
    for call in calls:
        if call.value is None:
            assert call.returned_at is not None
            operations.append(
                Operation(
                    client=call.client,
                    request=models.Read(),
                    answer=call.values,
                    invoked_at=call.invoked_at,
                    returned_at=call.returned_at,
                )
            )
        elif call.returned_at is not None or call.value in there:
            # One of unknown outcome that is not there at last never took effect.
            operations.append(
                Operation(
                    client=call.client,
                    request=models.Append(call.value),
                    answer=UNKNOWN if call.offset is None else call.offset,
                    invoked_at=call.invoked_at,
                    returned_at=math.inf if call.returned_at is None else call.returned_at,
                )
            )
    report = check_history(models.AppendLog(), operations)
    if report.verdict is not Verdict.LINEARIZABLE:
        found.append(f"list {key}: {report}")
    return found
