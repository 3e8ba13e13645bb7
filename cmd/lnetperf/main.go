// Command lnetperf tries and measures: pings and bulk between transfer machines, load on
// many nodes, and lnetd beside plain TCP.
package main

import "os"

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr)}
	os.Exit(p.run(os.Args[1:]))
}
