"""The requests of administrators, from the request to the answer. Each is a pure function of `operations`,
performed in portions of its items."""

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import Final

from quorate.broker.access.sealing import SETTING, Sealer
from quorate.broker.controller.chores import LOOKS_PER_CHANGE
from quorate.broker.controller.operations.acls import create_acls, delete_acls, looks_of
from quorate.broker.controller.operations.alter_configs import alter_configs
from quorate.broker.controller.operations.client_quotas import alter_client_quotas, entities_asked
from quorate.broker.controller.operations.features import update_features
from quorate.broker.controller.operations.number_of_partitions import (
    additional,
    create_partitions,
    shrink_topics,
    surplus,
)
from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.reassignments import alter_partition_reassignments
from quorate.broker.controller.operations.requested_elections import elect_leaders
from quorate.broker.controller.operations.scram_credentials import alter_user_scram_credentials, seal_again
from quorate.broker.controller.operations.topic_lifecycle import (
    Draw,
    asks_too_much,
    create_topics,
    delete_topics,
    partitions_asked_for,
    partitions_of,
)
from quorate.broker.controller.operations.topic_limits import MAX_NEW_PARTITIONS
from quorate.broker.controller.performer import Operations, Performer, leadership_lost
from quorate.broker.controller.permits import DeniedError, Permit
from quorate.broker.controller.portions import joined, joined_once
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    MorePartitions,
    NewTopic,
    SealAgainRequest,
    SealAgainResponse,
    ShrinkTopicsRequest,
    ShrinkTopicsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import ConfigResource, PartitionKey
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy, Steps

_DRAW_LIMIT: Final = 1 << 30


