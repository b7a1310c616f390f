// A whole visit to a broker with kafkajs: a topic, every codec, every acks, idempotence, headers,
// nulls, timestamps, offsets by time, configs, trimming and deleting.
// kafkajs reads only as a member of a group, so reading back is a part of its own ("consume").
// Prints "ok" and exits with 0, or says what was not as it should be and exits with 1.
"use strict";

const assert = require("node:assert/strict");
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
const { connect } = require("./connect");
const { installCodecs } = require("./codecs.js");

const START_MS = 1_700_000_000_000;
const PER_CODEC = 20;
const REPLICAS = Math.min(Number(process.env.BROKERS || 1), 3);

function message(number) {
  return {
    key: number % 5 === 0 ? null : `key ${number}`,
    value: number % 7 === 0 ? null : `value ${number}`,
    headers: { h: "x", number: String(number) },
    timestamp: String(START_MS + number * 1000),
    partition: 0,
  };
}

async function produce(kafka, topic) {
  let sent = 0;
  for (const idempotent of [false, true]) {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 });
    await producer.connect();
    for (const compression of Object.values(CompressionTypes)) {
      for (const acks of idempotent ? [-1] : [-1, 1]) {
        const messages = Array.from({ length: PER_CODEC }, (_, i) => message(sent + i));
        const [result] = await producer.send({ topic, acks, compression, messages });
        assert.equal(result.errorCode, 0);
        assert.equal(Number(result.baseOffset), sent, "base offset");
        sent += PER_CODEC;
      }
    }
    await producer.disconnect();
  }
  return sent;
}

async function administer(kafka, topic, total) {
  const admin = kafka.admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(topic);
  assert.equal(Number(ends[0].high), total, "end offset");
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, START_MS + 30_000);
  assert.equal(Number(byTime[0].offset), 30, "offset by time");

  const configEntries = [{ name: "retention.ms", value: "5000000" }];
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: 2, name: topic, configEntries }],
  });
  let kept = "";
  // What a broker knows may follow the controller a little later.
  for (const deadline = Date.now() + 180_000; kept !== "5000000" && Date.now() < deadline; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const described = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }],
    });
    kept = described.resources[0].configEntries[0].configValue;
  }
  assert.equal(kept, "5000000");

  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "10" }] });
  assert.equal(Number((await admin.fetchTopicOffsets(topic))[0].low), 10, "start offset");
  await admin.deleteTopics({ topics: [topic] });
  await admin.disconnect();
}

async function consume(kafka, topic, total) {
  const consumer = kafka.consumer({ groupId: `group-of-${topic}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let seen = 0;
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({
      eachMessage: async ({ message: got }) => {
        try {
          const want = message(seen);
          assert.equal(Number(got.offset), seen);
          assert.equal(got.key === null ? null : got.key.toString(), want.key);
          assert.equal(got.value === null ? null : got.value.toString(), want.value);
          assert.equal(got.timestamp, want.timestamp);
          assert.equal(got.headers.number.toString(), want.headers.number);
        } catch (problem) {
          reject(problem);
          return;
        }
        seen += 1;
        if (seen === total) resolve();
      },
    });
  });
  await consumer.disconnect();
}

async function main() {
  const [servers, topic, ...parts] = process.argv.slice(2);
  await installCodecs();
  const kafka = new Kafka(connect(servers, { logLevel: logLevel.NOTHING }));
  const admin = kafka.admin();
  await admin.connect();
  const topics = [{ topic, numPartitions: 1, replicationFactor: REPLICAS }];
  assert.equal(await admin.createTopics({ topics }), true);
  assert.equal(await admin.createTopics({ topics }), false, "a second topic of the same name");
  await admin.disconnect();
  const total = await produce(kafka, topic);
  if (parts.includes("consume")) await consume(kafka, topic, total);
  await administer(kafka, topic, total);
  console.log("ok");
}

main().then(
  () => process.exit(0),
  (problem) => {
    console.error(problem);
    process.exit(1);
  },
);
