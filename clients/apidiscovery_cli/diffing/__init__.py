"""Reports of comparisons as text, as JSON, and as Markdown."""
