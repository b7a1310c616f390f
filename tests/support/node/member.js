// One member of a group: it consumes, commits every batch, and says, a JSON object a line, what it
// owns and what it has read. SIGTERM makes it leave in good order.
// Arguments: a JSON object with bootstrap, topics, group, name, session_ms.
const { Kafka, logLevel } = require("kafkajs");
const { connect } = require("./connect");

const options = JSON.parse(process.argv[2]);
const kafka = new Kafka(
  connect(options.bootstrap, {
    clientId: options.name,
    logLevel: logLevel.ERROR,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 },
  }),
);
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_ms,
  heartbeatInterval: 300,
  metadataMaxAge: 1000,
  maxWaitTimeInMs: 100,
});
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  const partitions = Object.values(payload.memberAssignment).flat();
  say({ owned: partitions.map(Number).sort((a, b) => a - b) });
});
consumer.on(consumer.events.REBALANCING, () => say({ owned: [] }));

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: options.topics, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, heartbeat, isStale }) => {
      if (isStale()) return;
      for (const message of batch.messages) {
        say({ partition: batch.partition, offset: Number(message.offset) });
      }
      const offset = (Number(batch.lastOffset()) + 1).toString();
      try {
        await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset }]);
      } catch (refused) {
        say({ error: refused.code ?? -1 });
        return; // the next heartbeat tells it to rejoin
      }
      await heartbeat();
    },
  });
}

process.on("SIGTERM", async () => {
  await consumer.disconnect();
  process.exit(0);
});
main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
