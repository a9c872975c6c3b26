"""The pages for browsers: what is served, by which clusters, what differs, and what changed."""
