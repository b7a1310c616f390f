import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a group: it consumes, commits what it read (again after a refusal), and says, a JSON
 * object a line, what it owns and what it has read. SIGTERM makes it close its consumer in good
 * order.
 *
 * Arguments: servers, topic (or, behind a caret, a pattern), group, name, assignor (behind
 * "server-" one of the new protocol), instance id or "", session timeout.
 */
public class Member {
    static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    static volatile boolean stopping = false;

    static String assignor(String name) {
        return ASSIGNORS + switch (name) {
            case "range" -> "RangeAssignor";
            case "roundrobin" -> "RoundRobinAssignor";
            case "sticky" -> "StickyAssignor";
            case "cooperative-sticky" -> "CooperativeStickyAssignor";
            default -> throw new IllegalArgumentException(name);
        };
    }

    static void say(String key, Object value) {
        System.out.println("{\"" + key + "\": " + value + "}");
    }

    static TreeSet<Integer> owned(Collection<TopicPartition> assignment) {
        TreeSet<Integer> partitions = new TreeSet<>();
        assignment.forEach(each -> partitions.add(each.partition()));
        return partitions;
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.putAll(Settings.of(Map.of("bootstrap.servers", arguments[0])));
        settings.put("group.id", arguments[2]);
        settings.put("client.id", arguments[3]);
        boolean isNew = arguments[4].startsWith("server-");
        if (isNew) {
            settings.put("group.protocol", "consumer");
            settings.put("group.remote.assignor", arguments[4].substring("server-".length()));
        } else {
            settings.put("partition.assignment.strategy", assignor(arguments[4]));
            settings.put("session.timeout.ms", arguments[6]);
            settings.put("heartbeat.interval.ms", "300");
        }
        if (!arguments[5].isEmpty()) {
            settings.put("group.instance.id", arguments[5]);
        }
        settings.put("metadata.max.age.ms", "1000");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join(120_000);
            } catch (InterruptedException end) {
                // It ends anyway.
            }
        }));
        if (arguments[1].startsWith("^") && isNew) {
            consumer.subscribe(new SubscriptionPattern(arguments[1]));
        } else if (arguments[1].startsWith("^")) {
            consumer.subscribe(Pattern.compile(arguments[1]));
        } else {
            consumer.subscribe(List.of(arguments[1]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", owned(partitions));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    // What it owns is said after each poll.
                }
            });
        }
        TreeSet<Integer> before = null;
        boolean uncommitted = false;
        while (!stopping) {
            try {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                TreeSet<Integer> now = owned(consumer.assignment());
                if (!now.equals(before)) {
                    say("owned", now);
                    before = now;
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println("{\"partition\": " + record.partition()
                        + ", \"offset\": " + record.offset() + "}");
                }
                uncommitted |= !records.isEmpty();
                if (uncommitted) {
                    consumer.commitSync();
                    uncommitted = false;
                }
            } catch (CommitFailedException | RebalanceInProgressException refused) {
                say("error", 27);
            } catch (FencedInstanceIdException fenced) {
                say("error", 82);
                break;
            } catch (WakeupException | RetriableException again) {
                say("error", -1);
            }
        }
        consumer.close();
    }
}
