"""Each leader epoch of a partition has one leader, by what brokers say when they change roles."""

from quorate.simulation.violations import SafetyViolation


class OneLeaderPerLeaderEpoch:
    """Names of topics are used once, and a partition that takes the number of a removed one begins with
    higher epochs, so a partition's name and the epoch are enough."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], int] = {}

    def reported(
        self, broker_id: int, partition: str, leader_epoch: int, leader: int, *, leads: bool
    ) -> None:
        """A broker has taken in a state of a partition. `leads`: as its leader. Raises `SafetyViolation`."""
        if leads and leader != broker_id:
            raise SafetyViolation(f"broker {broker_id} leads {partition}, whose leader is {leader}")
        known = self._leaders.setdefault((partition, leader_epoch), leader)
        if known != leader:
            raise SafetyViolation(
                f"broker {broker_id} has {leader} as the leader of {partition} in leader epoch "
                f"{leader_epoch}, and another had {known}"
            )
