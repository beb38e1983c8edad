// The chart library and its style sheet: a chunk of their own, which pages without a chart do not load.
import "./language";
import "uplot/dist/uPlot.min.css";

export { default } from "uplot";
