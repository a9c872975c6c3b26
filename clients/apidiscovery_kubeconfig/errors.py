"""What is wrong with a configuration, told with file and key."""


class ConfigurationError(Exception):
    """Something that was configured cannot be used; the text says what, where and what to do."""


class CredentialsUnavailable(ConfigurationError):
    """What the server is to be shown cannot be had now; the text says where from and why."""


class NothingConfigured(ConfigurationError):
    """There is no kubeconfig, or there is nothing in it."""
