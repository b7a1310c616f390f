import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes 50 records in each codec to partition 0, for other clients to read. */
public final class Write {
    private static final long START_MS = 1_700_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int number = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Map<String, Object> options =
                Settings.of(Map.of("bootstrap.servers", arguments[0], "compression.type", codec));
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                options, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int i = 0; i < 50; i++, number++) {
                    String value = (codec + " " + number + " ").repeat(20);
                    ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(
                        topic, 0, START_MS + number, bytes("key " + number), bytes(value));
                    made.headers().add("h", bytes("x"));
                    producer.send(made);
                }
                producer.flush();
            }
        }
        System.out.println("ok");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
