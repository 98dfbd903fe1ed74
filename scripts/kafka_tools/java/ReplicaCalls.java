// Directories, leaders and reassignment. Broker 4 is registered and does not run.

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class ReplicaCalls extends AdminCalls {
    private static final TopicPartition PLACE = new TopicPartition("p-topic", 0);
    private static final TopicPartition OTHER = new TopicPartition("p-small", 0);
    private static final TopicPartition NOWHERE = new TopicPartition("p-nobody", 0);

    ReplicaCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        passes("createTopics for this area", "partitions on brokers 1 2 3 and on 2 3", () -> {
            admin.createTopics(Set.of(
                    new NewTopic("p-topic", Map.of(0, List.of(1, 2, 3))),
                    new NewTopic("p-small", Map.of(0, List.of(2, 3))))).all().get();
            eventually(() -> same(3, partition(PLACE).isr().size()));
        });
        reassign();
        elect();
        directories();
    }

    private TopicPartitionInfo partition(TopicPartition place) throws Exception {
        return admin.describeTopics(Set.of(place.topic())).allTopicNames().get()
                .get(place.topic()).partitions().get(place.partition());
    }

    private List<Integer> replicas(TopicPartition place) throws Exception {
        return partition(place).replicas().stream().map(Node::id).toList();
    }

    private void move(TopicPartition place, Integer... replicas) throws Exception {
        admin.alterPartitionReassignments(Map.of(
                place, Optional.of(new NewPartitionReassignment(List.of(replicas))))).all().get();
    }

    private void cancel(TopicPartition place) throws Exception {
        admin.alterPartitionReassignments(Map.of(place, Optional.empty())).all().get();
    }

    private void reassign() {
        passes("alterPartitionReassignments", "another broker, in sync, when it ends", () -> {
            move(OTHER, 3, 1);
            eventually(() -> {
                same(List.of(3, 1), replicas(OTHER));
                same(2, partition(OTHER).isr().size());
            });
        });
        passes("alterPartitionReassignments, more replicas", "three instead of two", () -> {
            move(OTHER, 3, 1, 2);
            eventually(() -> same(3, partition(OTHER).isr().size()));
        });
        passes("alterPartitionReassignments to a broker that is down", "it stays in progress", () ->
                move(PLACE, 1, 2, 4));
        passes("listPartitionReassignments", "what is added and what is removed", () -> {
            PartitionReassignment found = admin.listPartitionReassignments().reassignments().get().get(PLACE);
            must(found != null, "none is listed");
            same(List.of(4), found.addingReplicas());
            same(List.of(3), found.removingReplicas());
            same(4, found.replicas().size());
        });
        passes("listPartitionReassignments of partitions", "only the one that moves", () ->
                same(Set.of(PLACE), admin.listPartitionReassignments(Set.of(PLACE, OTHER))
                        .reassignments().get().keySet()));
        passes("alterPartitionReassignments, cancel", "the replicas of before", () -> {
            cancel(PLACE);
            eventually(() -> same(List.of(1, 2, 3), replicas(PLACE)));
            must(admin.listPartitionReassignments().reassignments().get().isEmpty(), "one is left");
        });
        fails("alterPartitionReassignments, cancel none", NoReassignmentInProgressException.class, () ->
                cancel(PLACE));
        fails("alterPartitionReassignments, broker unknown", InvalidReplicaAssignmentException.class, () ->
                move(PLACE, 1, 2, 99));
        fails("alterPartitionReassignments, broker twice", InvalidReplicaAssignmentException.class, () ->
                move(PLACE, 1, 1, 2));
        fails("alterPartitionReassignments of the same factor only", InvalidReplicationFactorException.class,
                () -> admin.alterPartitionReassignments(
                        Map.of(PLACE, Optional.of(new NewPartitionReassignment(List.of(1)))),
                        new AlterPartitionReassignmentsOptions().allowReplicationFactorChange(false))
                        .all().get());
        fails("alterPartitionReassignments of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                move(NOWHERE, 1, 2, 3));
    }

    private void elect() {
        passes("electLeaders PREFERRED", "the first replica leads", () -> {
            move(PLACE, 2, 1, 3);
            eventually(() -> same(List.of(2, 1, 3), replicas(PLACE)));
            same(1, partition(PLACE).leader().id());
            admin.electLeaders(ElectionType.PREFERRED, Set.of(PLACE)).all().get();
            eventually(() -> same(2, partition(PLACE).leader().id()));
        });
        fails("electLeaders PREFERRED, it leads", ElectionNotNeededException.class, () ->
                elected(ElectionType.PREFERRED, PLACE));
        passes("electLeaders PREFERRED, all", "every partition has its preferred leader", () -> {
            move(PLACE, 3, 1, 2);
            eventually(() -> same(List.of(3, 1, 2), replicas(PLACE)));
            Map<TopicPartition, Optional<Throwable>> found =
                    admin.electLeaders(ElectionType.PREFERRED, null).partitions().get();
            must(found.containsKey(PLACE) && found.get(PLACE).isEmpty(), found);
            eventually(() -> same(3, partition(PLACE).leader().id()));
        });
        fails("electLeaders UNCLEAN, a leader is there", ElectionNotNeededException.class, () ->
                elected(ElectionType.UNCLEAN, PLACE));
        fails("electLeaders of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                elected(ElectionType.PREFERRED, NOWHERE));
    }

    private void elected(ElectionType type, TopicPartition place) throws Exception {
        Optional<Throwable> error = admin.electLeaders(type, Set.of(place)).partitions().get().get(place);
        if (error.isPresent()) {
            throw (Exception) error.get();
        }
    }

    private void directories() {
        passes("describeLogDirs", "two directories a broker, sizes, the partition in one", () -> {
            Map<String, LogDirDescription> found = admin.describeLogDirs(Set.of(1)).allDescriptions().get().get(1);
            same(2, found.size());
            must(found.values().stream().allMatch(each -> each.totalBytes().orElse(0) > 0), found);
            same(1L, found.values().stream()
                    .filter(each -> each.replicaInfos().containsKey(PLACE)).count());
        });
        passes("describeLogDirs of all brokers", "each answers for itself", () ->
                same(Set.of(1, 2, 3),
                        admin.describeLogDirs(Set.of(1, 2, 3)).allDescriptions().get().keySet()));
        TopicPartitionReplica replica = new TopicPartitionReplica("p-topic", 0, 1);
        passes("describeReplicaLogDirs", "the directory, no lag", () -> eventually(() -> {
            var found = admin.describeReplicaLogDirs(Set.of(replica)).values().get(replica).get();
            must(found.getCurrentReplicaLogDir() != null, found);
            same(0L, found.getCurrentReplicaOffsetLag());
        }));
        passes("alterReplicaLogDirs", "the replica is in the other directory", () -> {
            String from = admin.describeReplicaLogDirs(Set.of(replica)).values().get(replica).get()
                    .getCurrentReplicaLogDir();
            String to = admin.describeLogDirs(Set.of(1)).allDescriptions().get().get(1).keySet().stream()
                    .filter(each -> !each.equals(from)).findFirst().orElseThrow();
            admin.alterReplicaLogDirs(Map.of(replica, to)).all().get();
            eventually(() -> same(to,
                    admin.describeReplicaLogDirs(Set.of(replica)).values().get(replica).get()
                            .getCurrentReplicaLogDir()));
        });
        fails("alterReplicaLogDirs to no directory of the broker", LogDirNotFoundException.class, () ->
                admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).all().get());
    }
}
