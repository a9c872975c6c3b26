// Discovery from Node: read once, read again only if it has changed, then watch.

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

import { DiscoveryService } from "./gen/apidiscovery/service/v1/discovery_pb.js";
import { KnownGroups } from "./known.js";

const baseUrl = process.argv[2] ?? "http://127.0.0.1:8080";
const client = createClient(
  DiscoveryService,
  // Reads go by GET, so that the server answers them from its cache, and proxies can.
  createConnectTransport({ baseUrl, httpVersion: "1.1", useHttpGet: true }),
);

const first = await client.getDiscovery({}).catch((error: unknown) => {
  console.error(`error: ${baseUrl}: ${ConnectError.from(error).message}`);
  process.exit(1);
});
console.log(first.groupHashes.length, "groups,", first.etag.slice(0, 12));

const again = await client.getDiscovery({ ifNoneMatch: first.etag });
console.log("again:", again.result.case);

const ended = new AbortController();
const known = new KnownGroups();
try {
  for await (const { event } of client.watchDiscovery({}, { signal: ended.signal })) {
    if (event.case !== "changes" || !event.value.delta) continue;
    known.apply(event.value.delta);
    console.log(known.lines.length, "resources, the first is", known.lines[0]);
    ended.abort(); // a real client goes on, and sends known.hashes when it connects again
  }
} catch (error) {
  if (ConnectError.from(error).code !== Code.Canceled) throw error;
}
