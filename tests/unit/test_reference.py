"""The API reference holds every route, call, message and field that there is."""

from __future__ import annotations

from scripts.reference import pages

from multiverse_protos.engine.v1 import engine_pb2
from multiverse_protos.generate.v1 import generate_pb2
from multiverse_router.app import create_app
from multiverse_router.settings import RouterSettings


def test_every_route_and_field_of_the_http_api_is_there() -> None:
    page, schema = pages()["http.md"], create_app(RouterSettings()).openapi()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page
    body = schema["components"]["schemas"]["GenerateBody"]
    for name in body["properties"]:
        assert f"| `{name}` |" in page


def test_every_call_message_and_field_of_the_protos_is_there() -> None:
    made = pages()
    for name, module in (("generate", generate_pb2), ("engine", engine_pb2)):
        page, descriptor = made[f"grpc-{name}.md"], module.DESCRIPTOR
        for service in descriptor.services_by_name.values():
            assert all(f"| `{method.name}` |" in page for method in service.methods)
        for message in descriptor.message_types_by_name.values():
            section = page.partition(f"## message `{message.name}`\n")[2].partition("\n## ")[0]
            assert section or not message.fields
            for field in message.fields:
                assert f"| `{field.name}` = {field.number} |" in section
