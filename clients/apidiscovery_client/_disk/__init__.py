"""What is written to files: how it is kept private, and what stands beside the documents."""
