// A whole visit to a broker with kafkajs: a topic, every codec, every acks, idempotence, headers,
// nulls, timestamps, offsets by time, configs, trimming and deleting.
// kafkajs reads only as a member of a group, so reading back is a part of its own ("consume").
// Prints "ok" and exits with 0, or says what was not as it should be and exits with 1.
"use strict";

const assert = require("node:assert/strict");
const { Kafka, CompressionCodecs, CompressionTypes, logLevel } = require("kafkajs");
const snappy = require("snappyjs");
const lz4 = require("lz4js");
const xxh32 = require("lz4js/xxh32");
const { ZstdCodec } = require("zstd-codec");

const START_MS = 1_700_000_000_000;
const PER_CODEC = 20;
const XERIAL_HEADER = 16;

function unframeXerial(buffer) {
  const pieces = [];
  for (let at = XERIAL_HEADER; at < buffer.length; ) {
    const length = buffer.readUInt32BE(at);
    pieces.push(Buffer.from(snappy.uncompress(buffer.subarray(at + 4, at + 4 + length))));
    at += 4 + length;
  }
  return Buffer.concat(pieces);
}

// lz4js does not say that its blocks stand alone, and Kafka reads no others; one block does.
function compressLz4(buffer) {
  const frame = Buffer.from(lz4.compress(buffer));
  frame[4] |= 0x20;
  frame[6] = (xxh32.hash(0, frame, 4, 2) >> 8) & 0xff;
  return frame;
}

async function installCodecs() {
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: async (encoder) => {
      const block = Buffer.from(snappy.compress(encoder.buffer));
      const length = Buffer.alloc(4);
      length.writeUInt32BE(block.length);
      const magic = Buffer.from([130, 83, 78, 65, 80, 80, 89, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
      return Buffer.concat([magic, length, block]);
    },
    decompress: async (buffer) =>
      buffer[0] === 130 ? unframeXerial(buffer) : Buffer.from(snappy.uncompress(buffer)),
  });
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => compressLz4(encoder.buffer),
    decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
  });
  const zstd = await new Promise((resolve) =>
    ZstdCodec.run((module) => resolve(new module.Simple())),
  );
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
}

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
  const described = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }],
  });
  assert.equal(described.resources[0].configEntries[0].configValue, "5000000");

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
  const kafka = new Kafka({ brokers: [servers], logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  const topics = [{ topic, numPartitions: 1, replicationFactor: 1 }];
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
