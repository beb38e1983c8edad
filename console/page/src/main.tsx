// The console's page begins here: the session first, then the router.
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode, type ReactElement } from "react";
import { createRoot } from "react-dom/client";
import { CallError } from "./api/calls";
import { Problem } from "./parts/Notes";
import { router } from "./router";
import { SignIn } from "./shell/SignIn";
import { questions, SESSION, useSession } from "./state/asking";
import { applyPreferences } from "./state/preferences";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/pages.css";

function Console(): ReactElement | null {
  const { session, error, again } = useSession();
  if (error instanceof CallError) {
    return (
      <main className="sign-in">
        <div className="sign-in-card">
          <h1>Braid console</h1>
          <Problem fault={error.fault} />
          <button type="button" onClick={again}>
            Try again
          </button>
        </div>
      </main>
    );
  }
  if (session === undefined) return null;
  if (!session.signed_in) return <SignIn session={session} onSignedIn={again} />;
  return <RouterProvider router={router} context={{ session, onSignedOut: again }} />;
}

function show(root: HTMLElement): void {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={questions}>
        <Console />
      </QueryClientProvider>
    </StrictMode>,
  );
}

applyPreferences();
const root = document.getElementById("root");
// The document has an empty frame, which stays until the page knows the signed-in user.
if (root !== null) void questions.prefetchQuery(SESSION).then(() => show(root));
