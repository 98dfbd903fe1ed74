// What quorate does not serve, and has to refuse at once.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

final class RefusedCalls extends AdminCalls {
    private static final TopicPartition PLACE = new TopicPartition("r-topic", 0);

    RefusedCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        acls();
        credentials();
        transactions();
        shareGroups();
        streamsGroups();
        clientMetrics();
    }

    private void acls() {
        AclBinding one = new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
                new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        refused("describeAcls", "ACLs, without an authorizer", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        refused("createAcls", "ACLs, without an authorizer", () -> admin.createAcls(Set.of(one)).all().get());
        refused("deleteAcls", "ACLs, without an authorizer", () -> admin.deleteAcls(Set.of(one.toFilter())).all().get());
    }

    private void credentials() {
        passes("describeUserScramCredentials", "an answer", () ->
                admin.describeUserScramCredentials().all().get());
        fails("describeUserScramCredentials of a user", ResourceNotFoundException.class, () ->
                admin.describeUserScramCredentials(List.of("alice")).description("alice").get());
        refused("alterUserScramCredentials", "SCRAM", () ->
                admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                        "alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret")))
                        .all().get());
        refused("createDelegationToken", "delegation tokens", () ->
                admin.createDelegationToken().delegationToken().get());
        refused("describeDelegationToken", "delegation tokens", () ->
                admin.describeDelegationToken().delegationTokens().get());
        refused("renewDelegationToken", "delegation tokens", () ->
                admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get());
        refused("expireDelegationToken", "delegation tokens", () ->
                admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get());
    }

    private void transactions() {
        refused("describeTransactions", "transactions", () ->
                admin.describeTransactions(Set.of("x")).all().get());
        refused("listTransactions", "transactions", () -> admin.listTransactions().all().get());
        refused("abortTransaction", "transactions", () ->
                admin.abortTransaction(new AbortTransactionSpec(PLACE, 1, (short) 1, 1)).all().get());
        refused("fenceProducers", "transactions", () -> admin.fenceProducers(Set.of("x")).all().get());
        refused("forceTerminateTransaction", "transactions", () ->
                admin.forceTerminateTransaction("x").result().get());
    }

    private void shareGroups() {
        refused("describeShareGroups", "share groups", () ->
                admin.describeShareGroups(Set.of("x")).all().get());
        refused("listShareGroupOffsets", "share groups", () ->
                admin.listShareGroupOffsets(Map.of("x", new ListShareGroupOffsetsSpec())).all().get());
        refused("alterShareGroupOffsets", "share groups", () ->
                admin.alterShareGroupOffsets("x", Map.of(PLACE, 1L)).all().get());
        refused("deleteShareGroupOffsets", "share groups", () ->
                admin.deleteShareGroupOffsets("x", Set.of("r-topic")).all().get());
        refused("deleteShareGroups", "share groups", () ->
                admin.deleteShareGroups(Set.of("x")).all().get());
    }

    private void streamsGroups() {
        refused("describeStreamsGroups", "streams groups (KIP-1071)", () ->
                admin.describeStreamsGroups(Set.of("x")).all().get());
        refused("deleteStreamsGroups", "streams groups (KIP-1071)", () ->
                admin.deleteStreamsGroups(Set.of("x")).all().get());
        passes("alterStreamsGroupOffsets", "listed, as of any group", () -> {
            admin.alterStreamsGroupOffsets("s-group", Map.of(PLACE, new OffsetAndMetadata(1))).all().get();
            same(1L, admin.listStreamsGroupOffsets(
                            Map.of("s-group", new ListStreamsGroupOffsetsSpec()))
                    .partitionsToOffsetAndMetadata("s-group").get().get(PLACE).offset());
        });
        passes("deleteStreamsGroupOffsets", "none is left", () -> {
            admin.deleteStreamsGroupOffsets("s-group", Set.of(PLACE)).all().get();
            must(admin.listStreamsGroupOffsets(Map.of("s-group", new ListStreamsGroupOffsetsSpec()))
                    .partitionsToOffsetAndMetadata("s-group").get().isEmpty(), "one is left");
        });
    }

    private void clientMetrics() {
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "m");
        refused("describeConfigs of client metrics", "client metrics", () -> must(
                !admin.describeConfigs(Set.of(metrics)).all().get().get(metrics).entries().isEmpty(), "empty"));
        refused("incrementalAlterConfigs of client metrics", "client metrics", () ->
                admin.incrementalAlterConfigs(Map.of(metrics, List.of(new AlterConfigOp(
                        new ConfigEntry("interval.ms", "1000"), AlterConfigOp.OpType.SET)))).all().get());
        passes("listClientMetricsResources", "none is there", () -> must(
                admin.listClientMetricsResources().all().get().isEmpty(), "one is there"));
        refused("clientInstanceId", "client metrics", () -> {
            try {
                admin.clientInstanceId(Duration.ofSeconds(5));
            } catch (IllegalStateException off) {
                throw new org.apache.kafka.common.errors.UnsupportedVersionException(off.getMessage());
            }
        });
    }
}
