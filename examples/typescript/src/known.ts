// The groups of a server, kept up to date by the differences that a watch sends.

import type { ChangedGroup, DiscoveryDelta } from "./gen/apidiscovery/service/v1/discovery_pb.js";

/** The groups that a caller knows, in the order of the server. */
export class KnownGroups {
  private groups: ChangedGroup[] = [];

  /** Hash by name of a group, to continue from, at this server or a replica. */
  get hashes(): Record<string, string> {
    return Object.fromEntries(this.groups.map((group) => [group.name, group.hash]));
  }

  /** Lines such as `apps/v1 deployments`, the core group first. */
  get lines(): string[] {
    return this.groups.flatMap((changed) =>
      changed.group.case !== "v2"
        ? []
        : changed.group.value.versions.flatMap(({ version, resources }) =>
            resources.map(({ resource }) =>
              `${changed.name ? `${changed.name}/${version}` : version} ${resource}`),
          ),
    );
  }

  /**
   * Apply a difference: take out the removed and the changed groups, then insert the changed ones
   * in the given order, each at its position among the named groups.
   */
  apply(delta: DiscoveryDelta): void {
    const gone = new Set([...delta.removed, ...delta.changed.map((group) => group.name)]);
    this.groups = this.groups.filter((group) => !gone.has(group.name));
    for (const changed of delta.changed) {
      const hasCore = this.groups[0]?.name === "";
      const at = changed.name === "" ? 0 : changed.position + (hasCore ? 1 : 0);
      this.groups.splice(at, 0, changed);
    }
  }
}