class Administration:
    """The operations of administrators. `operations`: by the type of their request."""

    def __init__(self, performer: Performer, *, entropy: Entropy, sealer: Sealer | None = None) -> None:
        self._performer = performer
        self._entropy = entropy
        self._sealer = sealer
        self.operations: Operations = {
            AlterClientQuotasRequest: self._alter_client_quotas,
            AlterConfigsRequest: self._alter_configs,
            AlterPartitionReassignmentsRequest: self._alter_partition_reassignments,
            CreateAclsRequest: self._create_acls,
            AlterUserScramCredentialsRequest: self._alter_user_scram_credentials,
            CreatePartitionsRequest: self._create_partitions,
            CreateTopicsRequest: self._create_topics,
            DeleteAclsRequest: self._delete_acls,
            DeleteTopicsRequest: self._delete_topics,
            ElectLeadersRequest: self._elect_leaders,
            SealAgainRequest: self._seal_again,
            ShrinkTopicsRequest: self._shrink_topics,
            UpdateFeaturesRequest: self._update_features,
        }

    async def _create_topics(self, request: CreateTopicsRequest, permit: Permit) -> CreateTopicsResponse:
        defaults = self._performer.settings.topics
        asked = Counter(topic.name for topic in request.topics)
        too_many = asks_too_much(request, defaults)
        quota = self._performer.mutations.of(request.who)

        def decide(part: tuple[NewTopic, ...], image: MetadataImage) -> Steps[Outcome[CreateTopicsResponse]]:
            draws = [
                Draw(
                    topic_id=self._entropy.uuid(),
                    start=self._entropy.below(_DRAW_LIMIT),
                    shift=self._entropy.below(_DRAW_LIMIT),
                )
                for _ in part
            ]
            return create_topics(
                image,
                replace(request, topics=part),
                draws=draws,
                defaults=defaults,
                asked=asked,
                too_many=too_many,
                charge=quota.charge,
                check=permit.check_topic,
            )

        answers = await self._performer.perform_in_steps(
            request.topics,
            decide,
            CreateTopicsResponse,
            cost=lambda topic, _: 1 if too_many else partitions_asked_for(topic, defaults),
            permit=permit,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name")),
            throttle_ms=quota.throttle_ms,
        )

    async def _delete_topics(self, request: DeleteTopicsRequest, permit: Permit) -> DeleteTopicsResponse:
        asked = Counter(request.topics)
        quota = self._performer.mutations.of(request.who)

        answers = await self._performer.perform_portions(
            request.topics,
            lambda part, image: delete_topics(
                image,
                replace(request, topics=part),
                asked=asked,
                charge=quota.charge,
                check=permit.check_topic,
            ),
            DeleteTopicsResponse,
            # A deleted partition costs less than a changed one.
            cost=lambda ref, image: 1 + partitions_of(image, ref) // LOOKS_PER_CHANGE,
            permit=permit,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name", "topic_id")),
            throttle_ms=quota.throttle_ms,
        )

    async def _create_partitions(
        self, request: CreatePartitionsRequest, permit: Permit
    ) -> CreatePartitionsResponse:
        asked = Counter(topic.name for topic in request.topics)
        quota = self._performer.mutations.of(request.who)

        def decide(
            part: tuple[MorePartitions, ...], image: MetadataImage
        ) -> Steps[Outcome[CreatePartitionsResponse]]:
            return create_partitions(
                image,
                replace(request, topics=part),
                asked=asked,
                too_many=total > MAX_NEW_PARTITIONS,
                charge=quota.charge,
                check=permit.check_topic,
            )

        image = self._performer.image
        total = 0 if image is None else sum(additional(image, item) for item in request.topics)
        answers = await self._performer.perform_in_steps(
            request.topics,
            decide,
            CreatePartitionsResponse,
            cost=lambda item, image: max(1, additional(image, item)),
            permit=permit,
        )
        return replace(
            answers[-1],
            topics=joined_once((each.topics for each in answers), attrgetter("name")),
            throttle_ms=quota.throttle_ms,
        )

    async def _shrink_topics(self, request: ShrinkTopicsRequest, permit: Permit) -> ShrinkTopicsResponse:
        asked = Counter(topic.name for topic in request.topics)

        answers = await self._performer.perform_portions(
            request.topics,
            lambda part, image: shrink_topics(image, replace(request, topics=part), asked=asked),
            ShrinkTopicsResponse,
            cost=lambda item, image: 1 + surplus(image, item) // LOOKS_PER_CHANGE,
            permit=permit,
        )
        return replace(answers[-1], topics=joined_once((each.topics for each in answers), attrgetter("name")))

    async def _alter_client_quotas(
        self, request: AlterClientQuotasRequest, permit: Permit
    ) -> AlterClientQuotasResponse:
        asked = entities_asked(request)
        answers = await self._performer.perform_portions(
            request.alterations,
            lambda part, image: alter_client_quotas(image, replace(request, alterations=part), asked=asked),
            AlterClientQuotasResponse,
            permit=permit,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _create_acls(self, request: CreateAclsRequest, permit: Permit) -> CreateAclsResponse:
        answers = await self._performer.perform_portions(
            request.creations,
            lambda part, image: create_acls(
                image, replace(request, creations=part), ids=[self._entropy.uuid() for _ in part]
            ),
            CreateAclsResponse,
            permit=permit,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _delete_acls(self, request: DeleteAclsRequest, permit: Permit) -> DeleteAclsResponse:
        """Delete what the filters take, all by one image: an ACL is an answer to each filter that takes
        it."""
        (answer,) = await self._performer.perform_in_steps(
            (request,),
            lambda part, image: delete_acls(image, part[0]),
            DeleteAclsResponse,
            cost=lambda item, image: looks_of(image, item),
            permit=permit,
        )
        return answer

    async def _elect_leaders(self, request: ElectLeadersRequest, permit: Permit) -> ElectLeadersResponse:
        seen: set[PartitionKey] = set()
        answers = await self._performer.perform_portions(
            request.partitions,
            lambda part, image: elect_leaders(
                image, replace(request, partitions=part), static=self._performer.settings.static, seen=seen
            ),
            ElectLeadersResponse,
            permit=permit,
        )
        return replace(answers[-1], results=joined(each.results for each in answers))

    async def _alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, permit: Permit
    ) -> AlterUserScramCredentialsResponse:
        sealer = self._sealer
        if sealer is not None:
            sealer.read_again()
        return await self._performer.perform_on_image(
            lambda image: alter_user_scram_credentials(image, request, sealer=sealer),
            AlterUserScramCredentialsResponse,
            permit=permit,
        )

    async def _seal_again(self, request: SealAgainRequest, permit: Permit) -> SealAgainResponse:
        sealer, image = self._sealer, self._performer.image
        try:
            permit.check()
        except DeniedError as error:
            return SealAgainResponse(error=error.code, error_message=str(error))
        if sealer is None:
            return SealAgainResponse(
                error=ErrorCode.INVALID_CONFIG,
                error_message=f"The active controller has no key that seals; set {SETTING} there.",
            )
        sealer.read_again()
        held = () if image is None else image.scram_credentials()
        answers = await self._performer.perform_portions(
            [(each.name, each.mechanism) for each in held],
            lambda part, image: seal_again(image, part, sealer),
            SealAgainResponse,
            permit=permit,
        )
        return replace(
            answers[-1],
            sealed=sum(each.sealed for each in answers),
            kept=sum(each.kept for each in answers),
            unopened=sum(each.unopened for each in answers),
            missing_key=next((each.missing_key for each in answers if each.missing_key), ""),
        )

    async def _update_features(
        self, request: UpdateFeaturesRequest, permit: Permit
    ) -> UpdateFeaturesResponse:
        return await self._performer.perform_on_image(
            lambda image: update_features(image, request), UpdateFeaturesResponse, permit=permit
        )

    async def _alter_configs(self, request: AlterConfigsRequest, permit: Permit) -> AlterConfigsResponse:
        """Alter the settings. Answered when their consequences are done: until then leaders may commit
        nothing."""
        seen: set[ConfigResource] = set()
        answers = await self._performer.perform_portions(
            request.resources,
            lambda part, image: alter_configs(
                image, replace(request, resources=part), seen=seen, check=permit.check_configs
            ),
            AlterConfigsResponse,
            cost=lambda item, _: max(1, len(item.alterations)),
            permit=permit,
        )
        if not answers[-1].error and not await self._performer.settled():
            return leadership_lost(AlterConfigsResponse, wrote=True)
        image = self._performer.image
        return replace(
            answers[-1],
            resources=joined(each.resources for each in answers),
            metadata_offset=-1 if image is None else image.offset,
        )

    async def _alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, permit: Permit
    ) -> AlterPartitionReassignmentsResponse:
        """Begin the reassignments. Answered when they have begun: the ISR ends them."""
        seen: set[PartitionKey] = set()
        answers = await self._performer.perform_portions(
            request.partitions,
            lambda part, image: alter_partition_reassignments(
                image, replace(request, partitions=part), static=self._performer.settings.static, seen=seen
            ),
            AlterPartitionReassignmentsResponse,
            permit=permit,
        )
        return replace(answers[-1], partitions=joined(each.partitions for each in answers))
