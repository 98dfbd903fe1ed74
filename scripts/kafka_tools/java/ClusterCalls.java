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

final class ClusterCalls {
    private final AdminRun run;
    private final Admin admin;

    ClusterCalls(AdminRun run) {
        this.run = run;
        this.admin = run.admin;
    }

    void all() {
        describe();
        features();
        quorum();
        voters();
        try (Admin controllers = AdminRun.client("bootstrap.controllers", run.text("controllers"))) {
            throughControllers(controllers);
        }
        brokers();
        run.passes("metrics", "the client's own", () -> AdminRun.must(!admin.metrics().isEmpty(), "none"));
    }

    private Set<Integer> nodes(DescribeClusterResult found) throws Exception {
        return found.nodes().get().stream().map(Node::id).collect(Collectors.toSet());
    }

    private void describe() {
        run.passes("describeCluster", "id, controller, three brokers", () -> {
            DescribeClusterResult found = admin.describeCluster();
            AdminRun.same(run.text("cluster"), found.clusterId().get());
            AdminRun.same(Set.of(1, 2, 3), nodes(found));
            AdminRun.must(nodes(found).contains(found.controller().get().id()), found.controller().get());
        });
        run.passes("describeCluster with authorized operations", "every operation on clusters", () ->
                AdminRun.same(7, admin.describeCluster(
                                new DescribeClusterOptions().includeAuthorizedOperations(true))
                        .authorizedOperations().get().size()));
        run.passes("describeCluster with fenced brokers", "broker 4, which does not run, is fenced", () -> {
            DescribeClusterResult found =
                    admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true));
            AdminRun.same(Set.of(1, 2, 3, 4), nodes(found));
            AdminRun.must(found.nodes().get().stream().allMatch(each -> each.isFenced() == (each.id() == 4)),
                    found.nodes().get());
        });
    }

    private void features() {
        run.passes("describeFeatures", "metadata.version and kraft.version, supported and finalized", () -> {
            FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
            Set<String> names = Set.of("metadata.version", "kraft.version");
            AdminRun.must(found.supportedFeatures().keySet().containsAll(names), found);
            AdminRun.must(found.finalizedFeatures().keySet().containsAll(names), found);
            AdminRun.must(found.finalizedFeaturesEpoch().isPresent(), found);
        });
        run.passes("describeFeatures of a node", "the same of node 2", () -> AdminRun.must(
                admin.describeFeatures(new DescribeFeaturesOptions().nodeId(2)).featureMetadata().get()
                        .supportedFeatures().containsKey("metadata.version"), "no metadata.version"));
        run.passes("updateFeatures validateOnly", "the level that holds is accepted", () -> {
            short level = admin.describeFeatures().featureMetadata().get()
                    .finalizedFeatures().get("metadata.version").maxVersionLevel();
            admin.updateFeatures(
                    Map.of("metadata.version", new FeatureUpdate(level, UpgradeType.UPGRADE)),
                    new UpdateFeaturesOptions().validateOnly(true)).all().get();
        });
        run.fails("updateFeatures of an unknown one", InvalidUpdateVersionException.class, () ->
                admin.updateFeatures(
                        Map.of("no.such.feature", new FeatureUpdate((short) 1, UpgradeType.UPGRADE)),
                        new UpdateFeaturesOptions()).all().get());
    }

    private Set<Integer> votersOf(Admin client) throws Exception {
        return client.describeMetadataQuorum().quorumInfo().get().voters().stream()
                .map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toSet());
    }

    private void quorum() {
        run.passes("describeMetadataQuorum", "leader, epoch, voters with directory ids, observers", () -> {
            QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
            AdminRun.must(found.leaderId() >= 1 && found.leaderEpoch() > 0 && found.highWatermark() > 0, found);
            AdminRun.must(found.voters().stream().noneMatch(
                    each -> each.replicaDirectoryId().equals(Uuid.ZERO_UUID)), found.voters());
            AdminRun.must(found.observers().stream().anyMatch(each -> each.replicaId() == 3), found);
        });
    }

    private void voters() {
        Uuid directory = Uuid.fromString(run.text("directory3"));
        Set<RaftVoterEndpoint> endpoints = Set.of(
                new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", Integer.parseInt(run.text("port3"))));
        run.fails("addRaftVoter of another cluster", InconsistentClusterIdException.class, () ->
                admin.addRaftVoter(3, directory, endpoints, new AddRaftVoterOptions()
                        .setClusterId(Optional.of("another-cluster"))).all().get());
        run.passes("addRaftVoter", "three voters", () -> {
            admin.addRaftVoter(3, directory, endpoints).all().get();
            AdminRun.eventually(() -> AdminRun.same(Set.of(1, 2, 3), votersOf(admin)));
        });
        run.fails("addRaftVoter of a voter", DuplicateVoterException.class, () ->
                admin.addRaftVoter(3, directory, endpoints).all().get());
        run.passes("removeRaftVoter", "two voters", () -> {
            admin.removeRaftVoter(3, directory).all().get();
            AdminRun.eventually(() -> AdminRun.same(Set.of(1, 2), votersOf(admin)));
        });
        run.fails("removeRaftVoter of none", VoterNotFoundException.class, () ->
                admin.removeRaftVoter(3, directory).all().get());
        run.passes("addRaftVoter again", "three voters", () -> {
            admin.addRaftVoter(3, directory, endpoints).all().get();
            AdminRun.eventually(() -> AdminRun.same(Set.of(1, 2, 3), votersOf(admin)));
        });
    }

    private void throughControllers(Admin controllers) {
        run.passes("describeCluster, bootstrap.controllers", "three controllers, the active one", () -> {
            DescribeClusterResult found = controllers.describeCluster();
            AdminRun.same(run.text("cluster"), found.clusterId().get());
            AdminRun.must(nodes(found).containsAll(Set.of(1, 2, 3)), nodes(found));
        });
        run.passes("describeMetadataQuorum, bootstrap.controllers", "three voters", () ->
                AdminRun.same(Set.of(1, 2, 3), votersOf(controllers)));
        run.passes("describeFeatures, bootstrap.controllers", "metadata.version", () -> AdminRun.must(
                controllers.describeFeatures().featureMetadata().get()
                        .supportedFeatures().containsKey("metadata.version"), "no metadata.version"));
    }

    private void brokers() {
        run.fails("unregisterBroker of an unknown one", BrokerIdNotRegisteredException.class, () ->
                admin.unregisterBroker(99).all().get());
    }
}
