// Classic consumer groups, their members and offsets.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

final class GroupCalls extends AdminCalls {
    private static final String LIVE = "g-live";
    private static final String EMPTY = "g-empty";
    private static final TopicPartition PLACE = new TopicPartition("g-topic", 0);
    private static final TopicPartition OTHER = new TopicPartition("g-topic", 1);

    GroupCalls(Map<?, ?> request) {
        super(request);
    }

    /** A member that polls and commits until it is closed. */
    private final class Member implements AutoCloseable {
        private final AtomicBoolean over = new AtomicBoolean();
        private final Thread thread;

        Member(String group, String instance) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", text("bootstrap"));
            settings.put("group.id", group);
            settings.put("auto.offset.reset", "earliest");
            settings.put("auto.commit.interval.ms", "100");
            settings.put("group.protocol", "classic");
            settings.put("client.id", "member");
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            thread = new Thread(() -> {
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("g-topic"));
                    while (!over.get()) {
                        consumer.poll(Duration.ofMillis(100));
                    }
                } catch (RuntimeException removed) {
                    // A test removes it: that is what the caller looks at.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void close() throws InterruptedException {
            over.set(true);
            thread.join(10_000);
        }
    }

    @Override
    void all() {
        passes("createTopics for this area", "two partitions with ten records", () -> {
            admin.createTopics(Set.of(new NewTopic("g-topic", 2, (short) 3))).all().get();
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", text("bootstrap"));
            settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                for (int number = 0; number < 10; number++) {
                    producer.send(new ProducerRecord<>("g-topic", number % 2, "key", "value")).get();
                }
            }
        });
        withMembers();
        offsets();
        list();
        delete();
    }

    private ConsumerGroupDescription described(String group) throws Exception {
        return admin.describeConsumerGroups(Set.of(group)).all().get().get(group);
    }

    private void withMembers() {
        try (Member first = new Member(LIVE, null); Member second = new Member(LIVE, null)) {
            passes("describeConsumerGroups", "two members, each with a partition, Stable", () ->
                    eventually(() -> {
                        ConsumerGroupDescription found = described(LIVE);
                        same(GroupState.STABLE, found.groupState());
                        same(GroupType.CLASSIC, found.type());
                        same("range", found.partitionAssignor());
                        same(2, found.members().size());
                        found.members().forEach(each -> {
                            same(1, each.assignment().topicPartitions().size());
                            same("member", each.clientId());
                            same("/127.0.0.1", each.host());
                        });
                    }));
            passes("describeConsumerGroups with authorized operations", "every operation", () ->
                    same(5, admin.describeConsumerGroups(Set.of(LIVE),
                                    new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
                            .all().get().get(LIVE).authorizedOperations().size()));
            passes("describeClassicGroups", "protocol, assignor and members", () -> {
                ClassicGroupDescription found =
                        admin.describeClassicGroups(Set.of(LIVE)).all().get().get(LIVE);
                same("consumer", found.protocol());
                same("range", found.protocolData());
                same(2, found.members().size());
            });
            passes("listGroups by state", "Stable has the group, Empty has not", () -> {
                must(ids(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE)))
                        .contains(LIVE), "not among the stable");
                must(!ids(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)))
                        .contains(LIVE), "among the empty");
            });
            fails("alterConsumerGroupOffsets of a group with members", UnknownMemberIdException.class, () ->
                    admin.alterConsumerGroupOffsets(LIVE, Map.of(PLACE, new OffsetAndMetadata(1))).all().get());
            fails("deleteConsumerGroups with members", GroupNotEmptyException.class, () ->
                    admin.deleteConsumerGroups(Set.of(LIVE)).all().get());
            fails("deleteConsumerGroupOffsets of a subscribed topic", GroupSubscribedToTopicException.class,
                    () -> admin.deleteConsumerGroupOffsets(LIVE, Set.of(PLACE)).all().get());
            passes("removeMembersFromConsumerGroup, all", "both have to join again", () -> {
                Collection<String> before = memberIds(LIVE);
                admin.removeMembersFromConsumerGroup(
                        LIVE, new RemoveMembersFromConsumerGroupOptions()).all().get();
                eventually(() -> must(
                        memberIds(LIVE).stream().noneMatch(before::contains), before));
            });
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
        try (Member member = new Member("g-static", "instance-1")) {
            passes("describeConsumerGroups with a static member", "its group.instance.id", () ->
                    eventually(() -> same("instance-1",
                            described("g-static").members().iterator().next().groupInstanceId().get())));
            passes("removeMembersFromConsumerGroup, a static one", "it is no member", () -> {
                admin.removeMembersFromConsumerGroup("g-static", new RemoveMembersFromConsumerGroupOptions(
                        Set.of(new MemberToRemove("instance-1")))).all().get();
            });
            fails("removeMembersFromConsumerGroup, an unknown one", UnknownMemberIdException.class, () ->
                    admin.removeMembersFromConsumerGroup("g-static", new RemoveMembersFromConsumerGroupOptions(
                            Set.of(new MemberToRemove("instance-9")))).memberResult(
                            new MemberToRemove("instance-9")).get());
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    private Collection<String> memberIds(String group) throws Exception {
        return described(group).members().stream().map(each -> each.consumerId()).toList();
    }

    private void offsets() {
        passes("alterConsumerGroupOffsets", "listed with metadata", () -> {
            admin.alterConsumerGroupOffsets(EMPTY, Map.of(
                    PLACE, new OffsetAndMetadata(3, "where I was"), OTHER, new OffsetAndMetadata(2)))
                    .all().get();
            Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(EMPTY).partitionsToOffsetAndMetadata().get();
            same(3L, found.get(PLACE).offset());
            same("where I was", found.get(PLACE).metadata());
            same(2L, found.get(OTHER).offset());
        });
        passes("listConsumerGroupOffsets", "what the members committed", () -> {
            Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(LIVE).partitionsToOffsetAndMetadata().get();
            same(5L, found.get(PLACE).offset());
            same(5L, found.get(OTHER).offset());
        });
        passes("listConsumerGroupOffsets of partitions", "one offset, and none where none is", () -> {
            TopicPartition none = new TopicPartition("g-none", 0);
            ListConsumerGroupOffsetsSpec asked =
                    new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(PLACE, none));
            Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(Map.of(EMPTY, asked)).partitionsToOffsetAndMetadata().get();
            same(3L, found.get(PLACE).offset());
            must(found.containsKey(none) && found.get(none) == null, found);
        });
        passes("listConsumerGroupOffsets of several groups", "an answer for each", () -> {
            ListConsumerGroupOffsetsSpec all = new ListConsumerGroupOffsetsSpec();
            same(2, admin.listConsumerGroupOffsets(Map.of(EMPTY, all, LIVE, all)).all().get().size());
        });
        passes("listConsumerGroupOffsets requireStable", "the same offsets", () ->
                same(3L, admin.listConsumerGroupOffsets(
                                EMPTY, new ListConsumerGroupOffsetsOptions().requireStable(true))
                        .partitionsToOffsetAndMetadata().get().get(PLACE).offset()));
        passes("deleteConsumerGroupOffsets", "the other one is left", () -> {
            admin.deleteConsumerGroupOffsets(EMPTY, Set.of(OTHER)).all().get();
            Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets(EMPTY).partitionsToOffsetAndMetadata().get();
            same(Set.of(PLACE), found.keySet());
        });
        fails("deleteConsumerGroupOffsets of an unknown group", GroupIdNotFoundException.class, () ->
                admin.deleteConsumerGroupOffsets("g-nobody", Set.of(PLACE)).all().get());
    }

    private Collection<String> ids(ListGroupsOptions options) throws Exception {
        return admin.listGroups(options).all().get().stream().map(GroupListing::groupId).toList();
    }

    private void list() {
        passes("listGroups", "the groups, their type, protocol and state", () -> {
            Map<String, GroupListing> found = new HashMap<>();
            admin.listGroups().all().get().forEach(each -> found.put(each.groupId(), each));
            must(found.keySet().containsAll(Set.of(LIVE, EMPTY)), found.keySet());
            same(GroupType.CLASSIC, found.get(LIVE).type().get());
            same("consumer", found.get(LIVE).protocol());
            must(found.get(EMPTY).isSimpleConsumerGroup(), found.get(EMPTY));
        });
        passes("listGroups by type", "classic has them, consumer (KIP-848) has none", () -> {
            must(ids(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))).contains(LIVE),
                    "not among the classic");
            must(ids(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).isEmpty(),
                    "one is of KIP-848");
        });
        passes("listGroups by protocol", "consumer has them, connect has none", () -> {
            must(ids(new ListGroupsOptions().withProtocolTypes(Set.of("consumer"))).contains(LIVE),
                    "not among consumers");
            must(ids(new ListGroupsOptions().withProtocolTypes(Set.of("connect"))).isEmpty(),
                    "one is connect's");
        });
        passes("listConsumerGroups", "the groups", () -> must(
                admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(LIVE)),
                "not there"));
        passes("listConsumerGroups by state", "the empty ones", () -> eventually(() -> must(
                admin.listConsumerGroups(
                                new ListConsumerGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)))
                        .all().get().stream().anyMatch(g -> g.groupId().equals(EMPTY)),
                "not there")));
        passes("describeConsumerGroups of an empty one", "Empty, nobody in it", () ->
                same(GroupState.EMPTY, described(EMPTY).groupState()));
        fails("describeConsumerGroups of an unknown one", GroupIdNotFoundException.class, () ->
                described("g-nobody"));
        fails("describeClassicGroups of an unknown one", GroupIdNotFoundException.class, () ->
                admin.describeClassicGroups(Set.of("g-nobody")).all().get());
    }

    private void delete() {
        passes("deleteConsumerGroups", "not listed, no offsets", () -> {
            admin.deleteConsumerGroups(Set.of(EMPTY)).all().get();
            must(!ids(new ListGroupsOptions()).contains(EMPTY), "still listed");
            must(
                    admin.listConsumerGroupOffsets(EMPTY).partitionsToOffsetAndMetadata().get().isEmpty(),
                    "offsets are left");
        });
        fails("deleteConsumerGroups of an unknown one", GroupIdNotFoundException.class, () ->
                admin.deleteConsumerGroups(Set.of("g-nobody")).all().get());
    }
}
