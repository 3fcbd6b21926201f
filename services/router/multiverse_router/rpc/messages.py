"""Messages of the public gRPC service, to and from what the router works with.

Requests become the body of the HTTP API, whose checks are the only ones. Must not know calls.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from pydantic import ValidationError

from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_router.api.bodies import GenerateBody
from multiverse_router.api.errors import fault
from multiverse_router.events import AnswerEvent
from multiverse_router.model import ServedModel
from multiverse_shared.errors import InvalidRequest


def generate_body(request: pb.GenerateRequest) -> GenerateBody:
    """The body that says the same. InvalidRequest names the field at fault."""
    try:
        return GenerateBody.model_validate(_fields(request))
    except ValidationError as error:
        name, message = fault(error.errors())
        raise InvalidRequest(message, field=name) from None


def response(event: AnswerEvent, sequence: int) -> pb.GenerateResponse:
    """The event as the service sends it; what it does not have is left out."""
    fields = {name: value for name, value in asdict(event).items() if value is not None}
    return pb.GenerateResponse(seq=sequence, **{event.type: fields})


def model_message(model: ServedModel) -> pb.Model:
    return pb.Model(
        name=model.name,
        dialect=model.grammar.dialect.name,
        positions=model.positions.value,
        context_length=model.context_length,
    )


def _fields(message: Message) -> dict[str, Any]:
    """What is given in a message, by name, as JSON would have it."""
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is None:
        if field.enum_type is not None:
            return _enum(field.enum_type, value)
        return list(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        return dict(value)
    return [_fields(item) for item in value] if field.is_repeated else _fields(value)


def _enum(kind: EnumDescriptor, number: int) -> str:
    """ROLE_USER is `user`; a number without a name stays one, for the checks to refuse."""
    value = kind.values_by_number.get(number)
    return value.name.removeprefix(f"{kind.name.upper()}_").lower() if value else str(number)
