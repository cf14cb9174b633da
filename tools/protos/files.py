"""Runs protoc on the .proto files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from protovalidate import ViolationPb

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
GOOGLEAPIS = Path(annotations_pb2.__file__).parents[2]
"""The folder of googleapis-common-protos with google/api/annotations.proto, which maps calls to plain HTTP."""

RULES = ("buf/validate/validate.proto", "bertscope/v1/fields.proto")
"""The imports with the rules of fields: the standard's and ours."""


def protoc(protos: Path, *arguments: str) -> None:
    """Runs protoc on all .proto files of a folder, and on those of googleapis among the arguments."""
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        # The package protovalidate has the file as a descriptor, which protoc reads like a file that it has parsed.
        rules = Path(folder) / "validate.binpb"
        standard = FileDescriptorProto.FromString(ViolationPb.desc().file.proto.to_binary())
        rules.write_bytes(FileDescriptorSet(file=[standard]).SerializeToString())
        paths = (f"--proto_path={protos}", f"--proto_path={GOOGLEAPIS}", f"--descriptor_set_in={rules}")
        run_protoc(*paths, *arguments, *sources)


def run_protoc(*arguments: str) -> None:
    """Runs protoc. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)


def described(protos: Path, *arguments: str) -> Any:
    """Returns the descriptors of a folder of .proto files with all that they import. Their options have their extensions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "contract.binpb"
        protoc(protos, "--include_imports", f"--descriptor_set_out={path}", *arguments)
        return readable(path.read_bytes())


def readable(descriptors: bytes) -> Any:
    """Returns a serialised FileDescriptorSet as a message of a pool of its own, which knows the extensions that it defines."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorSet")).FromString(descriptors)


def without_rules(files: Any) -> FileDescriptorSet:
    """Returns the descriptors without the rules of fields and their imports, so that nothing made from them imports these."""
    found = type(files).FromString(files.SerializeToString())
    pool = found.DESCRIPTOR.file.pool
    extensions = [pool.FindExtensionByName(name) for name in ("buf.validate.field", "buf.validate.oneof", "bertscope.v1.field")]

    def plain_names(fields: Any) -> None:
        for field in fields:
            field.ClearField("json_name")  # protoc derives it again, and leaves it out of modules

    def strip(message: Any) -> None:
        for part in (*message.field, *message.oneof_decl):
            for extension in extensions:
                if extension.containing_type is part.options.DESCRIPTOR:
                    part.options.ClearExtension(extension)
            if not part.options.ByteSize():
                part.ClearField("options")
        plain_names(message.field)
        for nested in message.nested_type:
            strip(nested)

    for file in found.file:
        plain_names(file.extension)
        for message in file.message_type:
            strip(message)
        kept = [name for name in file.dependency if name not in RULES]
        del file.dependency[:]
        file.dependency.extend(kept)
    plain = FileDescriptorSet.FromString(found.SerializeToString())
    return FileDescriptorSet(file=[file for file in plain.file if file.name not in RULES])


def without_comments(files: Any) -> bytes:
    """Returns serialised descriptors without their comments."""
    plain = FileDescriptorSet.FromString(files.SerializeToString())
    for file in plain.file:
        file.ClearField("source_code_info")
    return plain.SerializeToString()
