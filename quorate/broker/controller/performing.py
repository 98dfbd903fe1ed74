"""The parts of the controller use it to carry out an operation on the image of its tenure."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.mutation_quotas import MutationQuotas
from quorate.broker.controller.operations import Outcome
from quorate.broker.controller.rpc import ControllerResponse
from quorate.broker.controller.tenure import Tenure
from quorate.broker.metadata import MetadataImage
from quorate.runtime import Steps

T = TypeVar("T")
R = TypeVar("R", bound=ControllerResponse)


class Performs(Protocol):
    """Carries out operations, one after the other: the `Controller`."""

    @property
    def image(self) -> MetadataImage | None: ...

    @property
    def settings(self) -> ControllerSettings: ...

    @property
    def mutations(self) -> MutationQuotas: ...

    @property
    def tenure(self) -> Tenure | None: ...

    async def perform(
        self,
        decide: Callable[[Tenure, int | None], Outcome[R]],
        refuse: type[R],
        *,
        answer: Callable[[Tenure, R], R] | None = None,
    ) -> R: ...

    async def perform_portions(
        self,
        items: Sequence[T],
        decide: Callable[[tuple[T, ...], MetadataImage], Outcome[R]],
        refuse: type[R],
        *,
        cost: Callable[[T], int] | None = None,
        steps: Callable[[tuple[T, ...], MetadataImage], Steps[Outcome[R]]] | None = None,
    ) -> list[R]: ...

    async def perform_on_image(self, decide: Callable[[MetadataImage], Outcome[R]], refuse: type[R]) -> R: ...

    async def settled(self) -> bool: ...
