// Command lnetperf runs tests and benchmarks: pings and bulk transfers between transfer machines,
// load on many nodes, and a comparison of lnetd with plain TCP.
package main

import (
	"os"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

func main() {
	cli.ExecO2IB()
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr)}
	os.Exit(p.run(os.Args[1:]))
}
