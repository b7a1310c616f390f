// Options with which kafkajs connects: with TLS and a login, if the environment says so.
"use strict";

const fs = require("fs");

function connect(servers, more) {
  const home = process.env.SECURED_HOME;
  const options = { brokers: servers.split(","), ...more };
  if (!home) return options;
  return {
    ...options,
    ssl: { ca: [fs.readFileSync(`${home}/ca.pem`)] },
    sasl: {
      mechanism: "scram-sha-512",
      username: process.env.SECURED_USER,
      password: process.env.SECURED_PASSWORD,
    },
  };
}

module.exports = { connect };
