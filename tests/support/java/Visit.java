import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A whole visit to a broker with Kafka's own client: topics, configs, every codec, every acks,
 * idempotence, headers, nulls, timestamps, seek by time, a 10 MB record, trimming, deletes.
 * Prints "ok" and exits with 0, or says what was not as it should be and exits with 1.
 */
public final class Visit {
    private static final long START_MS = 1_700_000_000_000L;
    private static final int PER_CODEC = 20;
    private static final int LARGE_BYTES = 10_000_000;
    private static final int BROKERS =
        Integer.parseInt(System.getenv().getOrDefault("BROKERS", "1"));
    private static final short REPLICAS = (short) Math.min(BROKERS, 3);

    private final String servers;
    private final String topic;
    private final TopicPartition partition;
    private int sent;

    private Visit(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
        this.partition = new TopicPartition(topic, 0);
    }

    public static void main(String[] arguments) {
        try {
            new Visit(arguments[0], arguments[1]).all();
            System.out.println("ok");
            System.exit(0);
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
    }

    private static void expect(Object wanted, Object got, String what) {
        if (!Objects.equals(wanted, got)) {
            throw new AssertionError(what + ": expected " + wanted + ", got " + got);
        }
    }

    private void all() throws Exception {
        try (Admin admin = Admin.create(Settings.of(Map.of("bootstrap.servers", servers)))) {
            create(admin);
            produce();
            consume();
            large(admin);
            administer(admin);
        }
    }

    private void create(Admin admin) throws Exception {
        NewTopic wanted = new NewTopic(topic, Optional.of(1), Optional.of(REPLICAS))
            .configs(Map.of("max.message.bytes", "20000000"));
        admin.createTopics(List.of(wanted)).all().get();
        try {
            admin.createTopics(List.of(wanted)).all().get();
            throw new AssertionError("a second topic of the same name was made");
        } catch (ExecutionException refused) {
            expect(TopicExistsException.class, refused.getCause().getClass(), "refusal");
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private ProducerRecord<byte[], byte[]> record(int number) {
        byte[] key = number % 5 == 0 ? null : bytes("key " + number);
        byte[] value = number % 7 == 0 ? null : bytes("value " + number);
        ProducerRecord<byte[], byte[]> made =
            new ProducerRecord<>(topic, 0, START_MS + number * 1000L, key, value);
        made.headers().add("h", bytes("x")).add("none", null);
        return made;
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> options = Settings.of(more);
        options.put("bootstrap.servers", servers);
        return new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void produce() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            for (String acks : List.of("idempotent", "all", "1", "0")) {
                boolean idempotent = acks.equals("idempotent");
                Map<String, Object> options = Map.of(
                    "compression.type", codec,
                    "acks", idempotent ? "all" : acks,
                    "enable.idempotence", idempotent,
                    "linger.ms", 5);
                List<Future<RecordMetadata>> waiting = new ArrayList<>();
                try (KafkaProducer<byte[], byte[]> producer = producer(options)) {
                    for (int i = 0; i < PER_CODEC; i++) {
                        waiting.add(producer.send(record(sent + i)));
                    }
                }
                for (int i = 0; i < PER_CODEC; i++) {
                    long offset = waiting.get(i).get().offset();
                    expect(acks.equals("0") ? -1L : (long) sent + i, offset, "offset, " + acks);
                }
                sent += PER_CODEC;
                // With acks=0 nothing says that the records are there: the end offset does.
                awaitEnd(sent);
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> options = Settings.of(Map.of(
            "bootstrap.servers", servers,
            "enable.auto.commit", false,
            "check.crcs", true,
            "auto.offset.reset", "none"));
        KafkaConsumer<byte[], byte[]> made =
            new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        made.assign(List.of(partition));
        return made;
    }

    private void awaitEnd(long wanted) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            long deadline = System.nanoTime() + Duration.ofSeconds(180).toNanos();
            while (consumer.endOffsets(List.of(partition)).get(partition) < wanted) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("the end offset never came to " + wanted);
                }
            }
        }
    }

    private static ConsumerRecord<byte[], byte[]> next(KafkaConsumer<byte[], byte[]> consumer) {
        long deadline = System.nanoTime() + Duration.ofSeconds(180).toNanos();
        while (System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofMillis(200))) {
                return got;
            }
        }
        throw new AssertionError("no record came");
    }

    private void consume() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.seekToBeginning(List.of(partition));
            int seen = 0;
            long deadline = System.nanoTime() + Duration.ofSeconds(180).toNanos();
            while (seen < sent) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError(seen + " of " + sent + " records came back");
                }
                for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofMillis(200))) {
                    ProducerRecord<byte[], byte[]> wanted = record(seen);
                    expect((long) seen, got.offset(), "offset");
                    expect(true, Arrays.equals(wanted.key(), got.key()), "key of " + seen);
                    expect(true, Arrays.equals(wanted.value(), got.value()), "value of " + seen);
                    expect(wanted.timestamp(), got.timestamp(), "timestamp");
                    expect(2, got.headers().toArray().length, "headers");
                    expect(null, got.headers().lastHeader("none").value(), "null header");
                    seen++;
                }
            }
            long at = consumer.offsetsForTimes(Map.of(partition, START_MS + 30_000))
                .get(partition).offset();
            expect(30L, at, "offset by time");
            consumer.seek(partition, at);
            expect(30L, next(consumer).offset(), "after seek");
        }
    }

    private void large(Admin admin) throws Exception {
        byte[] value = new byte[LARGE_BYTES];
        new Random(7).nextBytes(value);
        Map<String, Object> options =
            Map.of("max.request.size", 20_000_000, "buffer.memory", 64_000_000L);
        try (KafkaProducer<byte[], byte[]> producer = producer(options)) {
            long offset = producer.send(new ProducerRecord<>(topic, 0, null, value)).get().offset();
            expect((long) sent, offset, "offset of the large record");
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.seek(partition, sent);
            expect(true, Arrays.equals(value, next(consumer).value()), "large value");
        }
        expect((long) sent + 1, end(admin), "end offset");
    }

    private long end(Admin admin) throws Exception {
        return admin.listOffsets(Map.of(partition, OffsetSpec.latest()))
            .partitionResult(partition).get().offset();
    }

    private void administer(Admin admin) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry entry = new ConfigEntry("retention.ms", "5000000");
        admin.incrementalAlterConfigs(
            Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        String kept = "";
        // What a broker knows may follow the controller a little later.
        long deadline = System.nanoTime() + Duration.ofSeconds(180).toNanos();
        while (!kept.equals("5000000") && System.nanoTime() < deadline) {
            Thread.sleep(20);
            kept = admin.describeConfigs(List.of(resource)).all().get()
                .get(resource).get("retention.ms").value();
        }
        expect("5000000", kept, "retention.ms");

        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(10))).all().get();
        long first = admin.listOffsets(Map.of(partition, OffsetSpec.earliest()))
            .partitionResult(partition).get().offset();
        expect(10L, first, "start offset");

        expect(BROKERS, admin.describeCluster().nodes().get().size(), "nodes");
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        int partitions = 0;
        while (partitions != 3 && System.nanoTime() < deadline) {
            Thread.sleep(20);
            partitions = admin.describeTopics(List.of(topic)).allTopicNames().get()
                .get(topic).partitions().size();
        }
        expect(3, partitions, "partitions");
        admin.deleteTopics(List.of(topic)).all().get();
    }
}
