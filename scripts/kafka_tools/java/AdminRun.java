// How calls of AdminClient are made and judged. Each gives a row: call, checked, result, detail, ms.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

final class AdminRun implements AutoCloseable {
    interface Call {
        void run() throws Exception;
    }

    private static final long EVENTUALLY_MS = 15_000;

    final Admin admin;
    final Map<?, ?> with;
    private final List<Map<String, Object>> rows = new ArrayList<>();
    private final String area;

    private AdminRun(String area, Map<?, ?> with) {
        this.area = area;
        this.with = with;
        this.admin = client("bootstrap.servers", (String) with.get("bootstrap"));
    }

    static List<Map<String, Object>> run(Map<?, ?> request) {
        String area = (String) request.get("admin");
        try (AdminRun run = new AdminRun(area, (Map<?, ?>) request.get("with"))) {
            switch (area) {
                case "topics" -> new TopicCalls(run).all();
                case "configs" -> new ConfigCalls(run).all();
                case "groups" -> new GroupCalls(run).all();
                case "records" -> new RecordCalls(run).all();
                case "replicas" -> new ReplicaCalls(run).all();
                case "cluster" -> new ClusterCalls(run).all();
                case "quotas" -> new QuotaCalls(run).all();
                case "refused" -> new RefusedCalls(run).all();
                default -> throw new IllegalArgumentException(area);
            }
            return run.rows;
        }
    }

    static Admin client(String key, String addresses) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(key, addresses);
        settings.put("default.api.timeout.ms", 15_000);
        settings.put("request.timeout.ms", 10_000);
        return Admin.create(settings);
    }

    String text(String key) {
        return (String) with.get(key);
    }

    /** The call has to succeed, with what `checked` says. */
    void passes(String call, String checked, Call body) {
        judge(call, checked, body, error -> error == null ? "pass" : "fail");
    }

    /** The call has to fail with Kafka's exception. */
    void fails(String call, Class<? extends Throwable> with, Call body) {
        judge(call, with.getSimpleName(), body, error -> with.isInstance(error) ? "pass" : "fail");
    }

    /** What we don't serve has to say so at once, by an error of the protocol. */
    void refused(String call, String reason, Call body) {
        judge(call, reason, body, error -> {
            boolean said = error instanceof ApiException && !(error instanceof TimeoutException);
            return error == null ? "pass" : said ? "not served" : "fail";
        });
    }

    private interface Verdict {
        String of(Throwable error);
    }

    private void judge(String call, String checked, Call body, Verdict verdict) {
        long began = System.nanoTime();
        Throwable error = null;
        try {
            body.run();
        } catch (Throwable thrown) {
            error = cause(thrown);
        }
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("area", area);
        row.put("call", call);
        row.put("checked", checked);
        row.put("result", verdict.of(error));
        row.put("detail", error == null ? "" : error.getClass().getSimpleName() + ": " + error.getMessage());
        row.put("ms", (System.nanoTime() - began) / 1_000_000);
        rows.add(row);
    }

    private static Throwable cause(Throwable thrown) {
        boolean wrapped = thrown instanceof ExecutionException && thrown.getCause() != null;
        return wrapped ? cause(thrown.getCause()) : thrown;
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get();
    }

    static void must(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static void same(Object expected, Object found) {
        must(expected.equals(found), "expected " + expected + ", not " + found);
    }

    /** A broker may not have heard yet of what another one has answered. */
    static void eventually(Call body) throws Exception {
        long deadline = System.currentTimeMillis() + EVENTUALLY_MS;
        while (true) {
            try {
                body.run();
                return;
            } catch (Exception | AssertionError error) {
                boolean hopeless = cause(error) instanceof UnsupportedVersionException;
                if (hopeless || System.currentTimeMillis() > deadline) {
                    throw error;
                }
                Thread.sleep(50);
            }
        }
    }

    @Override
    public void close() {
        admin.close();
    }
}
