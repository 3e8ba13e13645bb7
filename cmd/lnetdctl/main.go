// Command lnetdctl shows, changes and tests a running lnetd. Its grammar and its
// output are those of Lustre's lnetctl; installed under that name it answers
// to it.
package main

import (
	"os"
	"path/filepath"
)

func main() {
	p := program{
		name:   filepath.Base(os.Args[0]),
		stdout: os.Stdout,
		stderr: os.Stderr,
		hints:  isTerminal(os.Stderr),
	}
	os.Exit(p.run(os.Args[1:]))
}
