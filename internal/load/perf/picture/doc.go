// Package picture draws the results of package perf as SVG pictures: figures as bars with their goals, and
// percentiles of times. It also writes them as tables. The same results always make the same pictures and
// tables. The package starts no goroutines.
package picture
