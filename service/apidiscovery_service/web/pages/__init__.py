"""The pages, a module for each; what they show is made here, how in `templates`."""
