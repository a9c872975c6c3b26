"""Files on disk: private folders, and notes beside the documents."""
