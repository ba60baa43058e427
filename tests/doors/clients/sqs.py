"""boto3 against the door that speaks Amazon SQS's protocol, with the key of config/dev.toml."""

import hashlib
import json
import time
import uuid

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from client import Wrong, expect
from fixture import SERVICE
from server import serve

KEY, SECRET = "dev", "dev-service-secret"
CASES, OWN = [], []

LIMITED = """
[[service]]
name = "sender"
token = "sender-service-token"
grants = ["send:jobs-*"]

[[sqs_key]]
access_key = "AKIASENDER"
secret_key = "sender-service-secret"
service = "sender"

[[sqs_key]]
access_key = "AKIANOBODY"
secret_key = "nobody-service-secret"
service = "nobody"
"""


def into(cases):
    """Registers a case in this list."""
    def register(play):
        cases.append((play.__name__, play))
        return play
    return register


def client_of(server, key=KEY, secret=SECRET):
    once = Config(retries={"total_max_attempts": 1})
    return boto3.client("sqs", endpoint_url=f"http://{server.http}", region_name="eu-central-1", config=once,
                        aws_access_key_id=key, aws_secret_access_key=secret)


def fails(code, call, **arguments):
    """Expects an error; returns it."""
    try:
        answer = call(**arguments)
    except ClientError as error:
        found = error.response["Error"]
        expect(code in (found["Code"], found.get("QueryErrorCode")), True, f"{found}, which should be {code}")
        return error
    raise Wrong(f"{arguments} was answered {answer}, and not {code}")


def made(sqs, suffix="", **attributes):
    """A new queue: its name and URL."""
    name = f"jobs-{uuid.uuid4()}{suffix}"
    if suffix:
        attributes["FifoQueue"] = "true"
    return name, sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def receive(sqs, url, wait=5, **how):
    how = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"], "MaxNumberOfMessages": 10, **how}
    return sqs.receive_message(QueueUrl=url, WaitTimeSeconds=wait, **how).get("Messages", [])


def bodies(messages):
    return [message["Body"] for message in messages]


def counts(sqs, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
             "ApproximateNumberOfMessagesDelayed"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(shown[name]) for name in names]


def digest(attributes):
    """MD5 of attributes as the SDK for Java computes it."""
    md5 = hashlib.md5()
    for name, attribute in sorted(attributes.items()):
        for text in (name, attribute["DataType"]):
            md5.update(len(text).to_bytes(4, "big") + text.encode())
        value = attribute.get("BinaryValue")
        md5.update(b"\x01" if value is None else b"\x02")
        value = attribute["StringValue"].encode() if value is None else value
        md5.update(len(value).to_bytes(4, "big") + value)
    return md5.hexdigest()


