"""The grpc.health.v1 protocol without its package, which only the server has.

HealthCheckRequest is one string with number 1 and HealthCheckResponse one enum with number 1, so that on the wire they
are the same as the StringValue and Int32Value that come with protobuf.
"""

from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from bertscope.v1 import ablation_pb2, attention_pb2, benchmark_pb2, classification_pb2, cloze_pb2, model_pb2

CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
FILES = (ablation_pb2, attention_pb2, benchmark_pb2, classification_pb2, cloze_pb2, model_pb2)
SERVICES = tuple(service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values())
"""Full names of the services of this contract; the empty name stands for the server as a whole."""


def request(service: str) -> StringValue:
    """A HealthCheckRequest."""
    return StringValue(value=service)


def status(response: Int32Value) -> str:
    """What a HealthCheckResponse says."""
    return STATUSES.get(response.value, str(response.value))
