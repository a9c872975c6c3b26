"""Credentials from a program, as `users[].user.exec` of a kubeconfig asks for."""

import shutil
import threading
import time
from concurrent.futures import Future

from apidiscovery_kubeconfig.credentials import Proof
from apidiscovery_kubeconfig.exec_credential import Issued, read_credential
from apidiscovery_kubeconfig.plugins import Plugin, without_secrets
from apidiscovery_kubeconfig.programs import MAX_OUTPUT_BYTES, Program


class ExecPlugin:
    """Credentials from a plugin, kept until shortly before they expire.

    One run at a time serves all threads that wait for it.
    """

    gives_certificates = True

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._lock = threading.Lock()
        self._issued: Issued | None = None
        self._run: _Run | None = None

    @property
    def identity(self) -> str:
        return f"exec plugin {self._plugin.identity}"

    def held(self) -> Proof | None:
        issued = self._issued
        is_fresh = issued is not None and (
            issued.fresh_until is None or time.time() < issued.fresh_until
        )
        return issued.proof if issued is not None and is_fresh else None

    def get(self) -> Proof:
        """Return what is valid now; run the plugin if need be."""
        with self._lock:
            if (held := self.held()) is not None:
                return held
            run, is_ours = self._run, self._run is None
            if run is None:
                run = self._run = _Run(self._plugin)
        if is_ours:
            self._perform(run)
        return run.outcome.result().proof

    def drop(self, refused: str | None = None) -> None:
        """Forget what was issued, unless another one than `refused` was meanwhile."""
        with self._lock:
            issued = self._issued
            if issued is not None and refused in (None, issued.proof.authorization):
                self._issued = None

    def close(self) -> None:
        """End the plugin if it runs, with all that it started, and wait for that."""
        run = self._run
        if run is not None:
            run.stop()
            run.outcome.exception()

    def _perform(self, run: "_Run") -> None:
        issued: Issued | None = None
        error: BaseException | None = None
        try:
            issued = run.perform()
        except BaseException as caught:  # noqa: BLE001 - those who wait get it, as we do
            error = caught
        with self._lock:
            self._run = None
            self._issued = issued or self._issued
        if issued is not None:
            run.outcome.set_result(issued)
        else:
            run.outcome.set_exception(error)


class _Run:
    """One run of a plugin.

    Attributes:
        outcome: What it gave, for all who wait.
    """

    def __init__(self, plugin: Plugin) -> None:
        self.outcome: Future[Issued] = Future()
        self._plugin = plugin
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End it, or do not let it begin."""
        with self._lock:
            self._is_stopped = True
            if self._program is not None:
                self._program.kill()

    def perform(self) -> Issued:
        """Run the plugin; return what it gives, or raise `CredentialsUnavailable`."""
        plugin = self._plugin
        if shutil.which(plugin.command) is None:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise plugin.failed(f"no such program, or it may not be run{hint}")
        program = self._started()
        try:
            ended = program.wait(None if plugin.interactive else plugin.timeout_s)
        except TimeoutError:
            raise plugin.failed(f"not done after {plugin.timeout_s:g} s; it was ended") from None
        if self._is_stopped:
            raise plugin.failed("ended before it was done")
        if len(ended.output) > MAX_OUTPUT_BYTES:
            raise plugin.failed(f"more than {MAX_OUTPUT_BYTES} bytes on its standard output")
        if ended.status != 0:
            said = without_secrets(ended.complaints.decode("utf-8", "replace"), plugin)
            raise plugin.failed(f"failed with status {ended.status}: {said or 'it said nothing'}")
        return read_credential(ended.output, plugin)

    def _started(self) -> Program:
        plugin = self._plugin
        with self._lock:
            if self._is_stopped:
                raise plugin.failed("ended before it was begun")
            try:
                self._program = Program(
                    [plugin.command, *plugin.args],
                    plugin.environment(),
                    interactive=plugin.interactive,
                )
            except (OSError, ValueError) as error:
                raise plugin.failed(f"cannot be run: {error}") from None
            return self._program
