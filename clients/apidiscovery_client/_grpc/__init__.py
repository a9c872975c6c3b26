"""Calls over gRPC: connections, credentials, retries and the texts of errors."""
