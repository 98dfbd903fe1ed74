// One JVM for all of Kafka's tools: a start costs a second or two, and there are some ninety commands.
//
// Reads requests from standard input, one JSON object a line, and answers each with one line:
//   {"main": class, "args": [...], "stdin": text, "timeout_ms": n, "endless": false}
//                                                                     -> {"code", "output", "ms"}
//   {"admin": area, "with": {...}, "timeout_ms": n}                   -> {"rows": [...], "ms"}
// "code" is null if the tool did not end in time, which is what an endless one is left alone for. What a tool
// prints, on either stream, is its output. Its shutdown hooks run when it has ended.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

public final class ToolHost {
    private static final long HOOKS_MS = 5_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Where a thread and those that it starts print; a tool that hangs can't print into the next one's. */
    private static final InheritableThreadLocal<ByteArrayOutputStream> PRINTED =
            new InheritableThreadLocal<>();

    /** Kafka's tools end with Exit.exit, which must not return. An Error, for what catches exceptions. */
    private static final class Ended extends Error {
        Ended(int code) {
            super("exit " + code, null, false, false);
        }
    }

    private static final class Run {
        volatile Integer code;
        final List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
    }

    private static final InheritableThreadLocal<Run> RUN = new InheritableThreadLocal<>();

    public static void main(String[] unused) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream routed = new PrintStream(new Routed(), true, StandardCharsets.UTF_8);
        System.setOut(routed);
        System.setErr(routed);
        Exit.Procedure end = (code, message) -> {
            Run run = RUN.get();
            // The first counts: some tools call exit again when they catch what the first one throws.
            if (run != null && run.code == null) {
                run.code = code;
            }
            throw new Ended(code);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        takeShutdownHooks();
        Exit.setShutdownHookAdder((name, hook) -> {
            Run run = RUN.get();
            if (run != null) {
                run.hooks.add(hook);
            }
        });
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readValue(line, Map.class))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answer(Map<?, ?> request) throws InterruptedException {
        long timeout = ((Number) request.get("timeout_ms")).longValue();
        long began = System.nanoTime();
        Map<String, Object> answer = new LinkedHashMap<>();
        if (request.containsKey("admin")) {
            answer.put("rows", AdminCalls.run(request));
        } else {
            tool(request, timeout, answer);
        }
        answer.put("ms", (System.nanoTime() - began) / 1_000_000);
        return answer;
    }

    private static void tool(Map<?, ?> request, long timeout, Map<String, Object> answer)
            throws InterruptedException {
        String text = request.get("stdin") == null ? "" : (String) request.get("stdin");
        System.setIn(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
        String[] args = ((List<?>) request.get("args")).toArray(String[]::new);
        String main = (String) request.get("main");
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        Run run = new Run();
        Thread thread = new Thread(() -> {
            PRINTED.set(printed);
            RUN.set(run);
            try {
                Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) args);
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Ended)) {
                    thrown.getCause().printStackTrace();
                    run.code = run.code == null ? 1 : run.code;
                }
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
                run.code = 1;
            }
            run.code = run.code == null ? 0 : run.code;
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(timeout);
        boolean hangs = thread.isAlive();
        if (Boolean.TRUE.equals(request.get("endless"))) {
            Thread.sleep(timeout);
        }
        Thread hooks = new Thread(() -> {
            PRINTED.set(printed);
            List.copyOf(run.hooks).forEach(Runnable::run);
            takeShutdownHooks().forEach(Runnable::run);
        });
        hooks.setDaemon(true);
        hooks.start();
        hooks.join(HOOKS_MS);
        thread.interrupt();
        answer.put("code", hangs ? null : run.code);
        answer.put("output", printed.toString(StandardCharsets.UTF_8));
    }

    /** Some tools have theirs from the JVM itself, which would run them at its own end. */
    private static List<Runnable> takeShutdownHooks() {
        try {
            Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            field.setAccessible(true);
            Map<?, ?> hooks = (Map<?, ?>) field.get(null);
            List<Runnable> taken = new ArrayList<>();
            for (Object each : hooks.keySet()) {
                taken.add((Runnable) each);
            }
            hooks.clear();
            return taken;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static final class Routed extends OutputStream {
        @Override
        public void write(int one) {
            ByteArrayOutputStream printed = PRINTED.get();
            if (printed != null) {
                printed.write(one);
            }
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            ByteArrayOutputStream printed = PRINTED.get();
            if (printed != null) {
                printed.write(bytes, offset, length);
            }
        }
    }
}
