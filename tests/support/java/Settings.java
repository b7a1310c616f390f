import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** Options of a client, with those of the file -Dclient.properties, if there is one. */
final class Settings {
    private Settings() {}

    static Map<String, Object> of(Map<String, Object> given) {
        Map<String, Object> all = new HashMap<>();
        // A call may take as long as a busy machine needs.
        for (String limit : new String[] {"default.api.timeout.ms", "delivery.timeout.ms", "max.block.ms"}) {
            all.put(limit, "180000");
        }
        String file = System.getProperty("client.properties");
        if (file != null) {
            Properties read = new Properties();
            try (Reader reader = new FileReader(file)) {
                read.load(reader);
            } catch (IOException problem) {
                throw new IllegalArgumentException(file, problem);
            }
            read.forEach((name, value) -> all.put((String) name, value));
        }
        all.putAll(given);
        return all;
    }
}
