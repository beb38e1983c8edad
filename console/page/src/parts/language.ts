// Chromium under the POSIX locale (LANG=C) says that its language is "en-US@posix", which `Intl` refuses. The chart
// library formats numbers in that language while it loads, and would fail to load. The page is in English anyway.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
}
