"""The budget of partitions: fewer than min ISR members lose unsynced data, or their place, at once."""

from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost


class LossBudget:
    """A broker counts as one that lost data from the moment its host loses power, its disk is about to fail,
    or one of its directories of log.dirs is lost (`DirectoryFaults`), until the controller knows of its next
    life and every partition has min ISR members in sync again.

    One whose registration an operator asks to remove counts to the end of the run: a broker may still be
    asking a controller for it when the operator has long been answered.
    """

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._lost: dict[BrokerHost, int] = {}
        """The brokers that lost data, and the life in which they did."""
        self._unregistered: set[BrokerHost] = set()
        self._rotten: BrokerHost | None = None
        """The broker with a replica in which a bit has flipped. No other broker loses data meanwhile."""

    def take(self, node: BrokerHost) -> bool:
        """Return whether the budget has room for a loss, which is taken then."""
        if not self._has_room(node):
            return False
        self._lost[node] = node.life
        return True

    def take_for_good(self, node: BrokerHost) -> bool:
        """Do the same as `take`, for a broker that loses its registration."""
        if not self._has_room(node):
            return False
        self._unregistered.add(node)
        return True

    def take_alone(self, node: BrokerHost) -> bool:
        """Do the same as `take`, for the only broker that may have lost anything until `is_whole_again`."""
        self._forget_who_recovered()
        if self._lost or self._unregistered or self._rotten is not None or not self.is_spare(node):
            return False
        self._rotten = node
        return True

    def is_whole_again(self) -> None:
        """End the exclusive loss of `take_alone`."""
        self._rotten = None

    @property
    def is_one_unregistered(self) -> bool:
        """Return whether any broker's registration was asked to be removed."""
        return bool(self._unregistered)

    def is_spare(self, node: BrokerHost) -> bool:
        """Return whether no partition is sure to be whole on this node alone, and none is about to be created
        so."""
        leader = self._cluster.leader()
        if leader is None or self._cluster.creating:
            return False
        image = leader.image
        if not all(other.is_unfenced(image) for other in self._cluster.nodes if other is not node):
            return False
        return all(
            {*state.isr, *state.elr} - {node.id}
            for _, state in image.all_partitions()
            if node.id in (*state.isr, *state.elr, *state.eligible.last_known)
        )

    def _has_room(self, node: BrokerHost) -> bool:
        self._forget_who_recovered()
        if self._rotten not in (None, node):
            return False
        lost = self._lost.keys() | self._unregistered | {node}
        if len(lost) >= self._cluster.settings.min_isr:
            return False
        # A partition that was created while a broker was away has fewer members, none of whom may be left.
        ids = {each.id for each in lost}
        members = ({*state.isr, *state.elr} for _, state in self._cluster.metadata.image.all_partitions())
        return all(each - ids for each in members if each)

    def _forget_who_recovered(self) -> None:
        leader = self._cluster.leader()
        if leader is None:
            return
        image, least = leader.image, self._cluster.settings.min_isr
        if all(len(state.isr) >= least for _, state in image.all_partitions()):
            self._lost = {
                node: life
                for node, life in self._lost.items()
                if node.life == life or node.disk_failing or not node.is_unfenced(image)
            }
