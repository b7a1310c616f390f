// Writes 50 records in each codec to partition 0 with kafkajs, for other clients to read.
"use strict";

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
const { connect } = require("./connect");
const { installCodecs } = require("./codecs.js");

const START_MS = 1_700_000_000_000;

async function main() {
  const [servers, topic] = process.argv.slice(2);
  await installCodecs();
  const producer = new Kafka(connect(servers, { logLevel: logLevel.NOTHING })).producer();
  await producer.connect();
  const codecs = [["none", "None"], ["gzip", "GZIP"], ["snappy", "Snappy"], ["lz4", "LZ4"], ["zstd", "ZSTD"]];
  let number = 0;
  for (const [name, type] of codecs) {
    const messages = Array.from({ length: 50 }, () => {
      const made = {
        key: `key ${number}`,
        value: `${name} ${number} `.repeat(20),
        headers: { h: "x" },
        timestamp: String(START_MS + number),
        partition: 0,
      };
      number += 1;
      return made;
    });
    await producer.send({ topic, compression: CompressionTypes[type], messages });
  }
  await producer.disconnect();
  console.log("ok");
}

main().then(
  () => process.exit(0),
  (problem) => {
    console.error(problem);
    process.exit(1);
  },
);
