"""The operations that only administrators ask for, from the request to the answer: each is a pure function of
`operations`, performed in portions of its items."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from operator import attrgetter

from quorate.broker.controller.chores import LOOKS_PER_CHANGE
from quorate.broker.controller.operations import (
    MAX_NEW_PARTITIONS,
    Outcome,
    additional,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    delete_topics,
    elect_leaders,
    entities_asked,
    partitions_of,
    shrink_topics,
    surplus,
    update_features,
)
from quorate.broker.controller.performing import Performs
from quorate.broker.controller.portions import joined, joined_once
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ControllerRequest,
    ControllerResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FewerPartitions,
    MorePartitions,
    ShrinkTopicsRequest,
    ShrinkTopicsResponse,
    TopicRef,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from quorate.broker.controller.tenure import leadership_lost
from quorate.broker.metadata import ConfigResource, MetadataImage, PartitionKey
from quorate.runtime import Steps, at_once


class Administration:
    """`operations`: by the type of their request."""

    def __init__(self, controller: Performs) -> None:
        self._controller = controller
        self.operations: Mapping[
            type[ControllerRequest[ControllerResponse]], Callable[..., Awaitable[ControllerResponse]]
        ] = {
            AlterClientQuotasRequest: self._alter_client_quotas,
            AlterConfigsRequest: self._alter_configs,
            AlterPartitionReassignmentsRequest: self._alter_partition_reassignments,
            CreatePartitionsRequest: self._create_partitions,
            DeleteTopicsRequest: self._delete_topics,
            ElectLeadersRequest: self._elect_leaders,
            ShrinkTopicsRequest: self._shrink_topics,
            UpdateFeaturesRequest: self._update_features,
        }

    async def _delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        asked = Counter(request.topics)
        quota = self._controller.mutations.of(request.who)

        def cost(ref: TopicRef) -> int:
            # A partition that goes costs less than one that changes.
            image = self._controller.image
            return 1 if image is None else 1 + partitions_of(image, ref) // LOOKS_PER_CHANGE

        answers = await self._controller.perform_portions(
            request.topics,
            lambda part, image: delete_topics(
                image, replace(request, topics=part), asked=asked, charge=quota.charge
            ),
            DeleteTopicsResponse,
            cost=cost,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name", "topic_id")),
            throttle_ms=quota.throttle_ms,
        )

    async def _create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        asked = Counter(topic.name for topic in request.topics)
        quota = self._controller.mutations.of(request.who)

        def steps(
            part: tuple[MorePartitions, ...], image: MetadataImage
        ) -> Steps[Outcome[CreatePartitionsResponse]]:
            return create_partitions(
                image,
                replace(request, topics=part),
                asked=asked,
                too_many=total > MAX_NEW_PARTITIONS,
                charge=quota.charge,
            )

        def new(item: MorePartitions) -> int:
            image = self._controller.image
            return 0 if image is None else additional(image, item)

        def cost(item: MorePartitions) -> int:
            return max(1, new(item))

        total = sum(map(new, request.topics))
        answers = await self._controller.perform_portions(
            request.topics,
            lambda part, image: at_once(steps(part, image)),
            CreatePartitionsResponse,
            cost=cost,
            steps=steps,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name")),
            throttle_ms=quota.throttle_ms,
        )

    async def _shrink_topics(self, request: ShrinkTopicsRequest) -> ShrinkTopicsResponse:
        asked = Counter(topic.name for topic in request.topics)

        def cost(item: FewerPartitions) -> int:
            image = self._controller.image
            return 1 if image is None else 1 + surplus(image, item) // LOOKS_PER_CHANGE

        answers = await self._controller.perform_portions(
            request.topics,
            lambda part, image: shrink_topics(image, replace(request, topics=part), asked=asked),
            ShrinkTopicsResponse,
            cost=cost,
        )
        return replace(answers[-1], topics=joined_once((each.topics for each in answers), attrgetter("name")))

    async def _alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        asked = entities_asked(request)
        answers = await self._controller.perform_portions(
            request.alterations,
            lambda part, image: alter_client_quotas(image, replace(request, alterations=part), asked=asked),
            AlterClientQuotasResponse,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        seen: set[PartitionKey] = set()
        answers = await self._controller.perform_portions(
            request.partitions,
            lambda part, image: elect_leaders(
                image, replace(request, partitions=part), static=self._controller.settings.static, seen=seen
            ),
            ElectLeadersResponse,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        return await self._controller.perform_on_image(
            lambda image: update_features(image, request), UpdateFeaturesResponse
        )

    async def _alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answered when what the settings make necessary is done: until then leaders may commit nothing."""
        seen: set[ConfigResource] = set()
        answers = await self._controller.perform_portions(
            request.resources,
            lambda part, image: alter_configs(image, replace(request, resources=part), seen=seen),
            AlterConfigsResponse,
            cost=lambda item: max(1, len(item.alterations)),
        )
        if not answers[-1].error and not await self._controller.settled():
            return leadership_lost(AlterConfigsResponse, wrote=True)
        image = self._controller.image
        return replace(
            answers[-1],
            resources=joined(each.resources for each in answers),
            metadata_offset=-1 if image is None else image.offset,
        )

    async def _alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Answered when it has begun: what ends it is the ISR."""
        seen: set[PartitionKey] = set()
        answers = await self._controller.perform_portions(
            request.partitions,
            lambda part, image: alter_partition_reassignments(
                image, replace(request, partitions=part), static=self._controller.settings.static, seen=seen
            ),
            AlterPartitionReassignmentsResponse,
        )
        return replace(answers[-1], partitions=joined(each.partitions for each in answers))
