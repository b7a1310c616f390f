import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Share consumers, with implicit and with explicit acknowledgement. Ends with "ok", or with the
 * expectation that did not hold.
 *
 * Arguments: servers, topic (it is created), number of replicas.
 */
public class Share {
    static final int PARTITIONS = 3;
    static final long WAIT_MS = 180_000;
    static String servers;
    static String topic;
    static int written = 0;

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static KafkaShareConsumer<byte[], byte[]> member(String group, String mode, int most) {
        Map<String, Object> settings = new HashMap<>(Settings.of(Map.of(
            "bootstrap.servers", servers, "group.id", group,
            "share.acknowledgement.mode", mode, "max.poll.records", most)));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaShareConsumer<byte[], byte[]> made = new KafkaShareConsumer<>(settings, bytes, bytes);
        made.subscribe(List.of(topic));
        return made;
    }

    static void write(int count) throws Exception {
        ByteArraySerializer bytes = new ByteArraySerializer();
        Map<String, Object> settings = Settings.of(Map.of("bootstrap.servers", servers));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int number = 0; number < count; number++, written++) {
                byte[] value = Integer.toString(written).getBytes();
                producer.send(new ProducerRecord<>(topic, written % PARTITIONS, null, value));
            }
        }
    }

    static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.value()));
    }

    /** Records of one poll that has some. */
    static List<ConsumerRecord<byte[], byte[]>> batch(KafkaShareConsumer<byte[], byte[]> from) {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        while (found.isEmpty()) {
            expect(System.currentTimeMillis() < deadline, "no records come");
            from.poll(Duration.ofSeconds(1)).forEach(found::add);
        }
        return found;
    }

    /** Until these numbers have come: each once, for the time that is expected. */
    static void take(KafkaShareConsumer<byte[], byte[]> from, int first, int end, int delivery) {
        TreeSet<Integer> seen = new TreeSet<>();
        while (seen.size() < end - first) {
            for (ConsumerRecord<byte[], byte[]> record : batch(from)) {
                int number = number(record);
                expect(number >= first && number < end, "record " + number + " came again");
                expect(seen.add(number), "record " + number + " came twice");
                short count = record.deliveryCount().get();
                expect(count == delivery, "delivery " + count + " of " + number);
            }
        }
    }

    static void implicit(String group) throws Exception {
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "implicit", 500)) {
            take(consumer, 0, 300, 1);
            Map<TopicIdPartition, Optional<KafkaException>> done = consumer.commitSync();
            expect(!done.isEmpty(), "nothing was committed");
            expect(done.values().stream().allMatch(Optional::isEmpty), "refused: " + done);
            int lock = consumer.acquisitionLockTimeoutMs().get();
            expect(lock == 30_000, "the lock lasts " + lock);
            write(3);
            take(consumer, 300, 303, 1);
        }
        // The last ones were not accepted: each poll accepts those of the poll before.
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "implicit", 500)) {
            ConsumerRecord<byte[], byte[]> again = batch(consumer).get(0);
            expect(number(again) >= 300, number(again) + " was accepted and comes again");
            expect(again.deliveryCount().get() == 2, "delivery " + again.deliveryCount());
        }
    }

    static void explicit(String group, int end) throws Exception {
        Set<Integer> accepted = new HashSet<>();
        Set<Integer> rejected = new HashSet<>();
        Set<Integer> renewed = new HashSet<>();
        Map<TopicIdPartition, Exception> refused = new ConcurrentHashMap<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "explicit", 50)) {
            consumer.setAcknowledgementCommitCallback((offsets, problem) -> {
                if (problem != null) {
                    offsets.keySet().forEach(at -> refused.put(at, problem));
                }
            });
            while (accepted.size() + rejected.size() < end) {
                for (ConsumerRecord<byte[], byte[]> record : batch(consumer)) {
                    int number = number(record);
                    expect(!accepted.contains(number), number + " was accepted and comes again");
                    expect(!rejected.contains(number), number + " was rejected and comes again");
                    boolean first = record.deliveryCount().get() == 1;
                    if (number % 4 == 1 && first) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    } else if (number % 4 == 2) {
                        consumer.acknowledge(record, AcknowledgeType.REJECT);
                        rejected.add(number);
                    } else if (number % 4 == 3 && renewed.add(number)) {
                        consumer.acknowledge(record, AcknowledgeType.RENEW);
                    } else {
                        consumer.acknowledge(record);
                        accepted.add(number);
                    }
                }
                if (accepted.size() % 2 == 0) {
                    Map<TopicIdPartition, Optional<KafkaException>> done = consumer.commitSync();
                    expect(done.values().stream().allMatch(Optional::isEmpty), "refused: " + done);
                } else {
                    consumer.commitAsync();
                }
            }
            consumer.commitSync();
        }
        expect(refused.isEmpty(), "refused: " + refused);
        expect(rejected.size() > end / 8 && renewed.size() > end / 8, "not all kinds were tried");
        write(1);
        try (KafkaShareConsumer<byte[], byte[]> consumer = member(group, "explicit", 50)) {
            ConsumerRecord<byte[], byte[]> next = batch(consumer).get(0);
            expect(number(next) == end, number(next) + " comes after everything was finished");
            boolean allowed = true;
            try {
                consumer.poll(Duration.ofMillis(1));
            } catch (IllegalStateException expected) {
                allowed = false;
            }
            expect(!allowed, "a poll before everything is acknowledged");
            consumer.acknowledge(next);
        }
    }

    /** Two members hold different records of the same partitions at the same time. */
    static void together(String group) {
        try (KafkaShareConsumer<byte[], byte[]> one = member(group, "explicit", 5);
                KafkaShareConsumer<byte[], byte[]> other = member(group, "explicit", 5)) {
            Set<Integer> held = new HashSet<>();
            for (KafkaShareConsumer<byte[], byte[]> each : List.of(one, other)) {
                for (ConsumerRecord<byte[], byte[]> record : batch(each)) {
                    expect(held.add(number(record)), number(record) + " is held by two members");
                    each.acknowledge(record);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        topic = arguments[1];
        short replicas = Short.parseShort(arguments[2]);
        List<String> groups = List.of(topic + "-implicit", topic + "-explicit", topic + "-both");
        try (Admin admin = Admin.create(Settings.of(Map.of("bootstrap.servers", servers)))) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, replicas))).all().get();
            for (String group : groups) {
                ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
                admin.incrementalAlterConfigs(Map.of(
                    new ConfigResource(ConfigResource.Type.GROUP, group),
                    List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
            }
        }
        write(300);
        implicit(groups.get(0));
        explicit(groups.get(1), written);
        together(groups.get(2));
        System.out.println("ok");
    }
}
