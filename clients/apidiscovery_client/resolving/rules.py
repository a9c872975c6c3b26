"""The rules by which a text is taken for a resource, and why one of several matches is chosen."""

from enum import Enum


class Rule(Enum):
    """How a text was taken; the value is a sentence for people.

    Those up to `KIND` are kubectl's, in its order. Source: cli-runtime resource/builder.go
    `mappingFor`, client-go restmapper/shortcut.go `expandResourceShortcut`, apimachinery
    pkg/api/meta/restmapper.go `DefaultRESTMapper`.
    """

    SHORT_NAME = "a short name, in any group"
    SHORT_NAME_IN_GROUP = "a short name, in the group that the text names"
    SHORT_NAME_GROUP_PREFIX = "a short name, in a group whose name begins as the text says"
    VERSION_AND_GROUP = "a plural or singular name, in the version and group that the text names"
    VERSION = "a plural or singular name, in that version of any group"
    GROUP = "a plural or singular name, in the group that the text names"
    GROUP_PREFIX = "a plural or singular name, in a group whose name begins as the text says"
    NAME = "a plural or singular name, in any group"
    VERSION_AND_KIND = "a kind, in the version and group that the text names"
    KIND = "a kind, in any version of the group that the text names"

    EXACT = "a kind or plural name after its whole group-version, as in apps/v1/Deployment"
    KIND_IN_ANY_GROUP = "a kind, in any group, for none was named"
    CATEGORY = "a category"
    PARENT = "a name that only has subresources, and is not served itself"


class Why(Enum):
    """Why one match was preferred to the others; the value is a sentence for people.

    Source: client-go restmapper/discovery.go `NewDiscoveryRESTMapper`, apimachinery
    pkg/api/meta/priority.go `PriorityRESTMapper`.
    """

    ONLY = "it is the only one"
    CORE = "v1 of the core group comes before all others"
    GROUP_ORDER = "its group comes first in the server's order"
    PREFERRED = "it is the version of its group that the server prefers"
    VERSION_ORDER = "its version comes first of those that have it"
    LIST_ORDER = "it comes first in the server's order"
    ASKED_ORDER = "its version comes first of those asked for"
    LAST_OF_KIND = "it comes last of those with this kind in its group-version"


SHORT_NAMES = frozenset({Rule.SHORT_NAME, Rule.SHORT_NAME_IN_GROUP, Rule.SHORT_NAME_GROUP_PREFIX})
"""Rules that lead to a group-resource, which is then looked up as a name."""
