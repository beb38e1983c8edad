// Builds the page into `console/static`, which is committed and shipped in the wheel.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    // A data: address would be refused by the content security policy for everything but pictures.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    target: "es2022",
  },
  // `npm run dev` talks to a console that `braid dev --console 7480` serves.
  server: { proxy: { "/api": "http://127.0.0.1:7480", "/sign-in": "http://127.0.0.1:7480" } },
  // Only tests that render need a document, and say so in their first line: it takes seconds to make one.
  test: { environment: "node", include: ["tests/**/*.test.{ts,tsx}"] },
});
