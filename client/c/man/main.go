package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "man: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: man HEADER DIRECTORY")
	}
	header, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	pages, err := write(string(header))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if err := os.MkdirAll(args[1], 0o755); err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(args[1], name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
