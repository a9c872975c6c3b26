"""Calls over gRPC: connections, credentials, repetition, and how errors are worded."""