@into(CASES)
def a_message_is_sent_received_and_deleted(server, door):
    sqs = client_of(server)
    name, url = made(sqs)
    expect(sqs.get_queue_url(QueueName=name)["QueueUrl"], url, "the URL of the queue")
    attributes = {"lang": {"DataType": "String", "StringValue": "dé"},
                  "tries": {"DataType": "Number.int", "StringValue": "4"},
                  "order.key": {"DataType": "Binary", "BinaryValue": bytes(range(256))}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="héllo \U0001f30a", MessageAttributes=attributes)
    expect(sent["MD5OfMessageBody"], hashlib.md5("héllo \U0001f30a".encode()).hexdigest(), "MD5 of the body")
    expect(sent["MD5OfMessageAttributes"], digest(attributes), "MD5 of the attributes")
    [message] = receive(sqs, url)
    expect((message["Body"], message["MessageId"]), ("héllo \U0001f30a", sent["MessageId"]), "the message")
    expect(message["MessageAttributes"], attributes, "its attributes")
    expect(message["MD5OfMessageAttributes"], digest(attributes), "their MD5")
    expect(message["Attributes"]["ApproximateReceiveCount"], "1", "deliveries")
    expect(abs(int(message["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 10, True, "it was sent just now")
    expect(counts(sqs, url), [0, 1, 0], "it is in flight")
    other = sqs.create_queue(QueueName=f"other-{uuid.uuid4()}")["QueueUrl"]
    fails("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=other, ReceiptHandle=message["ReceiptHandle"])
    entry = {"Id": "1", "ReceiptHandle": message["ReceiptHandle"]}
    answer = sqs.delete_message_batch(QueueUrl=other, Entries=[entry])
    expect(answer["Failed"][0]["Code"], "ReceiptHandleIsInvalid", "it is of another queue")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    expect(counts(sqs, url), [0, 0, 0], "it is gone")
    expect(receive(sqs, url, wait=0), [], "what is left")


@into(CASES)
def attributes_are_chosen_by_name(server, door):
    sqs = client_of(server)
    _, url = made(sqs, VisibilityTimeout="0")
    text = {"DataType": "String", "StringValue": "x"}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes={"a": text, "order.a": text, "order.b": text})
    for wanted, found in ([], []), (["a", "none"], ["a"]), (["order.*"], ["order.a", "order.b"]), \
            (["a", "Tidegate.*"], ["Tidegate.Key", "Tidegate.Priority", "a"]):
        [message] = receive(sqs, url, MessageAttributeNames=wanted, AttributeNames=[])
        expect(sorted(message.get("MessageAttributes", {})), found, f"asked for {wanted}")
        wanted_md5 = digest(message["MessageAttributes"]) if found else None
        expect(message.get("MD5OfMessageAttributes"), wanted_md5, "MD5 of what is shown")
        expect("Attributes" in message, False, "what the server says of it was not asked for")


@into(CASES)
def batches_say_what_became_of_each_entry(server, door):
    sqs = client_of(server)
    _, url = made(sqs)
    entries = [{"Id": f"e{number}", "MessageBody": f"{number}"} for number in range(9)]
    odd = {"Id": "odd", "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Odd", "StringValue": "x"}}}
    answer = sqs.send_message_batch(QueueUrl=url, Entries=[*entries, odd])
    expect([done["Id"] for done in answer["Successful"]], [f"e{number}" for number in range(9)], "sent")
    expect([(one["Id"], one["SenderFault"]) for one in answer["Failed"]], [("odd", True)], "not sent")
    messages = receive(sqs, url)
    expect(bodies(messages), [f"{number}" for number in range(9)], "received in order")
    handles = [{"Id": message["Body"], "ReceiptHandle": message["ReceiptHandle"]} for message in messages]
    longer = [{**handle, "VisibilityTimeout": 0 if handle["Id"] in "01" else 60} for handle in handles[:4]]
    answer = sqs.change_message_visibility_batch(QueueUrl=url, Entries=longer)
    expect(sorted(done["Id"] for done in answer["Successful"]), ["0", "1", "2", "3"], "changed")
    expect(sorted(bodies(receive(sqs, url))), ["0", "1"], "given back")
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=[*handles[2:], {"Id": "odd", "ReceiptHandle": "odd"}])
    expect(sorted(done["Id"] for done in answer["Successful"]), list("2345678"), "deleted")
    expect([(one["Id"], one["Code"]) for one in answer["Failed"]], [("odd", "ReceiptHandleIsInvalid")], "not deleted")
    expect(counts(sqs, url), [0, 2, 0], "what is left")
    for code, wrong in ("EmptyBatchRequest", []), ("TooManyEntriesInBatchRequest", entries + [odd, odd]), \
            ("BatchEntryIdsNotDistinct", [odd, odd]), ("InvalidBatchEntryId", [{**odd, "Id": "a b"}]), \
            ("BatchRequestTooLong", [{"Id": f"{n}", "MessageBody": "x" * 240_000} for n in range(5)][:4] + [
                {"Id": "last", "MessageBody": "x" * 45_000}]):
        fails(code, sqs.send_message_batch, QueueUrl=url, Entries=wrong)


@into(CASES)
def a_receiver_waits_and_a_message_comes_back(server, door):
    sqs = client_of(server)
    _, url = made(sqs, ReceiveMessageWaitTimeSeconds="1")
    began = time.monotonic()
    expect(sqs.receive_message(QueueUrl=url).get("Messages", []), [], "nothing came")
    expect(0.9 < time.monotonic() - began < 5, True, "the queue says how long to wait")
    sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=1)
    expect(counts(sqs, url), [0, 0, 1], "it is delayed")
    [first] = receive(sqs, url, VisibilityTimeout=1)
    [again] = receive(sqs, url, VisibilityTimeout=30)
    expect(again["Attributes"]["ApproximateReceiveCount"], "2", "deliveries")
    expect(first["ReceiptHandle"] != again["ReceiptHandle"], True, "each delivery has a handle")
    error = fails("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    expect(type(error), sqs.exceptions.ReceiptHandleIsInvalid, "the exception")
    error = fails("MessageNotInflight", sqs.change_message_visibility, QueueUrl=url,
                  ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=5)
    expect(type(error), sqs.exceptions.MessageNotInflight, "the exception")
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=0)
    [third] = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])


