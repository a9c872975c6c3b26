"""StorageVersions and Leases as values: fields, encodings, validation, watch events and tables.

Nothing here does I/O. An object is its JSON form: keys in the order of the Go struct, only the
fields that Go writes. It is never changed in place.
"""
