// Client quotas.

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

final class QuotaCalls extends AdminCalls {
    QuotaCalls(Map<?, ?> request) {
        super(request);
    }

    @Override
    void all() {
        set("a user", entity("user", "q-alice"), "producer_byte_rate", 1_000_000.0);
        set("a client id", entity("client-id", "q-app"), "consumer_byte_rate", 2_000_000.0);
        set("a user's client id", entity("user", "q-alice", "client-id", "q-app"), "request_percentage", 50.0);
        set("the default user", entity("user", null), "controller_mutation_rate", 10.0);
        set("an address", entity("ip", "127.0.0.9"), "connection_creation_rate", 100.0);
        passes("describeClientQuotas, any user", "the named one and the default", () ->
                eventually(() -> {
                    Collection<ClientQuotaEntity> found = quotas(ClientQuotaFilter.containsOnly(
                            List.of(ClientQuotaFilterComponent.ofEntityType("user")))).keySet();
                    must(found.contains(entity("user", "q-alice")), found);
                    must(found.contains(entity("user", null)), found);
                    same(2, found.size());
                }));
        passes("describeClientQuotas, the default user", "that one only", () ->
                same(List.of(entity("user", null)), List.copyOf(quotas(ClientQuotaFilter.containsOnly(
                        List.of(ClientQuotaFilterComponent.ofDefaultEntity("user")))).keySet())));
        passes("describeClientQuotas, all", "all that were set", () ->
                same(5, quotas(ClientQuotaFilter.all()).size()));
        passes("alterClientQuotas validateOnly", "nothing is changed", () -> {
            admin.alterClientQuotas(
                    List.of(alteration(entity("user", "q-dry"), "producer_byte_rate", 1.0)),
                    new AlterClientQuotasOptions().validateOnly(true)).all().get();
            same(5, quotas(ClientQuotaFilter.all()).size());
        });
        fails("alterClientQuotas, unknown quota", InvalidRequestException.class, () ->
                alter(entity("user", "q-alice"), "no_such_rate", 1.0));
        passes("alterClientQuotas, remove", "none is left", () -> {
            alter(entity("user", "q-alice"), "producer_byte_rate", null);
            alter(entity("client-id", "q-app"), "consumer_byte_rate", null);
            alter(entity("user", "q-alice", "client-id", "q-app"), "request_percentage", null);
            alter(entity("user", null), "controller_mutation_rate", null);
            alter(entity("ip", "127.0.0.9"), "connection_creation_rate", null);
            eventually(() ->
                    must(quotas(ClientQuotaFilter.all()).isEmpty(), quotas(ClientQuotaFilter.all())));
        });
    }

    private void set(String whose, ClientQuotaEntity entity, String key, double value) {
        passes("alterClientQuotas of " + whose, key + " is described", () -> {
            alter(entity, key, value);
            eventually(() -> same(Map.of(key, value), quotas(ClientQuotaFilter.all()).get(entity)));
        });
    }

    private static ClientQuotaEntity entity(String... names) {
        Map<String, String> entries = new HashMap<>();
        for (int place = 0; place < names.length; place += 2) {
            entries.put(names[place], names[place + 1]);
        }
        return new ClientQuotaEntity(entries);
    }

    private static ClientQuotaAlteration alteration(ClientQuotaEntity entity, String key, Double value) {
        return new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)));
    }

    private void alter(ClientQuotaEntity entity, String key, Double value) throws Exception {
        admin.alterClientQuotas(List.of(alteration(entity, key, value))).all().get();
    }

    private Map<ClientQuotaEntity, Map<String, Double>> quotas(ClientQuotaFilter filter) throws Exception {
        return admin.describeClientQuotas(filter).entities().get();
    }
}
