import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Every call of Kafka's Admin that a broker without groups can answer, and what a consumer asks
 * beside records: ends, times, sessions over many partitions, positions out of range.
 * Prints "ok" and exits with 0, or says what was not as it should be and exits with 1.
 */
public final class Tour {
    private static final long START_MS = 1_700_000_000_000L;
    private static final int PARTITIONS = 20;
    /** Of the cluster; topics have as many replicas, three at most. */
    private static final int BROKERS =
        Integer.parseInt(System.getenv().getOrDefault("BROKERS", "1"));
    private static final short REPLICAS = (short) Math.min(BROKERS, 3);

    private final String servers;
    private final String topic;
    private final TopicPartition partition;

    private Tour(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
        this.partition = new TopicPartition(topic, 0);
    }

    public static void main(String[] arguments) {
        Tour tour = new Tour(arguments[0], arguments[1]);
        try (Admin admin = Admin.create(Settings.of(Map.of("bootstrap.servers", tour.servers)))) {
            tour.cluster(admin);
            tour.create(admin);
            tour.produce();
            tour.describe(admin);
            tour.offsets(admin);
            tour.configs(admin);
            tour.producers(admin);
            tour.directories(admin);
            tour.sessions();
            tour.consumer(admin);
            tour.delete(admin);
            System.out.println("ok");
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void expect(Object wanted, Object got, String what) {
        if (!Objects.equals(wanted, got)) {
            throw new AssertionError(what + ": expected " + wanted + ", got " + got);
        }
    }

    private static void refused(Class<?> how, Callable<?> what) throws Exception {
        try {
            what.call();
        } catch (ExecutionException refused) {
            expect(how, refused.getCause().getClass(), "refusal");
            return;
        }
        throw new AssertionError("expected " + how);
    }

    /** Kafka's brokers hear of a change a little after its controller. */
    private static void until(BooleanSupplier holds, String what) {
        long deadline = System.nanoTime() + Duration.ofSeconds(180).toNanos();
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("never " + what);
            }
        }
    }

    private static <T> T got(java.util.concurrent.Future<T> future) {
        try {
            return future.get(180, TimeUnit.SECONDS);
        } catch (Exception problem) {
            throw new RuntimeException(problem);
        }
    }

    private void cluster(Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        Collection<Node> nodes = cluster.nodes().get();
        expect(BROKERS, nodes.size(), "nodes");
        Set<String> addresses = new HashSet<>();
        for (Node node : nodes) {
            addresses.add(node.host() + ":" + node.port());
        }
        expect(Set.of(servers.split(",")), addresses, "addresses");
        expect(true, nodes.contains(cluster.controller().get()), "controller among the nodes");
        expect(22, cluster.clusterId().get().length(), "length of the cluster id");
        admin.describeFeatures().featureMetadata().get();
    }

    private void create(Admin admin) throws Exception {
        NewTopic wanted = new NewTopic(topic, PARTITIONS, REPLICAS)
            .configs(Map.of("segment.bytes", "1048576", "retention.ms", "-1"));
        CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(wanted), dry).all().get();
        expect(false, admin.listTopics().names().get().contains(topic), "made by a dry run");

        CreateTopicsResult made = admin.createTopics(List.of(wanted));
        expect(PARTITIONS, made.numPartitions(topic).get(), "partitions");
        expect((int) REPLICAS, made.replicationFactor(topic).get(), "replicas");
        expect("-1", made.config(topic).get().get("retention.ms").value(), "retention.ms");
        expect(false, Uuid.ZERO_UUID.equals(made.topicId(topic).get()), "no topic id");
        until(() -> got(admin.listTopics().names()).contains(topic), "listed");

        refused(InvalidTopicException.class, () ->
            admin.createTopics(List.of(new NewTopic("../x", 1, (short) 1))).all().get());
        refused(InvalidReplicationFactorException.class, () ->
            admin.createTopics(List.of(new NewTopic(topic + "-3", 1, (short) (BROKERS + 2)))).all().get());
        refused(InvalidPartitionsException.class, () ->
            admin.createTopics(List.of(new NewTopic(topic + "-0", 0, (short) 1))).all().get());

