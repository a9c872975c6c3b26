"""`python -m apidiscovery_service.app`: the command `serve` without the other commands."""

from apidiscovery_service.app.command import serve

serve(prog_name="apidiscovery serve")
