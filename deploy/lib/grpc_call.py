"""grpcurl's stand-in where there is no Go to build it: grpc_call.py ADDRESS PACKAGE.SERVICE/METHOD JSON

Reads the protos of this repository (not reflection) and prints each answer as JSON, as grpcurl does. Needs grpcio-tools.
"""
import pathlib
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc


def load_protos(root: pathlib.Path) -> descriptor_pool.DescriptorPool:
    third_party = root / "third_party"
    files = sorted(root.glob("riskkv/v1/*.proto")) + sorted(third_party.glob("grpc/health/v1/*.proto"))
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        include = pathlib.Path(protoc.__file__).parent / "_proto"
        if protoc.main(["protoc", f"-I{root}", f"-I{third_party}", f"-I{include}", "--include_imports",
                        f"--descriptor_set_out={out.name}", *map(str, files)]) != 0:
            sys.exit("the protos do not compile")
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def main() -> None:
    address, path, body = sys.argv[1:]
    pool = load_protos(pathlib.Path(__file__).resolve().parents[2] / "proto")
    service, name = path.split("/")
    method = pool.FindServiceByName(service).methods_by_name[name]
    request_type = message_factory.GetMessageClass(method.input_type)
    answer_type = message_factory.GetMessageClass(method.output_type)
    with grpc.insecure_channel(address) as channel:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        call = make(f"/{path}", request_serializer=request_type.SerializeToString, response_deserializer=answer_type.FromString)
        answer = call(json_format.Parse(body, request_type()), timeout=600)
        for message in answer if method.server_streaming else [answer]:
            print(json_format.MessageToJson(message), flush=True)


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
