"""Other API servers as sources: polled, recorded in the store, followed from there."""
