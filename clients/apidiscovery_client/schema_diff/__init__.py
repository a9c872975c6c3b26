"""What is different between two schemas or CustomResourceDefinitions, and whom it breaks.

    changes = compare_definitions(old, new)
    broken = [change for change in changes if change.verdicts.writer == "rejected"]

The rules and their verdicts are in docs/schema-diff.md. Nothing here does I/O.
"""

from apidiscovery_client.schema_diff.comparing import compare as compare
from apidiscovery_client.schema_diff.model import (
    Applying as Applying,
)
from apidiscovery_client.schema_diff.model import (
    Change as Change,
)
from apidiscovery_client.schema_diff.model import (
    InvalidSchema as InvalidSchema,
)
from apidiscovery_client.schema_diff.model import (
    Outcome as Outcome,
)
from apidiscovery_client.schema_diff.model import (
    Reading as Reading,
)
from apidiscovery_client.schema_diff.model import (
    Verdicts as Verdicts,
)
from apidiscovery_client.schema_diff.model import (
    changes_json as changes_json,
)
from apidiscovery_client.schema_diff.versions import compare_definitions as compare_definitions
