"""A Fetch that found nothing, for when the same connection asks the same again: neither what it asks nor its
answer is put together anew.

A consumer that waits for records does so for most of its life. What changes in its partitions meanwhile
ends this: the request is then handled as any other.
"""

from collections.abc import Awaitable, Callable

from quorate.broker.apis.context import Broker
from quorate.broker.replication import FetchOptions
from quorate.broker.replication.serving import ParkedFetch, QuietRead
from quorate.broker.wire import Deferred, EncodedResponse, Response
from quorate.broker.wire.codecs import KafkaFetchRequest


class FetchAgain:
    """Kept with the connection (`ConnectionContext.kept`)."""

    __slots__ = ("_answer", "_finish", "_options", "_quiet", "request")

    def __init__(
        self,
        request: KafkaFetchRequest,
        options: FetchOptions,
        quiet: QuietRead,
        *,
        answer: EncodedResponse,
        finish: Callable[[ParkedFetch], Awaitable[Response]],
    ) -> None:
        """`answer`: that of `quiet`. `finish`: puts another one together."""
        self.request = request
        self._options = options
        self._quiet = quiet
        self._answer = answer
        self._finish = finish

    def begin(self, broker: Broker) -> Deferred | None:
        """Begin it again. None if it may find something now, or is to be throttled."""
        if broker.image.has_quotas:
            return None
        parked = broker.replicas.fetches.begin_again(self._options, self._quiet)
        return None if parked is None else self._deferred(parked)

    def _deferred(self, parked: ParkedFetch) -> Deferred:
        deferred = Deferred(parked.abandon)

        def answer() -> None:
            if deferred.abandoned:
                return
            if parked.expired and self._quiet.holds():
                deferred.complete(self._answer)
            else:
                deferred.complete_with(lambda: self._finish(parked))

        parked.notify(answer)
        return deferred
