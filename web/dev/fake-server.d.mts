export interface FakeServer {
  port: number;
  world: Record<string, unknown>;
  stop: () => Promise<void>;
}
export function start(options?: { port?: number; open?: boolean }): Promise<FakeServer>;
