"""Connect and gRPC-Web on the HTTP port, for the services of gRPC.

Sources: the Connect protocol, connectrpc.com/docs/protocol; gRPC-Web, doc/PROTOCOL-WEB.md of
grpc/grpc.
"""
