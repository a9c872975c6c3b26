"""StorageVersions: the storage versions that API servers report, and their members (KEP-2339)."""
