// One record there and back with kafkajs: node kafkajs.js BROKERS CA USER PASSWORD TOPIC
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [brokers, ca, username, password, topic] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: brokers.split(","),
  ssl: { ca: [fs.readFileSync(ca, "utf-8")] },
  sasl: { mechanism: "scram-sha-512", username, password },
  logLevel: logLevel.ERROR,
});

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }], waitForLeaders: true });
  await admin.disconnect();
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  await producer.send({ topic, acks: -1, messages: [{ key: "k", value: "from kafkajs" }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((resolve) => consumer.run({
    eachMessage: async ({ message }) => resolve(console.log(message.value.toString())),
  }));
  await consumer.disconnect();
}

main().catch((error) => { console.error(error.name, error.message); process.exit(1); });
