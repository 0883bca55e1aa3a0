import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { Feed } from "./feed";
import { Problem, Unreachable } from "./http";
import { keys } from "./queries";

/** An answer "who are you" to any request means that the sign-in has ended: the shell then asks the server itself. */
function onError(err: Error): void {
  if (err instanceof Problem && err.code === "unauthenticated") void queryClient.invalidateQueries({ queryKey: keys.server });
}

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (err, query) => {
      if (query.queryKey[0] !== keys.server[0]) onError(err);
    },
  }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      // Requests to this server need no network: "online" is about something else.
      networkMode: "always",
      retry: (count, err) => err instanceof Unreachable && count < 2,
      staleTime: 5_000,
    },
    mutations: { networkMode: "always" },
  },
});

export const feed = new Feed(queryClient);
