// Topics and their partitions.

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class TopicCalls extends AdminCalls {
    private static final String[] SETTINGS = {
        "cleanup.policy=delete", "compression.gzip.level=-1", "compression.lz4.level=9",
        "compression.type=producer", "compression.zstd.level=3", "delete.retention.ms=86400000",
        "file.delete.delay.ms=60000",
        "follower.replication.throttled.replicas=0:1", "index.interval.bytes=4096",
        "leader.replication.throttled.replicas=0:1", "local.retention.bytes=-2",
        "local.retention.ms=-2", "max.compaction.lag.ms=86400000", "max.message.bytes=100000",
        "message.timestamp.after.max.ms=3600000", "message.timestamp.before.max.ms=86400000",
        "message.timestamp.type=CreateTime", "min.cleanable.dirty.ratio=0.5",
        "min.compaction.lag.ms=0", "min.insync.replicas=1", "preallocate=false",
        "remote.log.copy.disable=false", "remote.log.delete.on.disable=false",
        "remote.storage.enable=false", "retention.bytes=-1", "retention.ms=600000",
        "segment.bytes=1048576", "segment.index.bytes=10485760", "segment.jitter.ms=0",
        "segment.ms=600000", "unclean.leader.election.enable=false",
    };

    TopicCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        create();
        createWithEachSetting();
        refusedCreations();
        look();
        partitions();
        delete();
    }

    private CreateTopicsResult make(NewTopic topic) throws Exception {
        CreateTopicsResult made = admin.createTopics(Set.of(topic));
        made.all().get();
        return made;
    }

    private TopicDescription described(String name) throws Exception {
        return admin.describeTopics(Set.of(name)).allTopicNames().get().get(name);
    }

    private void create() {
        passes("createTopics", "partitions, factor and id in the answer", () -> {
            CreateTopicsResult made = make(new NewTopic("a-topic", 3, (short) 3));
            same(3, made.numPartitions("a-topic").get());
            same(3, made.replicationFactor("a-topic").get());
            must(!made.topicId("a-topic").get().equals(Uuid.ZERO_UUID), "no topic id");
            eventually(() -> same(3, described("a-topic").partitions().size()));
        });
        passes("createTopics with settings", "the answer has the settings", () -> {
            CreateTopicsResult made =
                    make(new NewTopic("a-set", 1, (short) 1).configs(Map.of("retention.ms", "1234567")));
            same("1234567", made.config("a-set").get().get("retention.ms").value());
        });
        passes("createTopics with an assignment", "replicas as given, the first one leads", () -> {
            make(new NewTopic("a-manual", Map.of(0, List.of(2, 1), 1, List.of(3, 2))));
            eventually(() -> {
                List<TopicPartitionInfo> found = described("a-manual").partitions();
                same(List.of(2, 1), found.get(0).replicas().stream().map(n -> n.id()).toList());
                same(3, found.get(1).leader().id());
            });
        });
        passes("createTopics with defaults", "the brokers' partitions and factor", () -> {
            CreateTopicsResult made =
                    make(new NewTopic("a-default", Optional.empty(), Optional.empty()));
            same(1, made.numPartitions("a-default").get());
            same(3, made.replicationFactor("a-default").get());
        });
        passes("createTopics validateOnly", "an answer, and no topic", () -> {
            CreateTopicsResult made = admin.createTopics(
                    Set.of(new NewTopic("a-dry", 2, (short) 3)),
                    new CreateTopicsOptions().validateOnly(true));
            made.all().get();
            same(2, made.numPartitions("a-dry").get());
            must(!admin.listTopics().names().get().contains("a-dry"), "it was made");
        });
    }

    private void createWithEachSetting() {
        for (String setting : SETTINGS) {
            String key = setting.substring(0, setting.indexOf('='));
            String value = setting.substring(setting.indexOf('=') + 1);
            passes("createTopics with " + key, "the answer has the value", () -> {
                String name = "a-" + key;
                NewTopic topic = new NewTopic(name, 1, (short) 1).configs(Map.of(key, value));
                CreateTopicsResult made = admin.createTopics(
                        Set.of(topic), new CreateTopicsOptions().validateOnly(true));
                same(value, made.config(name).get().get(key).value());
            });
        }
    }

    private void refusedCreations() {
        for (String key : new String[] {"flush.messages", "flush.ms"}) {
            refused("createTopics with " + key, "brokers sync by time, not by record", () ->
                    make(new NewTopic("a-no", 1, (short) 1).configs(Map.of(key, "1000"))));
        }
        fails("createTopics of one that exists", TopicExistsException.class, () ->
                make(new NewTopic("a-topic", 1, (short) 1)));
        fails("createTopics, factor above the brokers", InvalidReplicationFactorException.class, () ->
                make(new NewTopic("a-no", 1, (short) 9)));
        fails("createTopics, bad name", InvalidTopicException.class, () ->
                make(new NewTopic("a no", 1, (short) 1)));
        fails("createTopics, name that collides", InvalidTopicException.class, () -> {
            make(new NewTopic("a.collides", 1, (short) 1));
            make(new NewTopic("a_collides", 1, (short) 1));
        });
        fails("createTopics, unknown setting", InvalidConfigurationException.class, () ->
                make(new NewTopic("a-no", 1, (short) 1).configs(Map.of("no.such.key", "1"))));
        fails("createTopics, bad value", InvalidConfigurationException.class, () ->
                make(new NewTopic("a-no", 1, (short) 1).configs(Map.of("retention.ms", "soon"))));
        fails("createTopics, replica twice", InvalidReplicaAssignmentException.class, () ->
                make(new NewTopic("a-no", Map.of(0, List.of(1, 1)))));
        fails("createTopics, no partitions", InvalidPartitionsException.class, () ->
                make(new NewTopic("a-no", 0, (short) 1)));
    }

    private void look() {
        passes("listTopics", "the topics made before", () ->
                eventually(() -> must(
                        admin.listTopics().names().get().containsAll(Set.of("a-topic", "a-manual")),
                        admin.listTopics().names().get())));
        passes("listTopics with internal ones", "__consumer_offsets is internal", () -> {
            Map<String, TopicListing> found =
                    admin.listTopics(new ListTopicsOptions().listInternal(true)).namesToListings().get();
            must(found.containsKey("__consumer_offsets"), found.keySet());
            must(found.get("__consumer_offsets").isInternal(), "not internal");
        });
        passes("describeTopics", "leader, replicas, ISR, leader and id of each partition", () -> {
            TopicDescription found = described("a-topic");
            same(3, found.partitions().size());
            for (TopicPartitionInfo each : found.partitions()) {
                must(each.leader() != null && each.replicas().contains(each.leader()), each);
                same(3, each.isr().size());
            }
            must(!found.isInternal() && !found.topicId().equals(Uuid.ZERO_UUID), found);
        });
        passes("describeTopics by id", "the same as by name", () -> {
            Uuid id = described("a-topic").topicId();
            TopicDescription found = admin.describeTopics(TopicCollection.ofTopicIds(Set.of(id)))
                    .allTopicIds().get().get(id);
            same("a-topic", found.name());
            // Metadata (by id) knows no eligible leader replicas, DescribeTopicPartitions (by name) does.
            for (int number = 0; number < 3; number++) {
                TopicPartitionInfo byName = described("a-topic").partitions().get(number);
                same(byName.leader(), found.partitions().get(number).leader());
                same(byName.replicas(), found.partitions().get(number).replicas());
                same(byName.isr(), found.partitions().get(number).isr());
            }
        });
        passes("describeTopics with authorized operations", "every operation on topics", () -> {
            TopicDescription found = admin.describeTopics(
                            Set.of("a-topic"), new DescribeTopicsOptions().includeAuthorizedOperations(true))
                    .allTopicNames().get().get("a-topic");
            same(8, found.authorizedOperations().size());
        });
        passes("describeTopics in pages", "all partitions, one a page", () -> {
            TopicDescription found = admin.describeTopics(
                            Set.of("a-topic"), new DescribeTopicsOptions().partitionSizeLimitPerResponse(1))
                    .allTopicNames().get().get("a-topic");
            same(3, found.partitions().size());
        });
        fails("describeTopics of an unknown one", UnknownTopicOrPartitionException.class, () ->
                described("a-nobody"));
        fails("describeTopics of an unknown id", UnknownTopicIdException.class, () ->
                admin.describeTopics(TopicCollection.ofTopicIds(Set.of(Uuid.randomUuid())))
                        .allTopicIds().get());
    }

    private void partitions() {
        passes("createPartitions", "five partitions instead of three", () -> {
            admin.createPartitions(Map.of("a-topic", NewPartitions.increaseTo(5))).all().get();
            eventually(() -> same(5, described("a-topic").partitions().size()));
        });
        passes("createPartitions with an assignment", "replicas as given", () -> {
            admin.createPartitions(
                    Map.of("a-manual", NewPartitions.increaseTo(3, List.of(List.of(1, 3))))).all().get();
            eventually(() -> same(List.of(1, 3),
                    described("a-manual").partitions().get(2).replicas().stream().map(n -> n.id()).toList()));
        });
        passes("createPartitions validateOnly", "no more partitions than before", () -> {
            admin.createPartitions(
                    Map.of("a-set", NewPartitions.increaseTo(7)),
                    new CreatePartitionsOptions().validateOnly(true)).all().get();
            same(1, described("a-set").partitions().size());
        });
        fails("createPartitions to fewer", InvalidPartitionsException.class, () ->
                admin.createPartitions(Map.of("a-topic", NewPartitions.increaseTo(2))).all().get());
        fails("createPartitions, bad assignment", InvalidReplicaAssignmentException.class, () ->
                admin.createPartitions(Map.of("a-manual",
                        NewPartitions.increaseTo(4, List.of(List.of(1, 1))))).all().get());
        fails("createPartitions of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                admin.createPartitions(Map.of("a-nobody", NewPartitions.increaseTo(2))).all().get());
    }

    private void delete() {
        passes("deleteTopics", "the topic is gone", () -> {
            admin.deleteTopics(Set.of("a-set")).all().get();
            eventually(() -> must(
                    !admin.listTopics().names().get().contains("a-set"), "still listed"));
        });
        passes("deleteTopics by id", "the topic is gone", () -> {
            Uuid id = described("a-manual").topicId();
            admin.deleteTopics(TopicCollection.ofTopicIds(Set.of(id))).all().get();
            eventually(() -> must(
                    !admin.listTopics().names().get().contains("a-manual"), "still listed"));
        });
        fails("deleteTopics of an unknown one", UnknownTopicOrPartitionException.class, () ->
                admin.deleteTopics(Set.of("a-nobody")).all().get());
        fails("deleteTopics of an unknown id", UnknownTopicIdException.class, () ->
                admin.deleteTopics(TopicCollection.ofTopicIds(Set.of(Uuid.randomUuid()))).all().get());
        passes("deleteTopics of several", "the topics of this area are gone", () -> {
            Set<String> ours = new HashSet<>(admin.listTopics().names().get());
            ours.removeIf(name -> !Arrays.asList("a-topic", "a-default", "a.collides").contains(name));
            admin.deleteTopics(ours).all().get();
            eventually(() -> must(
                    admin.listTopics().names().get().stream().noneMatch(ours::contains), ours));
        });
    }
}
