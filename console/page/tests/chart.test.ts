// @vitest-environment jsdom
// The chart library loads in browsers whose language has no name that `Intl` knows.
import { expect, test, vi } from "vitest";

test("the chart library loads in Chromium under the POSIX locale", async () => {
  vi.stubGlobal("matchMedia", () => ({ addEventListener() {}, removeEventListener() {} }));
  Object.defineProperty(navigator, "language", { value: "en-US@posix", configurable: true });
  const { default: Chart } = await import("../src/parts/uplot");
  expect(Chart.fmtNum(1234.5)).toBe("1,234.5");
});
