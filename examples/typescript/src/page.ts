// A page that shows what a server serves, as it changes.

import { ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { DiscoveryService } from "./gen/apidiscovery/service/v1/discovery_pb.js";
import { KnownGroups } from "./known.js";

const RETRY_MS = 1000;
// The server sends a heartbeat every 30 seconds: after two that did not come it is gone.
const SILENCE_MS = 60_000;

const parameters = new URLSearchParams(location.search);
const options = { baseUrl: parameters.get("server") ?? "http://127.0.0.1:8080" };
const transport =
  parameters.get("protocol") === "grpc-web"
    ? createGrpcWebTransport(options)
    : createConnectTransport(options);
const client = createClient(DiscoveryService, transport);
const known = new KnownGroups();

function show(state: string): void {
  document.querySelector("#state")!.textContent = state;
  document.querySelector("#count")!.textContent = `${known.lines.length} resources`;
  document.querySelector("#resources")!.replaceChildren(
    ...known.lines.map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }),
  );
}

/** Watch for ever; a new stream continues with what is known, maybe at another replica. */
async function watch(): Promise<never> {
  for (;;) {
    const silent = new AbortController();
    const end = (): void => silent.abort(new Error("the server is silent"));
    let timer = setTimeout(end, SILENCE_MS);
    try {
      const request = { knownGroups: { hashes: known.hashes } };
      for await (const { event } of client.watchDiscovery(request, { signal: silent.signal })) {
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE_MS);
        if (event.case === "changes" && event.value.delta) known.apply(event.value.delta);
        show("live");
      }
    } catch (error) {
      const reason = ConnectError.from(error).message;
      const hint = `is it running, with --cors-origin ${location.origin}?`;
      show(`waiting for ${options.baseUrl}: ${reason}; ${hint}`);
    } finally {
      clearTimeout(timer);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

void watch();
