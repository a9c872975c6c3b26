"""The pages, a module for each: their values are made here, their HTML in `templates`."""
