// Kafka's StandardAuthorizer, asked one decision after the other.
//
// Reads lines of fields that tabs separate, and answers `end` with one line: A or D for each question since
// the last one, allowed or denied.
//   new     allow.everyone.if.no.acl.found, super.users    another authorizer, without ACLs
//   hold    id, ACL                                        an ACL of the snapshot that `load` loads
//   load                                                   the snapshot is loaded, which drops other ACLs
//   add     id, ACL                                        an ACL: type, name, pattern, principal, host,
//   remove  id                                                          operation, permission
//   ask     principal type, name, host, operation, type, name
//   some    principal type, name, host, operation, type    may it with at least one resource of the type?
//   end

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public final class AuthorizerDecisions {
    /** A request of which an authorizer may know who sent it, and from where. */
    private record Asker(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "SASL_SSL";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "decisions";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    private StandardAuthorizer authorizer;
    private final Map<Uuid, StandardAcl> snapshot = new HashMap<>();
    private final StringBuilder answers = new StringBuilder();

    public static void main(String[] unused) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        AuthorizerDecisions decisions = new AuthorizerDecisions();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("end")) {
                out.println(decisions.answers);
                out.flush();
                decisions.answers.setLength(0);
            } else {
                decisions.take(line.split("\t", -1));
            }
        }
        // The exit code of a JVM that was killed is another one.
        System.exit(0);
    }

    private void take(String[] words) throws Exception {
        switch (words[0]) {
            case "new" -> {
                authorizer = new StandardAuthorizer();
                authorizer.configure(Map.of(
                        "allow.everyone.if.no.acl.found", words[1], "super.users", words[2]));
                authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                snapshot.clear();
            }
            case "hold" -> snapshot.put(id(words[1]), acl(words));
            case "load" -> {
                authorizer.loadSnapshot(new HashMap<>(snapshot));
                authorizer.completeInitialLoad();
                snapshot.clear();
            }
            case "add" -> authorizer.addAcl(id(words[1]), acl(words));
            case "remove" -> authorizer.removeAcl(id(words[1]));
            case "ask" -> {
                ResourcePattern resource =
                        new ResourcePattern(ResourceType.valueOf(words[5]), words[6], PatternType.LITERAL);
                Action action = new Action(AclOperation.valueOf(words[4]), resource, 1, false, false);
                answer(authorizer.authorize(asker(words), List.of(action)).get(0));
            }
            case "some" -> answer(authorizer.authorizeByResourceType(
                    asker(words), AclOperation.valueOf(words[4]), ResourceType.valueOf(words[5])));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void answer(AuthorizationResult result) {
        answers.append(result == AuthorizationResult.ALLOWED ? 'A' : 'D');
    }

    private static Uuid id(String number) {
        return new Uuid(1, Long.parseLong(number));
    }

    private static StandardAcl acl(String[] words) {
        return new StandardAcl(
                ResourceType.valueOf(words[2]),
                words[3],
                PatternType.valueOf(words[4]),
                words[5],
                words[6],
                AclOperation.valueOf(words[7]),
                AclPermissionType.valueOf(words[8]));
    }

    private static Asker asker(String[] words) throws Exception {
        // An address as text is no name, so nobody is asked for it.
        return new Asker(new KafkaPrincipal(words[1], words[2]), InetAddress.getByName(words[3]));
    }
}
