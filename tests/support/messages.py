"""A second opinion on the messages of the kubelet: classes of the real protobuf, made from the same table."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from berth_agent.kubelet import messages

PACKAGE = "v1"
KINDS = descriptor_pb2.FieldDescriptorProto


def classes() -> dict[str, Any]:
    """Make the classes, by the names of their messages."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    found = (pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in messages.MESSAGES)
    return {
        name: message_factory.GetMessageClass(one) for name, one in zip(messages.MESSAGES, found, strict=True)
    }


def _file() -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto(
        name="podresources.proto",
        package=PACKAGE,
        syntax="proto3",
        message_type=[
            descriptor_pb2.DescriptorProto(
                name=name, field=[_field(number, one) for number, one in fields.items()]
            )
            for name, fields in messages.MESSAGES.items()
        ],
    )


def _field(number: int, one: messages.Field) -> Any:
    return KINDS(
        name=one.name,
        number=number,
        label=KINDS.LABEL_REPEATED if one.repeated else KINDS.LABEL_OPTIONAL,
        type=KINDS.TYPE_MESSAGE if one.of else KINDS.TYPE_STRING,
        type_name=f".{PACKAGE}.{one.of}" if one.of else None,
    )


def plain(thing: Any, kind: str) -> dict[str, Any]:
    """Turn what protobuf read into plain values, as the agent has them."""
    found: dict[str, Any] = {}
    for one in messages.MESSAGES[kind].values():
        value = getattr(thing, one.name)
        found[one.name] = (
            [plain(each, one.of) if one.of else each for each in value] if one.repeated else value
        )
    return found
