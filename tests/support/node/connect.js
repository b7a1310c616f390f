// Options with which kafkajs connects: with TLS and a login, if the environment says so.
"use strict";

const fs = require("fs");

function connect(servers, more) {
  const home = process.env.SECURED_HOME;
  // Its own limits are a second to connect and ten to log in, which a busy machine does not keep.
  const patient = { connectionTimeout: 60_000, authenticationTimeout: 60_000, requestTimeout: 60_000 };
  const options = { brokers: servers.split(","), ...patient, ...more };
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
