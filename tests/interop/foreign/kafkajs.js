// Records there and back with kafkajs, also in transactions: node kafkajs.js BROKERS CA USER PASSWORD TOPIC
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
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  await producer.send({ topic, acks: -1, messages: [{ key: "k", value: "from kafkajs" }] });
  await producer.disconnect();
  // Its TxnOffsetCommit is not repeated where a coordinator has just been made; a member that joins is.
  await admin.setOffsets({ groupId: "of-transactions", topic, partitions: [{ partition: 0, offset: "0" }] });
  await inTransactions();
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const read = [];
  await new Promise((resolve) => consumer.run({
    eachMessage: async ({ message }) => {
      read.push(message.value.toString());
      if (read[read.length - 1] === "the last one") resolve();
    },
  }));
  await consumer.disconnect();
  console.log(read.join(", "));
  const [offsets] = await admin.fetchOffsets({ groupId: "of-transactions", topics: [topic] });
  console.log("offset " + offsets.partitions[0].offset);
  await admin.disconnect();
}

async function inTransactions() {
  const producer = kafka.producer({ transactionalId: "kafkajs", idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [value, offset, commits] of [["committed", "1", true], ["aborted", "7", false], ["the last one", null, true]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, acks: -1, messages: [{ key: "k", value }] });
    if (offset !== null) {
      const topics = [{ topic, partitions: [{ partition: 0, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: "of-transactions", topics });
    }
    await (commits ? transaction.commit() : transaction.abort());
  }
  await producer.disconnect();
}

main().catch((error) => { console.error(error.name, error.message); process.exit(1); });
