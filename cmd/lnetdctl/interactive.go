package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// interactive executes the lines of stdin as commands. Each command line consists of prefix and the line. If
// commands fail, it returns the status of the first one. At a terminal it continues after a command that has
// failed. Otherwise it does so only after a line "ignore_errors" (lnetctl 1.1).
func (p *program) interactive(prefix ...string) error {
	if p.stdin == nil {
		return nil
	}
	lines, terminal := p.lines(prefix)
	if terminal {
		p.hint("list-commands lists the commands, help NAME explains one, quit ends the program")
	}
	first, ignore := exitOK, terminal
	for {
		text, err := lines()
		words := strings.Fields(text)
		switch {
		case errors.Is(err, io.EOF):
			return ended(first)
		case err != nil:
			return err
		case len(words) == 0, strings.HasPrefix(words[0], "#"):
			continue
		}
		switch strings.ToLower(strings.TrimPrefix(words[0], "--")) {
		case wordQuit, wordExit:
			return ended(first)
		case wordIgnore:
			ignore = true
			continue
		}
		one := *p
		one.stdin, one.typed = nil, true
		st := one.run(append(slices.Clone(prefix), words...))
		if first == exitOK {
			first = st
		}
		if st != exitOK && !ignore {
			return ended(first)
		}
	}
}

// ended returns the result of interactive mode, in which the first command that failed had the exit status
// first.
func ended(first int) error {
	if first == exitOK {
		return nil
	}
	return status(first)
}

// lines returns a function that reads the next line of stdin and returns io.EOF after the last one. The result
// terminal reports whether a user types the lines at a terminal.
func (p *program) lines(prefix []string) (next func() (string, error), terminal bool) {
	in, isFile := p.stdin.(*os.File)
	out, printed := p.stdout.(*os.File)
	if !isFile || !printed || !isTerminal(in) || !isTerminal(out) {
		s := bufio.NewScanner(p.stdin)
		return func() (string, error) {
			if s.Scan() {
				return s.Text(), nil
			}
			if s.Err() != nil {
				return "", s.Err()
			}
			return "", io.EOF
		}, false
	}
	prompt := "> "
	if len(prefix) > 0 || p.name == lstName {
		prompt = "lst > "
	}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, prompt)
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		longer := p.lengthen(prefix, line[:pos])
		return longer + line[pos:], len(longer), true
	}
	return func() (string, error) {
		fd := int(in.Fd())
		if width, height, err := term.GetSize(fd); err == nil && width > 0 {
			_ = t.SetSize(width, height) // otherwise the size stays the same
		}
		before, err := term.MakeRaw(fd) // only while reading a line, because commands print
		if err != nil {
			return "", err
		}
		defer func() { _ = term.Restore(fd, before) }()
		return t.ReadLine()
	}, true
}

// lengthen returns a line whose last word has been completed as far as there is only one way to do so.
func (p *program) lengthen(prefix []string, line string) string {
	words := strings.Fields(line)
	if line == "" || strings.HasSuffix(line, " ") {
		words = append(words, "")
	}
	last := words[len(words)-1]
	found := p.candidates(append(slices.Clone(prefix), words...))
	if len(found) == 0 {
		return line
	}
	longest := found[0]
	for _, f := range found[1:] {
		for !strings.HasPrefix(f, longest) {
			longest = longest[:len(longest)-1]
		}
	}
	if len(found) == 1 {
		longest += " "
	}
	if !strings.HasPrefix(longest, last) {
		return line
	}
	return line + longest[len(last):]
}