        // By assignment, and by the broker's defaults.
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        NewTopic assigned = new NewTopic(topic + "-a", Map.of(0, List.of(node), 1, List.of(node)));
        NewTopic defaults = new NewTopic(topic + "-d", Optional.empty(), Optional.empty());
        CreateTopicsResult both = admin.createTopics(List.of(assigned, defaults));
        expect(2, both.numPartitions(topic + "-a").get(), "assigned partitions");
        expect(1, both.numPartitions(topic + "-d").get(), "default partitions");
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> options = Settings.of(more);
        options.put("bootstrap.servers", servers);
        return new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Partition 0 gets times 0, 10, 90, 20, 30; the others one record each. */
    private void produce() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("acks", "all"))) {
            for (long at : List.of(0L, 10L, 90L, 20L, 30L)) {
                producer.send(
                    new ProducerRecord<>(topic, 0, START_MS + at, null, bytes("at " + at))).get();
            }
            for (int number = 1; number < PARTITIONS; number++) {
                producer.send(new ProducerRecord<>(topic, number, null, bytes("one")));
            }
            producer.flush();
            expect(PARTITIONS, producer.partitionsFor(topic).size(), "partitions for a producer");
            refused(RecordTooLargeException.class, () ->
                producer.send(new ProducerRecord<>(topic, 0, null, new byte[1_048_500])).get());
        }
    }

    private void describe(Admin admin) throws Exception {
        TopicDescription named =
            admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        expect(PARTITIONS, named.partitions().size(), "partitions");
        expect(false, named.isInternal(), "internal");
        expect((int) REPLICAS, named.partitions().get(7).isr().size(), "in sync");
        TopicCollection ids = TopicCollection.ofTopicIds(List.of(named.topicId()));
        TopicDescription byId =
            admin.describeTopics(ids).allTopicIds().get().get(named.topicId());
        expect(topic, byId.name(), "name by id");
        expect(PARTITIONS, byId.partitions().size(), "partitions by id");
        refused(UnknownTopicOrPartitionException.class, () ->
            admin.describeTopics(List.of(topic + "-not")).allTopicNames().get());
        TopicCollection unknown = TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()));
        refused(UnknownTopicIdException.class, () ->
            admin.describeTopics(unknown).allTopicIds().get());

        admin.createPartitions(Map.of(topic + "-d", NewPartitions.increaseTo(4))).all().get();
        until(() -> got(admin.describeTopics(List.of(topic + "-d")).allTopicNames())
            .get(topic + "-d").partitions().size() == 4, "four partitions");
        refused(InvalidPartitionsException.class, () ->
            admin.createPartitions(Map.of(topic + "-d", NewPartitions.increaseTo(3))).all().get());
    }

    private ListOffsetsResultInfo offset(Admin admin, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
    }

    private void offsets(Admin admin) throws Exception {
        expect(0L, offset(admin, OffsetSpec.earliest()).offset(), "earliest");
        expect(5L, offset(admin, OffsetSpec.latest()).offset(), "latest");
        expect(2L, offset(admin, OffsetSpec.maxTimestamp()).offset(), "max timestamp");
        expect(START_MS + 90, offset(admin, OffsetSpec.maxTimestamp()).timestamp(), "its time");
        expect(2L, offset(admin, OffsetSpec.forTimestamp(START_MS + 11)).offset(), "by time");
        expect(-1L, offset(admin, OffsetSpec.forTimestamp(START_MS + 91)).offset(), "too late");
        expect(0L, offset(admin, OffsetSpec.earliestLocal()).offset(), "earliest local");
        expect(-1L, offset(admin, OffsetSpec.latestTiered()).offset(), "latest tiered");
        expect(true, offset(admin, OffsetSpec.latest()).leaderEpoch().isPresent(), "an epoch");

        var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1)));
        expect(1L, deleted.lowWatermarks().get(partition).get().lowWatermark(), "low watermark");
        expect(1L, offset(admin, OffsetSpec.earliest()).offset(), "earliest after a cut");
    }

    private Config config(Admin admin, ConfigResource resource) {
        DescribeConfigsOptions options =
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return got(admin.describeConfigs(List.of(resource), options).all()).get(resource);
    }

    private void alter(Admin admin, ConfigResource resource, OpType op, String name, String value)
        throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), op);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private void configs(Admin admin) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry entry = config(admin, resource).get("segment.bytes");
        expect("1048576", entry.value(), "segment.bytes");
        expect(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, entry.source(), "its source");
        expect(ConfigEntry.ConfigType.INT, entry.type(), "its type");
        expect(false, entry.documentation() == null, "no documentation");
        expect("segment.bytes", entry.synonyms().get(0).name(), "first synonym");
        expect("log.segment.bytes",
            entry.synonyms().get(entry.synonyms().size() - 1).name(), "last synonym");

        alter(admin, resource, OpType.SET, "cleanup.policy", "delete");
        alter(admin, resource, OpType.APPEND, "cleanup.policy", "compact");
        until(() -> config(admin, resource).get("cleanup.policy").value().equals("delete,compact"),
            "appended");
        alter(admin, resource, OpType.SUBTRACT, "cleanup.policy", "compact");
        until(() -> config(admin, resource).get("cleanup.policy").value().equals("delete"),
            "subtracted");
        alter(admin, resource, OpType.DELETE, "segment.bytes", "");
        until(() -> config(admin, resource).get("segment.bytes").value().equals("1073741824"),
            "deleted");
        refused(InvalidConfigurationException.class, () -> {
            alter(admin, resource, OpType.SET, "retention.ms", "soon");
            return null;
        });

        int node = admin.describeCluster().nodes().get().iterator().next().id();
        ConfigResource itself =
            new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(node));
        expect(true, config(admin, itself).entries().size() > 40, "broker options");
        Set<ConfigResource.Type> kinds =
            Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER);
        Collection<ConfigResource> listed = admin
            .listConfigResources(kinds, new org.apache.kafka.clients.admin.ListConfigResourcesOptions())
            .all().get();
        expect(true, listed.contains(resource), "the topic among config resources");
        expect(true, listed.contains(itself), "the broker among config resources");
    }

    private void producers(Admin admin) throws Exception {
        List<ProducerState> active =
            admin.describeProducers(List.of(partition)).partitionResult(partition).get()
                .activeProducers();
        expect(1, active.size(), "active producers");
        expect(4, active.get(0).lastSequence(), "last sequence");
        expect(0, active.get(0).producerEpoch(), "epoch");
    }

    private void directories(Admin admin) throws Exception {
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        Map<String, LogDirDescription> found =
            admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        expect(1, found.size(), "log directories");
        LogDirDescription directory = found.values().iterator().next();
        expect(null, directory.error(), "error");
        expect(true, directory.replicaInfos().get(partition).size() > 0, "no size");
        expect(true, directory.totalBytes().getAsLong() > 0, "no total size");
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> options = Settings.of(Map.of(
            "bootstrap.servers", servers,
            "enable.auto.commit", false,
            "auto.offset.reset", "none"));
        return new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(
        KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        until(() -> {
            consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            return found.size() >= count;
        }, "read " + count + " records");
        expect(count, found.size(), "records");
        return found;
    }

    /** Many partitions in one fetch session: first all, then only news, then fewer. */
    private void sessions() throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (int number = 1; number < PARTITIONS; number++) {
            all.add(new TopicPartition(topic, number));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer();
             KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Set<Integer> seen = new HashSet<>();
            for (ConsumerRecord<byte[], byte[]> each : read(consumer, PARTITIONS - 1)) {
                seen.add(each.partition());
            }
            expect(PARTITIONS - 1, seen.size(), "partitions read");
            for (int number : List.of(3, 17, 3)) {
                producer.send(new ProducerRecord<>(topic, number, null, bytes("news"))).get();
                expect(number, read(consumer, 1).get(0).partition(), "partition with news");
            }
            consumer.pause(all.subList(0, 10));
            producer.send(new ProducerRecord<>(topic, 2, null, bytes("held back"))).get();
            producer.send(new ProducerRecord<>(topic, 15, null, bytes("not held back"))).get();
            expect(15, read(consumer, 1).get(0).partition(), "the one not paused");
            consumer.resume(all.subList(0, 10));
            expect(2, read(consumer, 1).get(0).partition(), "the one resumed");
            consumer.assign(all.subList(5, 6));
            producer.send(new ProducerRecord<>(topic, 2, null, bytes("let go"))).get();
            producer.send(new ProducerRecord<>(topic, 6, null, bytes("kept"))).get();
            consumer.seekToEnd(all.subList(5, 6));
            consumer.seek(all.get(5), 1);
            expect(6, read(consumer, 1).get(0).partition(), "the one kept");
        }
    }

    private void consumer(Admin admin) throws Exception {
        List<TopicPartition> only = List.of(partition);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            expect(true, consumer.listTopics().containsKey(topic), "listed to a consumer");
            expect(PARTITIONS, consumer.partitionsFor(topic).size(), "partitions");
            expect(1L, consumer.beginningOffsets(only).get(partition), "beginning");
            expect(5L, consumer.endOffsets(only).get(partition), "end");
            Map<TopicPartition, OffsetAndTimestamp> times = consumer.offsetsForTimes(
                Map.of(partition, START_MS + 11));
            expect(2L, times.get(partition).offset(), "by time");
            expect(START_MS + 90, times.get(partition).timestamp(), "its time");
            times = consumer.offsetsForTimes(Map.of(partition, START_MS + 91));
            expect(null, times.get(partition), "too late");

            consumer.assign(only);
            consumer.seek(partition, 3);
            List<ConsumerRecord<byte[], byte[]>> found = read(consumer, 2);
            expect(3L, found.get(0).offset(), "after seek");
            expect(true, found.get(0).leaderEpoch().isPresent(), "an epoch");
            expect(5L, consumer.position(partition), "position");
            expect(0L, consumer.currentLag(partition).getAsLong(), "lag");
            for (long wrong : List.of(0L, 6L)) {
                consumer.seek(partition, wrong);
                try {
                    read(consumer, 1);
                    throw new AssertionError("read from " + wrong);
                } catch (OffsetOutOfRangeException refused) {
                    expect(wrong, refused.offsetOutOfRangePartitions().get(partition), "offset");
                }
            }
        }
    }

    private void delete(Admin admin) throws Exception {
        Uuid id = admin.describeTopics(List.of(topic + "-a")).allTopicNames().get()
            .get(topic + "-a").topicId();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        admin.deleteTopics(List.of(topic, topic + "-d")).all().get();
        until(() -> !got(admin.listTopics().names()).contains(topic), "deleted");
        refused(UnknownTopicOrPartitionException.class, () ->
            admin.deleteTopics(List.of(topic)).all().get());
    }
}
