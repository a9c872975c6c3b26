"""Other API servers as sources: fetched, kept, followed."""
