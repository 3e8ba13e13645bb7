// Package picture draws the results of package perf as SVG pictures: figures as bars with their goals, and
// percentiles of times. The same results always make the same pictures. The package starts no goroutines.
package picture
