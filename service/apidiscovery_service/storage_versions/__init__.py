"""Which API server writes which version, whether all agree, and who is there to agree."""
