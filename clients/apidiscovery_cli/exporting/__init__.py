"""Writes what a server serves in the forms that other tools read."""

from apidiscovery_cli.exporting.helm import helm_api_versions
from apidiscovery_cli.exporting.kubeconform import Schemas, kubeconform_schemas, schema_location

__all__ = ["Schemas", "helm_api_versions", "kubeconform_schemas", "schema_location"]
