// Command writepage writes the page of package conformance to a file:
//
//	go run ./internal/testing/conformance/writepage FILE
//
// It runs in the root directory of the module.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/lnetd/lnetd/internal/testing/conformance"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writepage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("the only argument is the file to write")
	}
	sections, err := conformance.Rules()
	if err != nil {
		return err
	}
	shown, err := conformance.Scan(os.DirFS("."), sections)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], conformance.Page(sections, shown), 0o644)
}
