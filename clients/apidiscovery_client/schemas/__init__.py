"""Schemas of files, servers, snapshots and releases, and what is different between them.

old = load_schemas(Path("before.json").read_bytes(), "before.json")
new = ServedSchemas(HttpTransport(Server("https://...")), "the cluster")
changes = compare_sources(old, new).changes
"""

from apidiscovery_client.schemas.comparing import FieldChanges as FieldChanges
from apidiscovery_client.schemas.comparing import compare_sources as compare_sources
from apidiscovery_client.schemas.model import Components as Components
from apidiscovery_client.schemas.model import Documents as Documents
from apidiscovery_client.schemas.model import SchemaSource as SchemaSource
from apidiscovery_client.schemas.released import ReleasedSchemas as ReleasedSchemas
from apidiscovery_client.schemas.snapshot_field import load_schemas as load_schemas
from apidiscovery_client.schemas.snapshot_field import stored_schemas as stored_schemas
from apidiscovery_client.schemas.sources import GivenSchemas as GivenSchemas
from apidiscovery_client.schemas.sources import ServedSchemas as ServedSchemas
from apidiscovery_client.schemas.sources import all_of as all_of
from apidiscovery_client.schemas.sources import schemas_of_manifests as schemas_of_manifests
