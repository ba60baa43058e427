// The SDK of AWS for JavaScript against the door that speaks Amazon SQS's protocol:  sqs.mjs HTTP-URL
//
// The SDK compares the MD5 of every body itself.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import * as sqs from "@aws-sdk/client-sqs";

const [endpoint] = process.argv.slice(2);
const SECONDS_MAX = 60;

function clientOf(accessKeyId = "dev", secretAccessKey = "dev-service-secret") {
  const credentials = { accessKeyId, secretAccessKey };
  return new sqs.SQSClient({ endpoint, region: "eu-central-1", credentials, maxAttempts: 1 });
}

const client = clientOf();
const ask = (Command, input) => client.send(new Command(input));

async function receive(QueueUrl, more = {}) {
  const input = { QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5, MessageSystemAttributeNames: ["All"] };
  return (await ask(sqs.ReceiveMessageCommand, { ...input, ...more })).Messages ?? [];
}

const CASES = {
  async "a message is sent, received and deleted"() {
    const { QueueUrl } = await ask(sqs.CreateQueueCommand, { QueueName: `js-${randomUUID()}` });
    const key = new Uint8Array([0, 128, 255]);
    const MessageAttributes = {
      lang: { DataType: "String", StringValue: "dé" },
      key: { DataType: "Binary", BinaryValue: key },
    };
    const sent = await ask(sqs.SendMessageCommand, { QueueUrl, MessageBody: "héllo 🌊", MessageAttributes });
    const [message] = await receive(QueueUrl, { MessageAttributeNames: ["All"] });
    assert.deepEqual([message.Body, message.MessageId], ["héllo 🌊", sent.MessageId]);
    assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.deepEqual(new Uint8Array(message.MessageAttributes.key.BinaryValue), key);
    assert.equal(message.Attributes.ApproximateReceiveCount, "1");
    await ask(sqs.DeleteMessageCommand, { QueueUrl, ReceiptHandle: message.ReceiptHandle });
    assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 0 }), []);
  },

  async "batches, and a message that comes back"() {
    const { QueueUrl } = await ask(sqs.CreateQueueCommand, { QueueName: `js-${randomUUID()}` });
    const Entries = Array.from({ length: 10 }, (_, number) => ({ Id: `${number}`, MessageBody: `${number}` }));
    const sent = await ask(sqs.SendMessageBatchCommand, { QueueUrl, Entries });
    assert.equal(sent.Successful.length, 10);
    const messages = await receive(QueueUrl, { VisibilityTimeout: 1 });
    assert.deepEqual(messages.map(({ Body }) => Body), Entries.map(({ Id }) => Id));
    const handles = messages.map(({ Body, ReceiptHandle }) => ({ Id: Body, ReceiptHandle }));
    const gone = await ask(sqs.DeleteMessageBatchCommand, { QueueUrl, Entries: handles.slice(1) });
    assert.equal(gone.Successful.length, 9);
    const [again] = await receive(QueueUrl);
    assert.deepEqual([again.Body, again.Attributes.ApproximateReceiveCount], ["0", "2"]);
    const change = { QueueUrl, ReceiptHandle: again.ReceiptHandle, VisibilityTimeout: 0 };
    await ask(sqs.ChangeMessageVisibilityCommand, change);
    assert.equal((await receive(QueueUrl)).length, 1);
  },

  async "the order of a FIFO queue"() {
    const Attributes = { FifoQueue: "true", ContentBasedDeduplication: "true" };
    const { QueueUrl } = await ask(sqs.CreateQueueCommand, { QueueName: `js-${randomUUID()}.fifo`, Attributes });
    for (const MessageBody of ["a", "b", "b", "c"]) {
      await ask(sqs.SendMessageCommand, { QueueUrl, MessageBody, MessageGroupId: "g" });
    }
    const got = [];
    for (let messages; (messages = await receive(QueueUrl, { WaitTimeSeconds: 0 })).length; ) {
      for (const { Body, ReceiptHandle } of messages) {
        got.push(Body);
        await ask(sqs.DeleteMessageCommand, { QueueUrl, ReceiptHandle });
      }
    }
    assert.deepEqual(got, ["a", "b", "c"]);
  },

  async "errors have their classes"() {
    const missing = ask(sqs.GetQueueUrlCommand, { QueueName: `none-${randomUUID()}` });
    await assert.rejects(missing, sqs.QueueDoesNotExist);
    const listed = new sqs.ListQueuesCommand({});
    await assert.rejects(clientOf("dev", "another-service-secret").send(listed), /check the secret access key/);
    await assert.rejects(clientOf("somebody").send(listed), /access key/);
  },

  async "an endpoint that the SDK takes from the URL of the queue"() {
    const credentials = { accessKeyId: "dev", secretAccessKey: "dev-service-secret" };
    const other = new sqs.SQSClient({ region: "eu-central-1", credentials, maxAttempts: 1, logger: { warn() {} } });
    const { QueueUrl } = await ask(sqs.CreateQueueCommand, { QueueName: `js-${randomUUID()}` });
    await other.send(new sqs.SendMessageCommand({ QueueUrl, MessageBody: "by its URL" }));
    assert.deepEqual((await receive(QueueUrl)).map(({ Body }) => Body), ["by its URL"]);
  },
};

let failed = 0;
for (const [name, run] of Object.entries(CASES)) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done in ${SECONDS_MAX} s`)), SECONDS_MAX * 1000);
  });
  try {
    await Promise.race([run(), late]);
    console.log(`AWS SDK for JavaScript: ${name}: ok`);
  } catch (error) {
    failed += 1;
    console.log(`AWS SDK for JavaScript: ${name}: FAILED: ${error.stack}`);
  }
  clearTimeout(timer);
}
process.exit(failed ? 1 : 0);
