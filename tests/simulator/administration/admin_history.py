"""The history of administrative calls against the committed metadata, checked while it grows.

A granted call is visible in the image at some time between the call and the answer. A refused call has
changed nothing: each change that only an administrator can cause has a call that was not refused.
A call without an answer may have had its effect, may have it later, or never.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Config, ConfigType, FeatureLevel, Record
from quorate.broker.metadata.supported_features import LATEST_METADATA_VERSION, METADATA_VERSION
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_changes import AdminChange, ChangeReader
from tests.simulator.administration.intents import Intent


class Answer(enum.Enum):
    DONE = "done"
    ALREADY = "already so"
    """Refused because there was nothing to do, perhaps after an earlier attempt of the broker: the image was
    as requested, by any call."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """No answer, or one that does not tell."""


@dataclass(slots=True, eq=False)
class AdminCall:
    client: str
    intent: Intent
    seen: bool
    """The image was as the call wants it, at some time since it was made."""
    answer: Answer | None = None
    may_have_caused: list[AdminChange] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.client}: {self.intent.what}"


class AdminHistory:
    """Methods raise `SafetyViolation`. `owned`: whether all changes of the topic of that name come from calls
    of this history; other topics have other administrators."""

    def __init__(self, *, owned: Callable[[str], bool]) -> None:
        self._owned = owned
        self._image = MetadataImage()
        self._reader = ChangeReader()
        self._calls: list[AdminCall] = []
        self._open: list[AdminCall] = []
        self.counts: dict[Answer, int] = {}

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self._image

    def invoke(self, client: str, intent: Intent) -> AdminCall:
        call = AdminCall(client, intent, seen=intent.holds(self._image))
        self._calls.append(call)
        self._open.append(call)
        return call

    def answered(self, call: AdminCall, answer: Answer) -> None:
        self._open.remove(call)
        call.answer = answer
        self.counts[answer] = self.counts.get(answer, 0) + 1
        if answer in (Answer.DONE, Answer.ALREADY) and not call.seen:
            raise SafetyViolation(
                f"AnsweredIsInTheImage: {call} was answered with {answer.value!r}, and no committed image "
                "from the call to the answer shows it"
            )
        if answer is Answer.REFUSED:
            self._calls.remove(call)
            for change in call.may_have_caused:
                self._explain(change)

    def committed(self, records: Sequence[Record], image: MetadataImage) -> None:
        """Take records that became visible together, and the image with them."""
        self._image = image
        for call in self._open:
            call.seen = call.seen or call.intent.holds(image)
        for change in self._reader.read(records, image):
            if self._has_a_cause_among_calls(change):
                self._explain(change)

    def _has_a_cause_among_calls(self, change: AdminChange) -> bool:
        match change.record:
            case FeatureLevel(name=name, level=level):
                # A new cluster's controller sets it.
                return (name, level) != (METADATA_VERSION, LATEST_METADATA_VERSION)
            case Config(resource_type=ConfigType.TOPIC, resource_name=name):
                return self._owned(name)
            case _:
                return change.topic is None or self._owned(change.topic)

    def _explain(self, change: AdminChange) -> None:
        causes = [call for call in self._calls if call.intent.explains(change)]
        if not causes:
            raise SafetyViolation(
                f"RefusedIsNotInTheImage: {change} was committed, and no call that asked for it was granted"
            )
        for call in causes:
            if call.answer is None:
                call.may_have_caused.append(change)
