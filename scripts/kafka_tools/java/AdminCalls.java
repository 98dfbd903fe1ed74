// How calls of AdminClient are made and judged. Each gives a row: call, checked, result, detail, ms.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

abstract class AdminCalls implements AutoCloseable {
    interface Call {
        void run() throws Exception;
    }

    private static final long EVENTUALLY_MS = 15_000;

    final Admin admin;
    private final Map<?, ?> with;
    private final List<Map<String, Object>> rows = new ArrayList<>();
    private final String area;

    AdminCalls(Map<?, ?> request) {
        this.area = (String) request.get("admin");
        this.with = (Map<?, ?>) request.get("with");
        this.admin = client("bootstrap.servers", text("bootstrap"));
    }

    /** Make the calls of the area that is asked for. */
    static List<Map<String, Object>> run(Map<?, ?> request) {
        try (AdminCalls calls = of(request)) {
            calls.all();
            return calls.rows;
        }
    }

    private static AdminCalls of(Map<?, ?> request) {
        return switch ((String) request.get("admin")) {
            case "topics" -> new TopicCalls(request);
            case "configs" -> new ConfigCalls(request);
            case "groups" -> new GroupCalls(request);
            case "records" -> new RecordCalls(request);
            case "replicas" -> new ReplicaCalls(request);
            case "cluster" -> new ClusterCalls(request);
            case "quotas" -> new QuotaCalls(request);
            case "refused" -> new RefusedCalls(request);
            default -> throw new IllegalArgumentException("no area " + request.get("admin"));
        };
    }

    /** Make all calls of this area. */
    abstract void all();

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
