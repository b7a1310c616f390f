import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** For each certificate (hexadecimal, a line each): its subject, and the user by the given rules. */
public class Subjects {
    public static void main(String[] arguments) throws Exception {
        SslPrincipalMapper mapper = SslPrincipalMapper.fromRules(arguments[0]);
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            byte[] der = HexFormat.of().parseHex(line);
            X509Certificate found =
                (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
            String subject = found.getSubjectX500Principal().getName();
            String user;
            try {
                user = mapper.getName(subject);
            } catch (Exception none) {
                user = null;
            }
            out.println(hex(subject) + " " + (user == null ? "-" : hex(user)));
        }
    }

    private static String hex(String text) {
        return "x" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
