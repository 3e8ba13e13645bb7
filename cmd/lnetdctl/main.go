// Command lnetdctl shows, changes and tests a running lnetd. Its command line and output are those
// of Lustre's lnetctl. The command lst corresponds to Lustre's lst. If the program is installed as
// lnetctl or lst, it behaves like that program.
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
