import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of Kafka's own client. Arguments: servers, a topic of two partitions, a step. */
public final class Transact {
    private static String servers;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        topic = arguments[1];
        switch (arguments[2]) {
            case "both" -> commitsAndAborts();
            case "copy" -> copies();
            case "fence" -> fences();
            case "admin" -> admin();
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        System.out.println("ok");
    }

    private static void commitsAndAborts() {
        Set<String> kept = new TreeSet<>();
        try (KafkaProducer<String, String> producer = producer(topic)) {
            for (int number = 0; number < 30; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    String value = number + " " + partition;
                    producer.send(new ProducerRecord<>(topic, partition, null, value));
                    if (number % 3 != 1) {
                        kept.add(value);
                    }
                }
                if (number % 3 == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            producer.beginTransaction(); // with nothing in it
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
        }
        expect(kept, read(topic, kept.size()));
    }

    private static void copies() throws Exception {
        String target = topic + "-copy";
        try (Admin admin = Admin.create(Settings.of(Map.of("bootstrap.servers", servers)))) {
            admin.createTopics(List.of(new NewTopic(target, 2, (short) -1))).all().get();
        }
        Set<String> all = new TreeSet<>();
        try (KafkaProducer<String, String> producer = producer(topic)) {
            producer.beginTransaction();
            for (int number = 0; number < 100; number++) {
                all.add("" + number);
                producer.send(new ProducerRecord<>(topic, number % 2, null, "" + number));
            }
            producer.commitTransaction();
        }
        for (String protocol : List.of("classic", "consumer")) {
            copy(target, protocol, all.size());
        }
        List<String> found = read(target, 2 * all.size());
        if (found.size() != 2 * all.size()) {
            throw new AssertionError(found.size() + " records, not " + 2 * all.size());
        }
        expect(all, found);
    }

    /** The first transaction is aborted; then all records come again. */
    private static void copy(String target, String protocol, int count) {
        try (KafkaProducer<String, String> producer = producer(topic + protocol);
             KafkaConsumer<String, String> consumer = consumer(topic + protocol, protocol)) {
            consumer.subscribe(List.of(topic));
            boolean aborted = false;
            for (int copied = 0; copied < count; ) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new java.util.HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(
                        new ProducerRecord<>(target, record.partition(), null, record.value()));
                    offsets.put(
                        new TopicPartition(topic, record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (aborted) {
                    producer.commitTransaction();
                    copied += records.size();
                } else {
                    producer.abortTransaction();
                    aborted = true;
                    consumer.seekToBeginning(consumer.assignment());
                }
            }
        }
    }

    private static void fences() {
        try (KafkaProducer<String, String> old = producer(topic)) {
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, 0, null, "old"));
            old.flush();
            try (KafkaProducer<String, String> next = producer(topic)) {
                next.beginTransaction();
                next.send(new ProducerRecord<>(topic, 0, null, "new"));
                next.commitTransaction();
            }
            try {
                old.commitTransaction();
                throw new AssertionError("the old producer was not fenced");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                expect(Set.of("new"), read(topic, 1));
            }
        }
    }

    private static void admin() throws Exception {
        try (Admin admin = Admin.create(Settings.of(Map.of("bootstrap.servers", servers)));
             KafkaProducer<String, String> producer = producer(topic)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "open"));
            producer.flush();
            TransactionDescription found =
                admin.describeTransactions(List.of(topic)).description(topic).get();
            if (found.state() != TransactionState.ONGOING
                || !found.topicPartitions().equals(Set.of(new TopicPartition(topic, 0)))) {
                throw new AssertionError(found);
            }
            Collection<TransactionListing> listed = admin.listTransactions().all().get();
            if (listed.stream().noneMatch(each -> each.transactionalId().equals(topic))) {
                throw new AssertionError(listed);
            }
            admin.forceTerminateTransaction(topic).result().get();
            try {
                producer.commitTransaction();
                throw new AssertionError("the transaction was not ended");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                expect(Set.of(), read(topic, 0));
            }
        }
    }

    private static KafkaProducer<String, String> producer(String id) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            Settings.of(Map.of("bootstrap.servers", servers, "transactional.id", id)),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String group, String protocol) {
        return new KafkaConsumer<>(
            Settings.of(Map.of(
                "bootstrap.servers", servers,
                "group.id", group,
                "group.protocol", protocol,
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed")),
            new StringDeserializer(), new StringDeserializer());
    }

    /** All committed records; at least so many are waited for. */
    private static List<String> read(String from, int atLeast) {
        try (KafkaConsumer<String, String> consumer = consumer("unused", "classic")) {
            List<TopicPartition> partitions =
                List.of(new TopicPartition(from, 0), new TopicPartition(from, 1));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            List<String> found = new ArrayList<>();
            long deadline = System.currentTimeMillis() + 180_000;
            while (System.currentTimeMillis() < deadline) {
                Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
                consumer.poll(Duration.ofMillis(100)).forEach(each -> found.add(each.value()));
                boolean over = partitions.stream()
                    .allMatch(each -> consumer.position(each) >= ends.get(each));
                if (over && found.size() >= atLeast) {
                    return found;
                }
            }
            throw new AssertionError("only " + found.size() + " records: " + found);
        }
    }

    private static void expect(Set<String> expected, Collection<String> found) {
        if (!new TreeSet<>(found).equals(new TreeSet<>(expected))) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }
}
