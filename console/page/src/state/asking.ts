// Questions that are asked once, and kept for a while: the session, actions, names.
import { QueryClient, useQuery } from "@tanstack/react-query";
import { ask, rememberCsrf, type Session } from "../api/calls";

export interface ActionArgument {
  name: string;
  type: "text" | "number" | "flag" | "list" | "duration";
  required: boolean;
  about: string;
}

export interface Action {
  verb: string;
  about: string;
  dry_run: boolean;
  destructive: boolean;
  confirms: string;
  arguments: ActionArgument[];
}

export const questions = new QueryClient({
  defaultOptions: { queries: { retry: false, refetchOnWindowFocus: false, staleTime: 60_000 } },
});

/** The first question of all. The document's head preloads it, beside this script. */
export const SESSION = {
  queryKey: ["session"],
  queryFn: async (): Promise<Session> => {
    const session = await ask<Session>("/api/session");
    rememberCsrf(session);
    return session;
  },
};

export function useSession(): { session: Session | undefined; error: Error | null; again: () => void } {
  const asked = useQuery(SESSION);
  return { session: asked.data, error: asked.error, again: () => void asked.refetch() };
}

export function useActions(): readonly Action[] {
  return useQuery({ queryKey: ["actions"], queryFn: () => ask<{ actions: Action[] }>("/api/actions") }).data?.actions ?? [];
}
