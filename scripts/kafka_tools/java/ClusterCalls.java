// The cluster, its features, its quorum; also through the controllers' own listener (KIP-919).
// Voters of the quorum are 1 and 2 when this begins, and 1, 2 and 3 when it ends. Broker 4 does not run.

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AddRaftVoterOptions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeFeaturesOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.DuplicateVoterException;
import org.apache.kafka.common.errors.InconsistentClusterIdException;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.errors.VoterNotFoundException;

final class ClusterCalls extends AdminCalls {
    ClusterCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        describe();
        features();
        quorum();
        voters();
        try (Admin controllers = client("bootstrap.controllers", text("controllers"))) {
            throughControllers(controllers);
        }
        brokers();
        passes("metrics", "the client's own", () -> must(!admin.metrics().isEmpty(), "none"));
    }

    private Set<Integer> nodes(DescribeClusterResult found) throws Exception {
        return found.nodes().get().stream().map(Node::id).collect(Collectors.toSet());
    }

    private void describe() {
        passes("describeCluster", "id, controller, three brokers", () -> {
            DescribeClusterResult found = admin.describeCluster();
            same(text("cluster"), found.clusterId().get());
            same(Set.of(1, 2, 3), nodes(found));
            must(nodes(found).contains(found.controller().get().id()), found.controller().get());
        });
        passes("describeCluster with authorized operations", "every operation on clusters", () ->
                same(7, admin.describeCluster(
                                new DescribeClusterOptions().includeAuthorizedOperations(true))
                        .authorizedOperations().get().size()));
        passes("describeCluster with fenced brokers", "broker 4, which does not run, is fenced", () -> {
            DescribeClusterResult found =
                    admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true));
            same(Set.of(1, 2, 3, 4), nodes(found));
            must(found.nodes().get().stream().allMatch(each -> each.isFenced() == (each.id() == 4)),
                    found.nodes().get());
        });
    }

    private void features() {
        passes("describeFeatures", "metadata.version and kraft.version, supported and finalized", () -> {
            FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
            Set<String> names = Set.of("metadata.version", "kraft.version");
            must(found.supportedFeatures().keySet().containsAll(names), found);
            must(found.finalizedFeatures().keySet().containsAll(names), found);
            must(found.finalizedFeaturesEpoch().isPresent(), found);
        });
        passes("describeFeatures of a node", "the same of node 2", () -> must(
                admin.describeFeatures(new DescribeFeaturesOptions().nodeId(2)).featureMetadata().get()
                        .supportedFeatures().containsKey("metadata.version"), "no metadata.version"));
        passes("updateFeatures validateOnly", "the level that holds is accepted", () -> {
            short level = admin.describeFeatures().featureMetadata().get()
                    .finalizedFeatures().get("metadata.version").maxVersionLevel();
            admin.updateFeatures(
                    Map.of("metadata.version", new FeatureUpdate(level, UpgradeType.UPGRADE)),
                    new UpdateFeaturesOptions().validateOnly(true)).all().get();
        });
        fails("updateFeatures of an unknown one", InvalidUpdateVersionException.class, () ->
                admin.updateFeatures(
                        Map.of("no.such.feature", new FeatureUpdate((short) 1, UpgradeType.UPGRADE)),
                        new UpdateFeaturesOptions()).all().get());
    }

    private Set<Integer> votersOf(Admin client) throws Exception {
        return client.describeMetadataQuorum().quorumInfo().get().voters().stream()
                .map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toSet());
    }

    private void quorum() {
        passes("describeMetadataQuorum", "leader, epoch, voters with directory ids, observers", () -> {
            QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
            must(found.leaderId() >= 1 && found.leaderEpoch() > 0 && found.highWatermark() > 0, found);
            must(found.voters().stream().noneMatch(
                    each -> each.replicaDirectoryId().equals(Uuid.ZERO_UUID)), found.voters());
            must(found.observers().stream().anyMatch(each -> each.replicaId() == 3), found);
        });
    }

    private void voters() {
        Uuid directory = Uuid.fromString(text("directory3"));
        Set<RaftVoterEndpoint> endpoints = Set.of(
                new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", Integer.parseInt(text("port3"))));
        fails("addRaftVoter of another cluster", InconsistentClusterIdException.class, () ->
                admin.addRaftVoter(3, directory, endpoints, new AddRaftVoterOptions()
                        .setClusterId(Optional.of("another-cluster"))).all().get());
        passes("addRaftVoter", "three voters", () -> {
            admin.addRaftVoter(3, directory, endpoints).all().get();
            eventually(() -> same(Set.of(1, 2, 3), votersOf(admin)));
        });
        fails("addRaftVoter of a voter", DuplicateVoterException.class, () ->
                admin.addRaftVoter(3, directory, endpoints).all().get());
        passes("removeRaftVoter", "two voters", () -> {
            admin.removeRaftVoter(3, directory).all().get();
            eventually(() -> same(Set.of(1, 2), votersOf(admin)));
        });
        fails("removeRaftVoter of none", VoterNotFoundException.class, () ->
                admin.removeRaftVoter(3, directory).all().get());
        passes("addRaftVoter again", "three voters", () -> {
            admin.addRaftVoter(3, directory, endpoints).all().get();
            eventually(() -> same(Set.of(1, 2, 3), votersOf(admin)));
        });
    }

    private void throughControllers(Admin controllers) {
        passes("describeCluster, bootstrap.controllers", "three controllers, the active one", () -> {
            DescribeClusterResult found = controllers.describeCluster();
            same(text("cluster"), found.clusterId().get());
            must(nodes(found).containsAll(Set.of(1, 2, 3)), nodes(found));
        });
        passes("describeMetadataQuorum, bootstrap.controllers", "three voters", () ->
                same(Set.of(1, 2, 3), votersOf(controllers)));
        passes("describeFeatures, bootstrap.controllers", "metadata.version", () -> must(
                controllers.describeFeatures().featureMetadata().get()
                        .supportedFeatures().containsKey("metadata.version"), "no metadata.version"));
    }

    private void brokers() {
        fails("unregisterBroker of an unknown one", BrokerIdNotRegisteredException.class, () ->
                admin.unregisterBroker(99).all().get());
    }
}
