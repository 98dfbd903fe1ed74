"""DescribeDamage (ours): what of this broker's replicas is damaged, and which logs were set aside."""

from collections.abc import Iterable, Iterator

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.broker.wire.codecs import DescribeDamageRequest
from quorate.log import DamagedRange

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: DescribeDamageRequest) -> Answer:
    """Describe the damage that is known."""
    return broker.later(lambda: _describe(broker, context))


async def _describe(broker: Broker, context: RequestContext) -> Response:
    return await encoded_in_slices(
        context,
        error_code=ErrorCode.none,
        damaged=_damaged(await broker.replicas.damage.damages()),
        set_aside=({"path": each.path} for each in broker.replicas.damage.set_aside()),
    )


def _damaged(damages: Iterable[tuple[str, int, DamagedRange | str]]) -> Iterator[_Fields]:
    for topic, partition_id, found in damages:
        fields: _Fields = {"topic_name": topic, "partition_index": partition_id}
        if isinstance(found, str):
            nowhere = {"segment": None, "position": -1, "start_offset": -1, "end_offset": -1}
            yield fields | nowhere | {"problem": found}
        else:
            yield fields | {
                "segment": found.path,
                "position": found.position,
                "start_offset": found.start_offset,
                "end_offset": found.end_offset,
                "problem": found.problem,
            }