@into(CASES)
def a_message_that_is_received_too_often_goes_to_the_dead_letter_queue(server, door):
    sqs = client_of(server)
    tag = "{" + str(uuid.uuid4())[:8] + "}"
    dead = sqs.create_queue(QueueName=f"dead-{tag}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "2"})
    url = sqs.create_queue(QueueName=f"jobs-{tag}", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]["RedrivePolicy"]
    expect(json.loads(shown), {"deadLetterTargetArn": arn, "maxReceiveCount": 2}, "the policy")
    expect(sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"], [url], "whose dead letters come")
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        [message] = receive(sqs, url, VisibilityTimeout=1)
    [message] = receive(sqs, dead)
    expect((message["Body"], counts(sqs, url)), ("poison", [0, 0, 0]), "the dead letter")
    fails("UnsupportedOperation", sqs.delete_queue, QueueUrl=dead)
    expect(counts(sqs, dead), [0, 1, 0], "nothing was removed")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    for gone in url, dead:
        sqs.delete_queue(QueueUrl=gone)
    missing = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    fails("InvalidAttributeValue", sqs.create_queue, QueueName=f"more-{tag}", Attributes={"RedrivePolicy": missing})


@into(CASES)
def a_fifo_queue_keeps_order_and_takes_each_message_once(server, door):
    sqs = client_of(server)
    name, url = made(sqs, ".fifo")
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    expect((shown["FifoQueue"], shown["ContentBasedDeduplication"]), ("true", "false"), "its attributes")

    def send(body, group, id=None):
        ids = {"MessageDeduplicationId": id} if id else {}
        return sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **ids)

    sent = [send(f"{number}", "g", f"id-{number}") for number in range(3)]
    again = send("another body", "g", "id-1")
    expect(again["MessageId"], sent[1]["MessageId"], "the same id is the same message")
    numbers = [one["SequenceNumber"] for one in sent]
    expect(numbers, sorted(set(numbers)), "sequence numbers grow")
    send("other", "h", "id-other")
    fails("MissingParameter", sqs.send_message, QueueUrl=url, MessageBody="x", MessageDeduplicationId="x")
    fails("InvalidParameterValue", send, body="x", group="g")
    fails("InvalidParameterValue", sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g",
          MessageDeduplicationId="y", DelaySeconds=3)
    got = []
    while len(got) < 4:
        messages = receive(sqs, url, wait=0)
        expect(len(messages) > 0, True, f"after {got} there are more")
        for message in messages:
            got.append((message["Attributes"]["MessageGroupId"], message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    expect([body for group, body in got if group == "g"], ["0", "1", "2"], "the order of a group")

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ContentBasedDeduplication": "true"})
    one, other = send("same", "g"), send("same", "g")
    expect(one["MessageId"], other["MessageId"], "one body is one message")
    [message] = receive(sqs, url)
    expect(message["Attributes"]["MessageDeduplicationId"], hashlib.sha256(b"same").hexdigest(), "its id")
    fails("InvalidParameterValue", sqs.create_queue, QueueName=f"no-{name}")
    fails("InvalidAttributeValue", sqs.create_queue, QueueName=f"x{uuid.uuid4()}", Attributes={"FifoQueue": "true"})


@into(CASES)
def queues_are_made_listed_purged_and_deleted(server, door):
    sqs = client_of(server)
    prefix = f"list{str(uuid.uuid4())[:8]}"
    urls = [sqs.create_queue(QueueName=f"{prefix}-{number}")["QueueUrl"] for number in range(5)]
    sqs.create_queue(QueueName=f"{prefix[:-1]}-before")
    expect(sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"], urls, "all of the prefix")
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2})
    expect([page.get("QueueUrls", []) for page in pages], [urls[:2], urls[2:4], urls[4:]], "in pages")
    expect(sqs.create_queue(QueueName=f"{prefix}-0")["QueueUrl"], urls[0], "made again")
    error = fails("QueueAlreadyExists", sqs.create_queue, QueueName=f"{prefix}-0", Attributes={"DelaySeconds": "9"})
    expect(type(error), sqs.exceptions.QueueNameExists, "the exception")
    sqs.set_queue_attributes(QueueUrl=urls[0], Attributes={"DelaySeconds": "9", "MessageRetentionPeriod": "60"})
    shown = sqs.get_queue_attributes(QueueUrl=urls[0], AttributeNames=["DelaySeconds", "MessageRetentionPeriod"])
    expect(shown["Attributes"], {"DelaySeconds": "9", "MessageRetentionPeriod": "60"}, "what was set")
    sqs.tag_queue(QueueUrl=urls[0], Tags={"team": "sms", "env": "test"})
    sqs.untag_queue(QueueUrl=urls[0], TagKeys=["env"])
    expect(sqs.list_queue_tags(QueueUrl=urls[0])["Tags"], {"team": "sms"}, "tags")
    for url in urls[:2]:
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": f"{n}", "MessageBody": "x"} for n in range(10)])
    receive(sqs, urls[1])
    sqs.purge_queue(QueueUrl=urls[0])
    expect(counts(sqs, urls[0]), [0, 0, 0], "after a purge")
    for url in urls:
        sqs.delete_queue(QueueUrl=url)
    expect(sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", []), [], "after they were deleted")
    for call, arguments in (sqs.send_message, {"MessageBody": "x"}), (sqs.receive_message, {}), (sqs.delete_queue, {}):
        error = fails("AWS.SimpleQueueService.NonExistentQueue", call, QueueUrl=urls[0], **arguments)
        expect(type(error), sqs.exceptions.QueueDoesNotExist, "the exception")


@into(CASES)
def what_is_wrong_is_said_as_sqs_does(server, door):
    sqs = client_of(server)
    _, url = made(sqs)
    fails("InvalidParameterValue", sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=11)
    fails("InvalidParameterValue", sqs.receive_message, QueueUrl=url, WaitTimeSeconds=21)
    fails("InvalidParameterValue", sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=901)
    fails("InvalidParameterValue", sqs.send_message, QueueUrl=url, MessageBody="x" * 262_145)
    fails("MissingParameter", sqs.send_message, QueueUrl=url, MessageBody="")
    fails("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=url, ReceiptHandle="none")
    fails("InvalidAttributeName", sqs.set_queue_attributes, QueueUrl=url, Attributes={"Colour": "red"})
    fails("InvalidAttributeValue", sqs.set_queue_attributes, QueueUrl=url, Attributes={"DelaySeconds": "901"})
    fails("InvalidParameterValue", sqs.create_queue, QueueName="no name")
    fails("AWS.SimpleQueueService.UnsupportedOperation", sqs.add_permission, QueueUrl=url, Label="x",
          AWSAccountIds=["000000000000"], Actions=["*"])


@into(CASES)
def another_secret_is_refused(server, door):
    listed = client_of(server, secret="another-service-secret").list_queues
    expect(fails("SignatureDoesNotMatch", listed).response["ResponseMetadata"]["HTTPStatusCode"], 403, "the status")
    fails("InvalidClientTokenId", client_of(server, key="somebody").list_queues)
    expect(server.request("/", b"{}")[0], 403, "the status of a request without a signature")


@into(CASES)
def both_doors_show_each_others_messages(server, door):
    sqs = client_of(server)
    name, url = made(sqs)

    def ask(path, body):
        status, answer = server.request(f"/v1/queues/{name}/{path}", json.dumps(body).encode(), SERVICE)
        expect(status, 200, f"{path}: {answer}")
        return json.loads(answer)["messages"]

    http = {"lang": "en", "tries": {"type": "Number", "value": "4"}, "key": {"type": "Binary.aes", "value": "3q2+7w=="}}
    shown = {"lang": {"DataType": "String", "StringValue": "en"}, "tries": {"DataType": "Number", "StringValue": "4"},
             "key": {"DataType": "Binary.aes", "BinaryValue": b"\xde\xad\xbe\xef"}}
    ask("messages", {"messages": [{"body": "from HTTP", "attributes": http, "priority": 9},
                                  {"body_base64": "gIE=", "attributes": {}}]})
    first, second = receive(sqs, url, MessageAttributeNames=["All"])
    expect((first["Body"], first["MessageAttributes"]), ("from HTTP", shown), "what HTTP sent")
    expect((second["Body"], second["MessageAttributes"]["Tidegate.BodyEncoding"]["StringValue"]), ("gIE=", "base64"),
           "bytes that are no text")
    at = int(time.time() * 1000) + 500
    own = {"Tidegate.Priority": {"DataType": "Number", "StringValue": "7"},
           "Tidegate.DeliverAt": {"DataType": "Number", "StringValue": f"{at}"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="from SQS", MessageAttributes={**shown, **own})
    expect(sent["MD5OfMessageAttributes"], digest({**shown, **own}), "MD5 of all that was sent")
    [message] = ask("receive", {"wait_ms": 5_000})
    expect((message["body"], message["attributes"], message["priority"]), ("from SQS", http, 7), "what SQS sent")
    expect(time.time() * 1000 >= at, True, "it came when it was due")


@into(OWN)
def a_key_has_the_rights_of_its_service(binary, fixture):
    with serve(binary, config=fixture.config("sqs.toml", more=LIMITED)) as server:
        owner, sender = client_of(server), client_of(server, "AKIASENDER", "sender-service-secret")
        name, url = made(owner)
        other = owner.create_queue(QueueName="other")["QueueUrl"]
        sender.send_message(QueueUrl=url, MessageBody="allowed")
        expect(sender.list_queues()["QueueUrls"], [url], "what the sender may know of")
        for call, arguments in (sender.receive_message, {"QueueUrl": url}), (sender.delete_queue, {"QueueUrl": url}), \
                (sender.send_message, {"QueueUrl": other, "MessageBody": "x"}), \
                (sender.create_queue, {"QueueName": f"{name}-2"}), (sender.get_queue_url, {"QueueName": "other"}):
            error = fails("AccessDenied", call, **arguments)
            expect(error.response["ResponseMetadata"]["HTTPStatusCode"], 403, "the status")
        fails("InvalidClientTokenId", client_of(server, "AKIANOBODY", "nobody-service-secret").list_queues)
