"""Errors of configurations; messages name file and key."""


class ConfigurationError(Exception):
    """A configuration is not usable; the message says where, why, and what to do."""


class CredentialsUnavailable(ConfigurationError):
    """Credentials cannot be obtained now; the message says from where, and why."""


class NothingConfigured(ConfigurationError):
    """There is no kubeconfig, or it is empty."""
