"""The controller of one node: which request is which operation, and when this node carries them out."""

from typing import Final, TypeVar, cast

import trio

from quorate.broker.access.asker import Asker
from quorate.broker.access.sealing import Sealer
from quorate.broker.access.standard_authorizer import configured_authorizer
from quorate.broker.controller.administration import Administration
from quorate.broker.controller.broker_requests import BrokerRequests
from quorate.broker.controller.broker_tending import BrokerTending
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.controller_telemetry import ControllerTelemetry, NoControllerTelemetry
from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.liveness.broker_watch import BrokerWatch
from quorate.broker.controller.metadata_log import MetadataLog
from quorate.broker.controller.performer import Operations, Performer
from quorate.broker.controller.permits import DeniedError, Permit, check_caller
from quorate.broker.controller.rpc import BrokerHeartbeatRequest, ControllerRequest, ControllerResponse
from quorate.broker.controller.rpc_codec import Refusal, RpcDecodeError, decode_asked, encode_response
from quorate.broker.controller.tenure import Tenure
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.image import MetadataImage
from quorate.error_code import ErrorCode
from quorate.raft import Caller, HeardLeader
from quorate.runtime import Entropy, WallClock, get_logger
from quorate.types import Epoch

log = get_logger(__name__)

_NO_ACLS: Final = AclIndex()

R = TypeVar("R", bound=ControllerResponse)


class Controller:
    """The controller of one node. It answers NOT_CONTROLLER before `activate` and after `deactivate`. All
    methods belong to one trio run. A cancelled request may have taken effect."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        *,
        settings: ControllerSettings,
        entropy: Entropy,
        telemetry: ControllerTelemetry | None = None,
        watch: BrokerWatch | None = None,
        wall_clock: WallClock | None = None,
        progress: BrokerProgress | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        """`watch`: finds brokers whose process has ended; without one they are fenced when their session runs
        out. `wall_clock`: for records that say when a broker was last heard; without one they don't.
        `sealer`: seals users' keys; without one the log has them as they are."""
        telemetry = telemetry or NoControllerTelemetry()
        progress = progress or BrokerProgress()
        self.settings = settings
        self._watch = watch
        self.performer = Performer(
            metadata_log, settings=settings, telemetry=telemetry, wall_clock=wall_clock, progress=progress
        )
        self._authorizer = configured_authorizer(settings.authorizer, self._acls)
        self._tending = BrokerTending(self.performer, telemetry=telemetry, watch=watch, progress=progress)
        self.operations: Operations = {
            **BrokerRequests(self.performer, progress=progress, wall_clock=wall_clock).operations,
            **Administration(self.performer, entropy=entropy, sealer=sealer).operations,
        }

    @property
    def active(self) -> bool:
        """True if this node is the active controller."""
        return self.tenure is not None

    @property
    def tenure(self) -> Tenure | None:
        """The state of this node as the active controller. None on every other node."""
        return self.performer.tenure

    @property
    def image(self) -> MetadataImage | None:
        """The image that the next operation uses. On the active controller it is ahead of the committed
        image."""
        return self.performer.image

    def _acls(self) -> AclIndex:
        image = self.image
        # Without a tenure every request is refused, whoever asks.
        return _NO_ACLS if image is None else image.acls

    def activate(
        self,
        image: MetadataImage,
        *,
        epoch: Epoch,
        in_transaction: bool = False,
        predecessor: HeardLeader | None = None,
    ) -> None:
        """Begin to answer as leader of `epoch`. `image`: a copy of the committed image with all records of
        earlier epochs; the controller owns it from here on. `run` finishes the chores of an earlier
        controller, but a transaction that it left open (`in_transaction`) is aborted. `predecessor`: the
        leader of the quorum before, as this node heard it. If its broker sends no heartbeat before it is
        fenced, the record has that time."""
        self.performer.begin(image, epoch=epoch, in_transaction=in_transaction, predecessor=predecessor)
        if self._watch is not None:
            self._watch.hurry()

    def deactivate(self) -> None:
        """Stop answering, and forget uncommitted changes. Requests that wait for a commit are answered
        when the quorum reports the lost leadership."""
        self.performer.end()

    async def run(self) -> None:
        """Fence silent brokers, elect preferred leaders, and finish the chores of operations. Runs until
        cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.performer.run)
            await self._tending.run()

    async def answer(self, request: ControllerRequest[R], asker: Asker | None = None) -> R:
        """Carry out `request`. Return its answer when every change that it depends on is committed. `asker`:
        the client for whom a node asks; what it may do is checked by the image that each change is made
        from."""
        permit = Permit(cast(ControllerRequest[ControllerResponse], request), asker, self._authorizer)
        return cast(R, await self.operations[type(request)](request, permit))

    async def answer_encoded(self, payload: bytes, caller: Caller | None = None) -> bytes:
        """Do the same as `answer` for another node's bytes. A `Refusal` if `payload` is no request, or one in
        the name of another node than the caller's certificate."""
        try:
            request, asker = decode_asked(payload)
        except RpcDecodeError as error:
            log.warning("refused a request to the controller", size=len(payload), reason=str(error))
            return encode_response(Refusal(error=ErrorCode.INVALID_REQUEST, error_message=str(error)[:1000]))
        try:
            check_caller(request, asker, None if caller is None else caller.proven)
        except DeniedError as denied:
            log.warning(
                "refused a request to the controller", request=type(request).__name__, reason=str(denied)
            )
            return encode_response(Refusal(error=denied.code, error_message=str(denied)))
        if isinstance(request, BrokerHeartbeatRequest) and self._watch is not None:
            self._watch.heard(request.broker_id, request.broker_epoch, caller)
        return encode_response(await self.answer(request, asker))
