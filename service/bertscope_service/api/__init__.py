"""The gRPC services, one module each: check requests, plan, render replies; all of them go through `answer`."""
