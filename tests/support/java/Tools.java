import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other: each would need a second to start a JVM of its own.
 *
 * In: the count of parts, then each with its length: a main class, its standard input, arguments.
 * Out: the exit code, standard output, standard error.
 */
public class Tools {
    /** What would have ended the JVM. */
    static class Exited extends Error {
        final int code;

        Exited(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    /** Where a stream of the running tool goes; Scala's Console keeps the first that it sees. */
    static class Captured extends OutputStream {
        private ByteArrayOutputStream said = new ByteArrayOutputStream();
        private boolean open;

        @Override
        public synchronized void write(int octet) {
            if (open) said.write(octet);
        }

        @Override
        public synchronized void write(byte[] octets, int from, int length) {
            if (open) said.write(octets, from, length);
        }

        synchronized void begin() {
            said = new ByteArrayOutputStream();
            open = true;
        }

        synchronized void end() {
            open = false;
        }

        synchronized byte[] taken() {
            open = false;
            return said.toByteArray();
        }
    }

    static final Captured OUT = new Captured();
    static final Captured ERR = new Captured();
    static final List<Runnable> HOOKS = new ArrayList<>();
    static Integer exitCode;

    public static void main(String[] ignored) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> { synchronized (HOOKS) { HOOKS.add(hook); } });
        while (true) {
            List<byte[]> parts = new ArrayList<>();
            try {
                for (int left = requests.readInt(); left > 0; left--)
                    parts.add(requests.readNBytes(requests.readInt()));
            } catch (EOFException end) {
                return;
            }
            answers.writeInt(run(parts));
            for (Captured stream : List.of(OUT, ERR)) {
                byte[] said = stream.taken();
                answers.writeInt(said.length);
                answers.write(said);
            }
            answers.flush();
        }
    }

    static int run(List<byte[]> parts) throws IOException {
        List<String> words = new ArrayList<>();
        for (byte[] part : parts) words.add(new String(part, StandardCharsets.UTF_8));
        synchronized (Tools.class) { exitCode = null; }
        System.setIn(new ByteArrayInputStream(parts.get(1)));
        OUT.begin();
        ERR.begin();
        int code = 0;
        try {
            Object arguments = words.subList(2, words.size()).toArray(new String[0]);
            Class.forName(words.get(0)).getMethod("main", String[].class).invoke(null, arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace();
                code = 1;
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            code = 1;
        }
        synchronized (Tools.class) { if (exitCode != null) code = exitCode; }
        runHooks();
        System.out.flush();
        System.err.flush();
        return code;
    }

    /** The first counts: a tool may catch what ends it, and go on. */
    static void exit(int code) {
        synchronized (Tools.class) {
            if (exitCode == null) {
                exitCode = code;
                System.out.flush();
                System.err.flush();
                OUT.end();
                ERR.end();
            }
        }
        throw new Exited(code);
    }

    /** As at the end of the JVM that the tool would have had. */
    static void runHooks() {
        List<Runnable> hooks;
        synchronized (HOOKS) {
            hooks = new ArrayList<>(HOOKS);
            HOOKS.clear();
        }
        for (Runnable hook : hooks) {
            try {
                hook.run();
            } catch (Throwable problem) {
                problem.printStackTrace();
            }
        }
    }
}
