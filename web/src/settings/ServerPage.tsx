import { useQuery } from "@tanstack/react-query";
import { doctorQuery, serverQuery } from "../api/queries";
import { ago, megabytes } from "../format";
import { CopyButton } from "../ui/Copy";
import { ErrorNote, Loading } from "../ui/Notes";
import { useNow } from "../ui/useNow";
import { useTitle } from "../ui/useTitle";

export function ServerPage() {
  useTitle("This server · Settings");
  const server = useQuery(serverQuery);
  const doctor = useQuery(doctorQuery);
  const now = useNow(10_000);
  return (
    <section className="page" aria-labelledby="server-title">
      <header className="page-head">
        <h2 id="server-title">This server</h2>
      </header>
      {server.data && (
        <dl className="facts facts-wide">
          <dt>Version</dt>
          <dd>{server.data.version}</dd>
          <dt>Data directory</dt>
          <dd>
            <code>{server.data.dataDir}</code>
            <CopyButton text={server.data.dataDir} label="Copy the path" />
          </dd>
          <dt>Running since</dt>
          <dd>
            <span title={new Date(server.data.startedAt).toLocaleString()}>{ago(server.data.startedAt, now)}</span>
          </dd>
          <dt>You are</dt>
          <dd>
            {server.data.principal.name} ({server.data.principal.kind})
          </dd>
          {doctor.data && (
            <>
              <dt>Host</dt>
              <dd>
                {doctor.data.host.os}/{doctor.data.host.arch}, {doctor.data.host.cpus} processors, {megabytes(doctor.data.host.memoryMB)} memory, {megabytes(doctor.data.host.diskFreeMB)} disk free
              </dd>
            </>
          )}
          <dt>API</dt>
          <dd>
            <a href="/openapi.json">OpenAPI description</a>
          </dd>
        </dl>
      )}
      {server.isPending && <Loading what="Asking the server" />}
      {server.error && <ErrorNote error={server.error} onRetry={() => void server.refetch()} />}
    </section>
  );
}
