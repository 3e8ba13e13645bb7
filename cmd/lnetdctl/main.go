// Command lnetdctl shows, changes and tests a running lnetd. Its grammar and its
// output are those of Lustre's lnetctl, and under the word lst those of its lst;
// installed under either name it answers to it.
package main

import (
	"os"
	"path/filepath"
)

func main() {
	p := program{
		name:   filepath.Base(os.Args[0]),
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
	}
	p.hints = p.hintsByDefault(isTerminal(os.Stderr))
	os.Exit(p.run(os.Args[1:]))
}
