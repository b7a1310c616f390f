import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts orders by customer and joins each count with the customer's name, as a member of a streams
 * group (group.protocol=streams), exactly once.
 * Arguments: servers, orders (value: the customer), names (by customer), target, application id,
 * state directory, address for interactive queries. Prints its states, and where the counts are.
 */
public final class CountAndJoin {
    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> names =
            builder.table(arguments[2], Consumed.with(Serdes.String(), Serdes.String()));
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, customer) -> customer, Grouped.with("by-customer", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .join(names, (count, name) -> name + " " + count)
            .toStream()
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        Properties options = new Properties();
        options.putAll(Settings.of(Map.of(
            "bootstrap.servers", arguments[0],
            "application.id", arguments[4],
            "state.dir", arguments[5],
            "application.server", arguments[6],
            "group.protocol", "streams",
            "processing.guarantee", "exactly_once_v2",
            "commit.interval.ms", "100",
            "statestore.cache.max.bytes", "0"))); // every count is written, none is overtaken
        options.put("consumer.auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(builder.build(), options);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(30));
            ended.countDown();
        }));
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                new Thread(() -> System.exit(1)).start();
            }
        });
        streams.start();
        String told = "";
        while (ended.getCount() > 0) {
            String places = places(streams);
            if (!places.equals(told)) {
                System.out.println(places);
                told = places;
            }
            ended.await(200, java.util.concurrent.TimeUnit.MILLISECONDS);
        }
    }

    /** Each instance with the partitions whose counts it has, and those of which it has a copy. */
    private static String places(KafkaStreams streams) {
        if (streams.state() != KafkaStreams.State.RUNNING) {
            return "";
        }
        TreeSet<String> found = new TreeSet<>();
        for (StreamsMetadata each : streams.metadataForAllStreamsClients()) {
            found.add(each.port() + " has " + numbers(each.topicPartitions())
                + " copies " + numbers(each.standbyTopicPartitions()));
        }
        return "PLACES " + String.join("; ", found);
    }

    private static TreeSet<String> numbers(java.util.Set<org.apache.kafka.common.TopicPartition> partitions) {
        TreeSet<String> found = new TreeSet<>();
        partitions.stream().filter(each -> each.topic().endsWith("-repartition"))
            .forEach(each -> found.add(String.valueOf(each.partition())));
        return found;
    }
}
