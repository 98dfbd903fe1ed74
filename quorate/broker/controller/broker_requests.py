"""The requests of brokers to the active controller.

Each is a pure function of `operations`, with the sessions that the controller keeps.
"""

from dataclasses import replace

import trio

from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.operations.brokers import heartbeat, register_broker, unregister_broker
from quorate.broker.controller.operations.directory_changes import assign_replicas_to_dirs
from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.producer_id_blocks import allocate_producer_ids
from quorate.broker.controller.performer import Operations, Performer
from quorate.broker.controller.permits import Permit
from quorate.broker.controller.portions import joined
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.tenure import Tenure
from quorate.broker.metadata.states import PartitionKey
from quorate.error_code import ErrorCode
from quorate.runtime import WallClock, get_logger

log = get_logger(__name__)


class BrokerRequests:
    """The operations of brokers. `operations`: by the type of their request."""

    def __init__(
        self,
        performer: Performer,
        *,
        progress: BrokerProgress,
        wall_clock: WallClock | None,
    ) -> None:
        self._performer = performer
        self._progress = progress
        self._wall_clock = wall_clock
        self.operations: Operations = {
            AllocateProducerIdsRequest: self._allocate_producer_ids,
            AlterPartitionRequest: self._alter_partition,
            AssignReplicasToDirsRequest: self._assign_replicas_to_dirs,
            BrokerHeartbeatRequest: self._heartbeat,
            RegisterBrokerRequest: self._register_broker,
            UnregisterBrokerRequest: self._unregister_broker,
        }

    async def _register_broker(
        self, request: RegisterBrokerRequest, permit: Permit
    ) -> RegisterBrokerResponse:
        def decide(active: Tenure, departed: int | None) -> Outcome[RegisterBrokerResponse]:
            now = trio.current_time()
            held = active.image.broker(request.broker_id)
            outcome = register_broker(
                active.image,
                request,
                cluster_id=self._performer.settings.cluster_id,
                live_session=held is not None
                and not held.fenced
                and active.sessions.live(request.broker_id, now=now),
                next_offset=self._performer.log.next_offset,
                departed=departed,
                last_heard_ms=active.sessions.last_heard_ms(request.broker_id, now=trio.current_time()),
            )
            registered = outcome.response
            if (
                outcome.first is None
                and registered.error is ErrorCode.NONE
                and (held is None or held.epoch != registered.broker_epoch)
            ):
                active.sessions.begin(request.broker_id, now=now, heard_at=now)
                log.info(
                    "broker registered",
                    broker_id=request.broker_id,
                    broker_epoch=registered.broker_epoch,
                    # Of the life before: whether it may have left records unsynced that are lost.
                    previous="none"
                    if held is None
                    else "complete"
                    if held.has_data_of(request.previous_broker_epoch)
                    else "may have lost records",
                )
            return outcome

        return await self._performer.perform(decide, RegisterBrokerResponse, permit=permit)

    async def _heartbeat(self, request: BrokerHeartbeatRequest, permit: Permit) -> BrokerHeartbeatResponse:
        active = self._performer.tenure
        if active is not None:
            # On arrival: it may have to wait for its turn.
            self._touch(active, request)

        def decide(active: Tenure, _: int | None) -> Outcome[BrokerHeartbeatResponse]:
            now = trio.current_time()
            held = active.image.broker(request.broker_id)
            sessions = active.sessions
            leaves = active.chores.leaves(request.broker_id)
            return_offset = -1
            if held is not None and held.fenced and not leaves:
                return_offset = sessions.return_offset(held.broker_id, offset=active.image.offset, now=now)
            return heartbeat(
                active.image,
                request,
                return_offset=return_offset,
                shutdown_offset=sessions.shutdown_offset(request.broker_id),
                lowest_active_offset=sessions.lowest_active_offset(active.image),
                leaves=leaves,
                now_ms=None if self._wall_clock is None else self._wall_clock.now_ms(),
            )

        def answer(active: Tenure, response: BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
            in_isrs = active.image.isr_count(request.broker_id) > 0
            held = active.image.broker(request.broker_id)
            if response.error is not ErrorCode.NONE or held is None:
                return response
            if response.should_shut_down:
                if in_isrs:
                    # Leaders wait for it until it has left: it may ask again.
                    return replace(response, should_shut_down=False)
                active.sessions.forget(request.broker_id)
            elif held.in_controlled_shutdown and not held.fenced and not in_isrs:
                # The last record there is: brokers report offsets of records.
                active.sessions.fix_shutdown_offset(
                    request.broker_id, offset=active.image.offset, now=trio.current_time()
                )
            return response

        return await self._performer.perform(decide, BrokerHeartbeatResponse, answer=answer, permit=permit)

    def _touch(self, active: Tenure, request: BrokerHeartbeatRequest) -> None:
        held = active.image.broker(request.broker_id)
        if held is not None and held.epoch == request.broker_epoch:
            active.sessions.touch(
                request.broker_id, now=trio.current_time(), metadata_offset=request.current_metadata_offset
            )
            self._progress.heard(request, now=trio.current_time())

    async def _unregister_broker(
        self, request: UnregisterBrokerRequest, permit: Permit
    ) -> UnregisterBrokerResponse:
        def decide(active: Tenure, departed: int | None) -> Outcome[UnregisterBrokerResponse]:
            outcome = unregister_broker(
                active.image,
                request,
                departed=departed,
                last_heard_ms=active.sessions.last_heard_ms(request.broker_id, now=trio.current_time()),
            )
            if outcome.first is None and outcome.response.error is ErrorCode.NONE:
                active.sessions.forget(request.broker_id)
            return outcome

        return await self._performer.perform(decide, UnregisterBrokerResponse, permit=permit)

    async def _alter_partition(
        self, request: AlterPartitionRequest, permit: Permit
    ) -> AlterPartitionResponse:
        seen: set[PartitionKey] = set()
        answers = await self._performer.perform_portions(
            request.partitions,
            lambda part, image: alter_partition(
                image, replace(request, partitions=part), static=self._performer.settings.static, seen=seen
            ),
            AlterPartitionResponse,
            permit=permit,
        )
        return replace(answers[-1], partitions=joined(each.partitions for each in answers))

    async def _assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, permit: Permit
    ) -> AssignReplicasToDirsResponse:
        seen: set[PartitionKey] = set()
        answers = await self._performer.perform_portions(
            request.assignments,
            lambda part, image: assign_replicas_to_dirs(
                image,
                replace(request, assignments=part),
                static=self._performer.settings.static,
                asked=len(request.assignments),
                seen=seen,
            ),
            AssignReplicasToDirsResponse,
            permit=permit,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, permit: Permit
    ) -> AllocateProducerIdsResponse:
        return await self._performer.perform_on_image(
            lambda image: allocate_producer_ids(image, request), AllocateProducerIdsResponse, permit=permit
        )
