// The codecs that kafkajs leaves to others to bring.
"use strict";

const { CompressionCodecs, CompressionTypes } = require("kafkajs");
const snappy = require("snappyjs");
const lz4 = require("lz4js");
const xxh32 = require("lz4js/xxh32");
const { ZstdCodec } = require("zstd-codec");

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

module.exports = { installCodecs };
