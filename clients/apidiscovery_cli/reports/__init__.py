"""Reports of commands as text, JSON and Markdown."""
