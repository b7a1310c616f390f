import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts records by key with processing.guarantee=exactly_once_v2, and writes each new count.
 * Arguments: servers, source, target, application id, state directory. Ends on SIGTERM.
 */
public final class Count {
    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .groupByKey()
            .count()
            .toStream()
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.Long()));
        Properties options = new Properties();
        options.putAll(Settings.of(Map.of(
            "bootstrap.servers", arguments[0],
            "application.id", arguments[3],
            "state.dir", arguments[4],
            "processing.guarantee", "exactly_once_v2",
            "commit.interval.ms", "100",
            "statestore.cache.max.bytes", "0", // every count is written, none is overtaken
            "default.key.serde", Serdes.StringSerde.class.getName(),
            "default.value.serde", Serdes.StringSerde.class.getName(),
            "auto.offset.reset", "earliest")));
        options.put("consumer.session.timeout.ms", "6000");
        options.put("consumer.heartbeat.interval.ms", "500");
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
        ended.await();
    }
}
