import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * Lets Kafka's own assignors decide. A group as a line of JSON in, its assignment as a line out,
 * until the input ends. Every group meets a new assignor, in the collections that Kafka itself
 * would put it in: a leader's hash map of subscriptions, a coordinator's target read from records.
 */
public final class Assign {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode group = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("answer", answer(group));
            } catch (RuntimeException error) {
                answer.put("error", error.toString());
            }
            out.println(answer);
        }
    }

    private static JsonNode answer(JsonNode group) {
        switch (group.get("assignor").asText()) {
            case "range":
                return client(new RangeAssignor(), group);
            case "roundrobin":
                return client(new RoundRobinAssignor(), group);
            case "sticky":
                return client(new StickyAssignor(), group);
            case "cooperative-sticky":
                return client(new CooperativeStickyAssignor(), group);
            case "server range":
                return server(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), group);
            case "server uniform":
                return server(new UniformAssignor(), group);
            case "user data of sticky":
                return userData(new StickyAssignor(), group);
            case "user data of cooperative-sticky":
                return userData(new CooperativeStickyAssignor(), group);
            default:
                throw new IllegalArgumentException("no such assignor");
        }
    }

    // --- in a consumer that leads its group ---

    private static JsonNode client(ConsumerPartitionAssignor assignor, JsonNode group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            JsonNode userData = member.get("user_data");
            Subscription subscription = new Subscription(
                    texts(member.get("topics")),
                    userData.isNull() ? null : ByteBuffer.wrap(decoded(userData)),
                    partitions(member.get("owned")),
                    member.get("generation").asInt(),
                    text(member.get("rack")));
            subscription.setGroupInstanceId(text(member.get("instance_id")));
            subscriptions.put(member.get("member_id").asText(), subscription);
        }
        ObjectNode answer = JSON.createObjectNode();
        assignor.assign(cluster(group), new GroupSubscription(subscriptions)).groupAssignment()
                .forEach((id, assignment) -> {
                    ArrayNode given = answer.putArray(id);
                    for (TopicPartition partition : assignment.partitions())
                        given.addArray().add(partition.topic()).add(partition.partition());
                });
        return answer;
    }

    private static Cluster cluster(JsonNode group) {
        List<PartitionInfo> infos = new ArrayList<>();
        group.get("topics").fields().forEachRemaining(topic -> {
            JsonNode racks = topic.getValue().get("racks");
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++) {
                List<Node> replicas = new ArrayList<>();
                if (p < racks.size())
                    for (String rack : texts(racks.get(p)))
                        replicas.add(new Node(replicas.size(), "host", 9092, rack));
                Node[] nodes = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), p, Node.noNode(), nodes, nodes));
            }
        });
        return new Cluster("cluster", List.of(), infos, Set.of(), Set.of());
    }

    private static JsonNode userData(ConsumerPartitionAssignor assignor, JsonNode member) {
        assignor.onAssignment(
                new ConsumerPartitionAssignor.Assignment(partitions(member.get("owned"))),
                new ConsumerGroupMetadata("group", member.get("generation").asInt(), "member",
                        Optional.empty()));
        ByteBuffer data = assignor.subscriptionUserData(Set.of());
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return JSON.valueToTree(Base64.getEncoder().encodeToString(bytes));
    }

    // --- in a coordinator ---

    private static JsonNode server(PartitionAssignor assignor, JsonNode group) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        group.get("topics").fields().forEachRemaining(topic -> {
            ByteBuffer id = ByteBuffer.wrap(decoded(topic.getValue().get("topic_id")));
            ids.put(topic.getKey(), new Uuid(id.getLong(), id.getLong()));
            names.put(ids.get(topic.getKey()), topic.getKey());
        });
        TopicIds.TopicResolver resolver = new TopicIds.TopicResolver() {
            @Override
            public CoordinatorMetadataImage image() {
                return null;
            }

            @Override
            public String name(Uuid id) {
                return names.get(id);
            }

            @Override
            public Uuid id(String name) {
                return ids.get(name);
            }

            @Override
            public void clear() {
            }
        };
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            String memberId = member.get("member_id").asText();
            Set<String> subscribed = new HashSet<>(texts(member.get("topics")));
            subscriptions.add(subscribed);
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                    text(member.get("rack")), text(member.get("instance_id")),
                    new TopicIds(subscribed, resolver), target(member, ids)));
            for (TopicPartition partition : partitions(member.get("owned")))
                owners.computeIfAbsent(ids.get(partition.topic()), id -> new HashMap<>())
                        .put(partition.partition(), memberId);
        }
        SubscriptionType type = subscriptions.size() > 1
                ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return group.get("topics").get(names.get(id)).get("partitions").asInt();
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        ObjectNode answer = JSON.createObjectNode();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members()
                .forEach((memberId, assignment) -> {
                    ArrayNode given = answer.putArray(memberId);
                    assignment.partitions().forEach((id, numbers) -> numbers.forEach(number ->
                            given.addArray().add(names.get(id)).add((int) number)));
                });
        return answer;
    }

    /** As from a record of the log. */
    private static Assignment target(JsonNode member, Map<String, Uuid> ids) {
        Map<String, List<Integer>> byTopic = new LinkedHashMap<>();
        for (TopicPartition partition : partitions(member.get("owned")))
            byTopic.computeIfAbsent(partition.topic(), topic -> new ArrayList<>())
                    .add(partition.partition());
        Map<Uuid, Set<Integer>> target = new HashMap<>();
        byTopic.forEach((topic, numbers) -> target.put(ids.get(topic), new HashSet<>(numbers)));
        return new Assignment(target);
    }

    // --- reading ---

    private static byte[] decoded(JsonNode node) {
        return Base64.getDecoder().decode(node.asText());
    }

    private static Optional<String> text(JsonNode node) {
        return node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }

    private static List<String> texts(JsonNode nodes) {
        List<String> texts = new ArrayList<>();
        nodes.forEach(node -> texts.add(node.asText()));
        return texts;
    }

    private static List<TopicPartition> partitions(JsonNode nodes) {
        List<TopicPartition> partitions = new ArrayList<>();
        nodes.forEach(node ->
                partitions.add(new TopicPartition(node.get(0).asText(), node.get(1).asInt())));
        return partitions;
    }
}
