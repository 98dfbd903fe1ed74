// Settings of topics, brokers and groups.

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class ConfigCalls extends AdminCalls {
    private static final ConfigResource TOPIC = new ConfigResource(Type.TOPIC, "c-topic");
    private static final ConfigResource BROKER = new ConfigResource(Type.BROKER, "1");
    private static final ConfigResource ALL_BROKERS = new ConfigResource(Type.BROKER, "");
    private static final ConfigResource GROUP = new ConfigResource(Type.GROUP, "c-group");

    ConfigCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        passes("createTopics for this area", "a topic with a setting of its own", () ->
                admin.createTopics(Set.of(new NewTopic("c-topic", 1, (short) 3)
                        .configs(Map.of("retention.ms", "600000")))).all().get());
        describe();
        alterTopics();
        alterBrokers();
        alterGroups();
        refuse();
        list();
    }

    private Config described(ConfigResource of) throws Exception {
        return described(of, new DescribeConfigsOptions());
    }

    private Config described(ConfigResource of, DescribeConfigsOptions options) throws Exception {
        return admin.describeConfigs(Set.of(of), options).all().get().get(of);
    }

    private void alter(ConfigResource of, OpType type, String key, String value) throws Exception {
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(key, value), type);
        admin.incrementalAlterConfigs(Map.of(of, List.of(op))).all().get();
    }

    /** Brokers learn of a change by the log, one after the other. */
    private void becomes(ConfigResource of, String key, String value, ConfigSource source)
            throws Exception {
        eventually(() -> {
            ConfigEntry found = described(of).get(key);
            must(found != null, key + " is not there");
            same(value, found.value());
            same(source, found.source());
        });
    }

    private void describe() {
        passes("describeConfigs of a topic", "value, source and type of two settings", () ->
                eventually(() -> {
                    Config found = described(TOPIC);
                    same("600000", found.get("retention.ms").value());
                    same(ConfigSource.DYNAMIC_TOPIC_CONFIG, found.get("retention.ms").source());
                    same(ConfigEntry.ConfigType.LONG, found.get("retention.ms").type());
                    must(found.get("segment.bytes").isDefault(), found.get("segment.bytes"));
                }));
        passes("describeConfigs with synonyms", "the topic's value before the broker's", () -> {
            List<ConfigEntry.ConfigSynonym> found =
                    described(TOPIC, new DescribeConfigsOptions().includeSynonyms(true))
                            .get("min.insync.replicas").synonyms();
            same(ConfigSource.STATIC_BROKER_CONFIG, found.get(0).source());
            same("min.insync.replicas", found.get(0).name());
            same("600000", described(TOPIC, new DescribeConfigsOptions().includeSynonyms(true))
                    .get("retention.ms").synonyms().get(0).value());
        });
        passes("describeConfigs with documentation", "a text for each setting", () -> {
            Config found = described(TOPIC, new DescribeConfigsOptions().includeDocumentation(true));
            for (ConfigEntry each : found.entries()) {
                must(each.documentation() != null && !each.documentation().isEmpty(), each);
            }
        });
        passes("describeConfigs of a broker", "node.id and advertised.listeners, read only", () -> {
            Config found = described(BROKER);
            same("1", found.get("node.id").value());
            same(ConfigSource.STATIC_BROKER_CONFIG, found.get("node.id").source());
            must(found.get("node.id").isReadOnly(), "node.id can be changed");
            must(found.get("advertised.listeners").value().startsWith("PLAINTEXT://"),
                    found.get("advertised.listeners"));
        });
        passes("describeConfigs of all brokers' default", "no setting yet", () ->
                must(described(ALL_BROKERS).entries().isEmpty(), described(ALL_BROKERS).entries()));
        passes("describeConfigs of several", "topic and broker in one answer", () ->
                same(2, admin.describeConfigs(Set.of(TOPIC, BROKER)).all().get().size()));
        passes("describeConfigs of a group", "consumer.session.timeout.ms with its default", () ->
                must(described(GROUP).get("consumer.session.timeout.ms").isDefault(),
                        described(GROUP)));
        passes("describeConfigs of a broker's loggers", "the level of the root logger", () ->
                must(!described(new ConfigResource(Type.BROKER_LOGGER, "1")).entries().isEmpty(),
                        "there are none"));
        fails("describeConfigs of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                described(new ConfigResource(Type.TOPIC, "c-nobody")));
    }

    private void alterTopics() {
        passes("incrementalAlterConfigs SET on a topic", "the value is described", () -> {
            alter(TOPIC, OpType.SET, "retention.ms", "1200000");
            becomes(TOPIC, "retention.ms", "1200000", ConfigSource.DYNAMIC_TOPIC_CONFIG);
        });
        passes("incrementalAlterConfigs DELETE on a topic", "the default is back", () -> {
            alter(TOPIC, OpType.DELETE, "retention.ms", "");
            becomes(TOPIC, "retention.ms", "604800000", ConfigSource.DEFAULT_CONFIG);
        });
        passes("incrementalAlterConfigs APPEND", "the list has one more", () -> {
            alter(TOPIC, OpType.APPEND, "cleanup.policy", "compact");
            becomes(TOPIC, "cleanup.policy", "delete,compact", ConfigSource.DYNAMIC_TOPIC_CONFIG);
        });
        passes("incrementalAlterConfigs SUBTRACT", "the list has one less", () -> {
            alter(TOPIC, OpType.SUBTRACT, "cleanup.policy", "compact");
            becomes(TOPIC, "cleanup.policy", "delete", ConfigSource.DYNAMIC_TOPIC_CONFIG);
        });
        passes("incrementalAlterConfigs of several settings", "all are described", () -> {
            Collection<AlterConfigOp> ops = List.of(
                    new AlterConfigOp(new ConfigEntry("segment.bytes", "2097152"), OpType.SET),
                    new AlterConfigOp(new ConfigEntry("max.message.bytes", "50000"), OpType.SET));
            admin.incrementalAlterConfigs(Map.of(TOPIC, ops)).all().get();
            becomes(TOPIC, "segment.bytes", "2097152", ConfigSource.DYNAMIC_TOPIC_CONFIG);
            becomes(TOPIC, "max.message.bytes", "50000", ConfigSource.DYNAMIC_TOPIC_CONFIG);
        });
        passes("incrementalAlterConfigs validateOnly", "nothing is changed", () -> {
            AlterConfigOp op = new AlterConfigOp(new ConfigEntry("segment.ms", "77"), OpType.SET);
            admin.incrementalAlterConfigs(
                    Map.of(TOPIC, List.of(op)), new AlterConfigsOptions().validateOnly(true)).all().get();
            must(!"77".equals(described(TOPIC).get("segment.ms").value()), "it was set");
        });
    }

    private void alterBrokers() {
        passes("incrementalAlterConfigs SET on a broker", "source DYNAMIC_BROKER_CONFIG", () -> {
            alter(BROKER, OpType.SET, "log.retention.ms", "300000000");
            becomes(BROKER, "log.retention.ms", "300000000", ConfigSource.DYNAMIC_BROKER_CONFIG);
        });
        passes("incrementalAlterConfigs DELETE on a broker", "the value is gone", () -> {
            alter(BROKER, OpType.DELETE, "log.retention.ms", "");
            eventually(() -> must(
                    described(BROKER).get("log.retention.ms").source() != ConfigSource.DYNAMIC_BROKER_CONFIG,
                    described(BROKER).get("log.retention.ms")));
        });
        passes("incrementalAlterConfigs on all brokers", "DYNAMIC_DEFAULT_BROKER_CONFIG on one", () -> {
            alter(ALL_BROKERS, OpType.SET, "log.cleaner.threads", "2");
            becomes(BROKER, "log.cleaner.threads", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);
            eventually(() -> same("2", described(ALL_BROKERS).get("log.cleaner.threads").value()));
            alter(ALL_BROKERS, OpType.DELETE, "log.cleaner.threads", "");
        });
        passes("incrementalAlterConfigs of a broker's logger", "the level is described", () -> {
            ConfigResource loggers = new ConfigResource(Type.BROKER_LOGGER, "1");
            String logger = described(loggers).entries().iterator().next().name();
            alter(loggers, OpType.SET, logger, "DEBUG");
            eventually(() -> same("DEBUG", described(loggers).get(logger).value()));
            alter(loggers, OpType.SET, logger, "INFO");
        });
    }

    private void alterGroups() {
        passes("incrementalAlterConfigs SET on a group", "source GROUP_CONFIG", () -> {
            alter(GROUP, OpType.SET, "consumer.session.timeout.ms", "50000");
            becomes(GROUP, "consumer.session.timeout.ms", "50000", ConfigSource.DYNAMIC_GROUP_CONFIG);
        });
    }

    private void refuse() {
        fails("incrementalAlterConfigs, bad value", InvalidConfigurationException.class, () ->
                alter(TOPIC, OpType.SET, "retention.ms", "soon"));
        fails("incrementalAlterConfigs, unknown setting", InvalidConfigurationException.class, () ->
                alter(TOPIC, OpType.SET, "no.such.key", "1"));
        fails("incrementalAlterConfigs, APPEND to a number", InvalidConfigurationException.class, () ->
                alter(TOPIC, OpType.APPEND, "retention.ms", "1"));
        fails("incrementalAlterConfigs of an unknown topic", UnknownTopicOrPartitionException.class, () ->
                alter(new ConfigResource(Type.TOPIC, "c-nobody"), OpType.SET, "retention.ms", "1"));
        fails("incrementalAlterConfigs, a read-only setting", InvalidRequestException.class, () ->
                alter(BROKER, OpType.SET, "node.id", "9"));
    }

    private void list() {
        passes("listConfigResources", "topics, brokers and the group", () -> eventually(() -> {
            Collection<ConfigResource> found = admin.listConfigResources().all().get();
            must(found.containsAll(Set.of(TOPIC, BROKER, GROUP)), found);
        }));
        for (ConfigResource each : List.of(TOPIC, BROKER, GROUP)) {
            passes("listConfigResources of type " + each.type(), "these only", () ->
                    eventually(() -> {
                        Collection<ConfigResource> found = admin.listConfigResources(
                                Set.of(each.type()), new ListConfigResourcesOptions()).all().get();
                        must(found.contains(each), found);
                        must(found.stream().allMatch(one -> one.type() == each.type()), found);
                    }));
        }
        passes("incrementalAlterConfigs DELETE on a group", "nothing of its own is left", () -> {
            alter(GROUP, OpType.DELETE, "consumer.session.timeout.ms", "");
            eventually(() -> must(
                    described(GROUP).get("consumer.session.timeout.ms").isDefault(), described(GROUP)));
        });
    }
}
