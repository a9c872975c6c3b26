"""What goes before a kubeconfig, as kubectl's flags do.

Source: client-go tools/clientcmd/client_config.go `DirectClientConfig.getCluster`, `getAuthInfo`.
"""

from dataclasses import dataclass, field

from apidiscovery_kubeconfig.fields import Fields

_TRUST = (
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values in place of those of a kubeconfig; what is empty or False is left to it.

    Attributes:
        cluster: The name of one, in place of that of the context.
        user: The same.
        server: A URL. It puts away `tls-server-name` of the kubeconfig, which is for another host.
        certificate_authority: A path. It puts away all that the kubeconfig says of trust, as
            `insecure_skip_tls_verify` does.
        impersonate: Whom to ask as.
        prefix: What errors put before the names of these, such as `--`.
    """

    cluster: str = ""
    user: str = ""
    server: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    client_certificate: str = ""
    client_key: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    prefix: str = ""

    def of_cluster(self, fields: Fields) -> Fields:
        """Return the keys under `cluster` with these in their place."""
        without: tuple[str, ...] = ()
        if self.certificate_authority or self.insecure_skip_tls_verify:
            without += _TRUST
        if self.server or self.tls_server_name:
            without += ("tls-server-name",)
        values: dict[str, object] = {
            "server": self.server,
            "certificate-authority": self.certificate_authority,
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "tls-server-name": self.tls_server_name,
            "proxy-url": self.proxy_url,
            "disable-compression": self.disable_compression,
        }
        return self._over(fields, values, without)

    def of_user(self, fields: Fields) -> Fields:
        """Return the keys under `user` with these in their place."""
        without: tuple[str, ...] = ()
        if self.client_certificate:
            without += ("client-certificate-data",)
        if self.client_key:
            without += ("client-key-data",)
        values: dict[str, object] = {
            "token": self.token,
            "username": self.username,
            "password": self.password,
            "client-certificate": self.client_certificate,
            "client-key": self.client_key,
            "as": self.impersonate,
            "as-uid": self.impersonate_uid,
            "as-groups": self.impersonate_groups,
        }
        return self._over(fields, values, without)

    def _over(self, fields: Fields, values: dict[str, object], without: tuple[str, ...]) -> Fields:
        names = {key: f"{self.prefix}{key.replace('groups', 'group')}" for key in values}
        given = {key: value for key, value in values.items() if value}
        return fields.overridden(given, names, without)
