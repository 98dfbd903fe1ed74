// Offsets, deletion of records, producers.

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class RecordCalls extends AdminCalls {
    private static final TopicPartition PLACE = new TopicPartition("r-topic", 0);
    private static final TopicPartition NOWHERE = new TopicPartition("r-nobody", 0);
    private static final long FIRST_MS = 1_700_000_000_000L;

    RecordCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        passes("createTopics for this area", "ten records, the sixth is the newest", () -> {
            admin.createTopics(Set.of(new NewTopic("r-topic", 1, (short) 3)
                    .configs(Map.of("retention.ms", "-1")))).all().get();
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", text("bootstrap"));
            settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                for (int number = 0; number < 10; number++) {
                    long at = FIRST_MS + (number == 5 ? 100_000 : number * 1000);
                    producer.send(new ProducerRecord<>("r-topic", 0, at, "key", "value")).get();
                }
            }
        });
        offsets();
        producers();
        delete();
    }

    private ListOffsetsResultInfo offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(PLACE, spec)).partitionResult(PLACE).get();
    }

    private void offsets() {
        passes("listOffsets earliest", "0", () -> same(0L, offset(OffsetSpec.earliest()).offset()));
        passes("listOffsets latest", "10", () -> same(10L, offset(OffsetSpec.latest()).offset()));
        passes("listOffsets for a time", "the first record from then on, and its time", () -> {
            ListOffsetsResultInfo found = offset(OffsetSpec.forTimestamp(FIRST_MS + 2500));
            same(3L, found.offset());
            same(FIRST_MS + 3000, found.timestamp());
        });
        passes("listOffsets maxTimestamp", "the sixth", () -> {
            same(5L, offset(OffsetSpec.maxTimestamp()).offset());
            same(FIRST_MS + 100_000, offset(OffsetSpec.maxTimestamp()).timestamp());
        });
        passes("listOffsets earliestLocal", "0", () ->
                same(0L, offset(OffsetSpec.earliestLocal()).offset()));
        passes("listOffsets latestTiered", "-1, nothing is in tiers", () ->
                same(-1L, offset(OffsetSpec.latestTiered()).offset()));
        passes("listOffsets earliestPendingUpload", "-1, nothing is in tiers", () ->
                same(-1L, offset(OffsetSpec.earliestPendingUpload()).offset()));
        passes("listOffsets read_committed", "10", () -> same(10L,
                admin.listOffsets(Map.of(PLACE, OffsetSpec.latest()),
                        new ListOffsetsOptions(IsolationLevel.READ_COMMITTED))
                        .partitionResult(PLACE).get().offset()));
        fails("listOffsets of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                admin.listOffsets(Map.of(NOWHERE, OffsetSpec.latest())).all().get());
    }

    private void producers() {
        passes("describeProducers", "the idempotent one, its last sequence", () -> {
            PartitionProducerState found = admin.describeProducers(Set.of(PLACE)).partitionResult(PLACE).get();
            same(1, found.activeProducers().size());
            same(9, found.activeProducers().get(0).lastSequence());
            must(found.activeProducers().get(0).currentTransactionStartOffset().isEmpty(), found);
        });
        passes("describeProducers on a broker", "the same on each replica", () -> {
            for (int broker = 1; broker <= 3; broker++) {
                int asked = broker;
                eventually(() -> same(9, admin.describeProducers(
                                Set.of(PLACE), new DescribeProducersOptions().brokerId(asked))
                        .partitionResult(PLACE).get().activeProducers().get(0).lastSequence()));
            }
        });
    }

    private void delete() {
        passes("deleteRecords", "low watermark 4, and so the earliest offset", () -> {
            same(4L, admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(4)))
                    .lowWatermarks().get(PLACE).get().lowWatermark());
            same(4L, offset(OffsetSpec.earliest()).offset());
        });
        passes("deleteRecords below the log's start", "nothing changes", () ->
                same(4L, admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(2)))
                        .lowWatermarks().get(PLACE).get().lowWatermark()));
        fails("deleteRecords beyond the end", OffsetOutOfRangeException.class, () ->
                admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(99))).all().get());
        passes("deleteRecords, all", "low watermark 10", () ->
                same(10L, admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(-1)))
                        .lowWatermarks().get(PLACE).get().lowWatermark()));
    }
}
