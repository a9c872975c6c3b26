"""The gRPC services as Markdown, from the protos and their comments."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

_PACKAGE = "apidiscovery.service.v1"
_FOLDER = "apidiscovery/service/v1"

# Paths in SourceCodeInfo are numbers of fields in descriptor.proto.
_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6
_FIELDS, _NESTED, _VALUES, _METHODS = 2, 3, 2, 2

Comments = Mapping[tuple[int, ...], str]


def services(root: Path) -> str:
    """Return every service with its methods, messages and enums, a section for each file."""
    return "\n".join(line for file in _files(root / "protos") for line in _file(file))


def _files(protos: Path) -> list[FileDescriptorProto]:
    names = sorted(path.relative_to(protos).as_posix() for path in (protos / _FOLDER).glob("*"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{protos}", *names]
        command += [f"--descriptor_set_out={out}", "--include_source_info"]
        subprocess.run(command, check=True)
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def _file(file: FileDescriptorProto) -> Iterator[str]:
    comments = {
        tuple(location.path): location.leading_comments or location.trailing_comments
        for location in file.source_code_info.location
    }
    yield f"## {file.name}\n"
    for index, service in enumerate(file.service):
        yield from _service(service, (_SERVICES, index), comments)
    for index, message in enumerate(file.message_type):
        yield from _message(message, (_MESSAGES, index), comments)
    for index, enum in enumerate(file.enum_type):
        yield from _enum(enum, (_ENUMS, index), comments)


def _service(
    service: ServiceDescriptorProto, path: tuple[int, ...], comments: Comments
) -> Iterator[str]:
    yield f"### service {service.name}\n\n{_text(comments, path)}\n"
    for index, method in enumerate(service.method):
        takes = ("stream " if method.client_streaming else "") + _short(method.input_type)
        returns = ("stream " if method.server_streaming else "") + _short(method.output_type)
        yield f"#### {service.name}.{method.name}\n\n`{takes}` → `{returns}`\n"
        yield f"{_text(comments, (*path, _METHODS, index))}\n"


def _message(message: DescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    if message.options.map_entry:
        return
    yield f"### {message.name}\n\n{_text(comments, path)}\n"
    maps = {each.name: each for each in message.nested_type if each.options.map_entry}
    if message.field:
        yield "| field | type | |\n|---|---|---|"
        for index, field in enumerate(message.field):
            text = _line(_text(comments, (*path, _FIELDS, index)))
            yield f"| `{field.name}` | `{_type(field, maps)}` | {text} |"
        yield ""
    for index, nested in enumerate(message.nested_type):
        yield from _message(nested, (*path, _NESTED, index), comments)


def _enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    yield f"### {enum.name}\n\n{_text(comments, path)}\n"
    yield "| value | number | |\n|---|---|---|"
    for index, value in enumerate(enum.value):
        text = _line(_text(comments, (*path, _VALUES, index)))
        yield f"| `{value.name}` | {value.number} | {text} |"
    yield ""


def _type(field: FieldDescriptorProto, maps: Mapping[str, DescriptorProto]) -> str:
    entry = maps.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key, {})}, {_type(value, {})}>"
    name = _short(field.type_name) or FieldDescriptorProto.Type.Name(field.type)
    name = name.removeprefix("TYPE_").lower() if not field.type_name else name
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def _short(name: str) -> str:
    return name.removeprefix(".").removeprefix(f"{_PACKAGE}.")


def _text(comments: Comments, path: tuple[int, ...]) -> str:
    return "\n".join(line.strip() for line in comments.get(path, "").splitlines())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
