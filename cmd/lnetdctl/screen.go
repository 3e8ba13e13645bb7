package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// screen is a terminal that a command fills. Its methods must not be called concurrently.
type screen struct {
	in, out *os.File
	before  *term.State
	color   bool
	// stop ends the goroutine that reads keys, which closes keys then.
	stop *os.File
	keys chan byte
}

// Control sequences of terminals (ECMA-48, and xterm's alternate screen).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	plain       = "\x1b[0m"
)

// fullScreen reports whether commands may fill the screen: a user sees the output, can press keys, and the terminal has
// control sequences.
func (p *program) fullScreen() bool {
	in, isFile := p.stdin.(*os.File)
	out, printed := p.stdout.(*os.File)
	return isFile && printed && !p.json && os.Getenv("TERM") != "dumb" && isTerminal(in) && isTerminal(out)
}

// openScreen switches the terminal to a full screen on which each key is read at once. The caller must close it.
func openScreen(in, out *os.File) (*screen, error) {
	wake, stop, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		_ = wake.Close()
		_ = stop.Close()
		return nil, err
	}
	s := &screen{in: in, out: out, before: before, stop: stop, keys: make(chan byte), color: os.Getenv("NO_COLOR") == ""}
	go s.read(wake)
	_, err = io.WriteString(out, enterScreen)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close restores the terminal.
func (s *screen) close() {
	_ = s.stop.Close()
	for range s.keys { // until the goroutine has ended
	}
	_, _ = io.WriteString(s.out, leaveScreen)
	_ = term.Restore(int(s.in.Fd()), s.before)
}

// read sends the keys that the user presses to s.keys, until the other end of wake is closed or the terminal is gone.
func (s *screen) read(wake *os.File) {
	defer close(s.keys)
	defer func() { _ = wake.Close() }()
	const input, woken = 0, 1
	fds := []unix.PollFd{input: {Fd: int32(s.in.Fd()), Events: unix.POLLIN}, woken: {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	var b [1]byte
	for {
		switch _, err := unix.Poll(fds, -1); {
		case err == unix.EINTR:
			continue
		case err != nil, fds[woken].Revents != 0:
			return
		}
		n, err := unix.Read(int(s.in.Fd()), b[:])
		if n != 1 || err != nil {
			return
		}
		s.keys <- b[0]
	}
}

// draw fills the screen with lines. Those that do not fit are cut. The first line of each paragraph is a heading.
func (s *screen) draw(lines []string, width, height int) error {
	var b strings.Builder
	b.WriteString(home)
	heading := true
	for k, line := range lines[:min(len(lines), height)] {
		if k > 0 {
			b.WriteString("\r\n")
		}
		line = cut(line, width)
		if heading && s.color && line != "" {
			line = bold + line + plain
		}
		heading = line == ""
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// size returns the number of columns and lines of the terminal. If it is not known, it is that of common terminals.
func (s *screen) size() (width, height int) {
	const columns, lines = 80, 24
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return columns, lines
	}
	return width, height
}

// cut returns the first n characters of a line, with characters that terminals would interpret replaced.
func cut(line string, n int) string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, line)
	if utf8.RuneCountInString(line) <= n {
		return line
	}
	return string([]rune(line)[:n])
}

// endedBy returns the exit status of a command that a signal has ended, as shells report it.
func endedBy(s os.Signal) status {
	if n, ok := s.(unix.Signal); ok {
		const signaled = 128
		return status(signaled + int(n))
	}
	return exitFailure
}
