"""Between protobuf and the domain: all request validation, and all rendering. No protobuf message passes beyond here."""
