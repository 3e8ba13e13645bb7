package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// loop is the script of a shell: it runs commands from its standard input, and prints their exit statuses.
const loop = `
exec 2>&1
while IFS= read -r -d '' command; do
	eval "$command" </dev/null
	printf '\n%s %d\n' "$0" $?
done
kill $(jobs -p) 2>/dev/null
wait
`

// ended begins the line that a shell prints after each command.
const ended = "end-of-command"

// shell is a bash that runs one command after the other.
type shell struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // its output; closed at its end
}

// startShell starts a bash that runs setup first. before is a command that runs bash, such as one that enters a
// namespace.
func startShell(before []string, dir string, env []string, setup string) (*shell, error) {
	args := slices.Concat(before, []string{"bash", "--norc", "-c", setup + loop, ended})
	s := &shell{cmd: exec.Command(args[0], args[1:]...), lines: make(chan string)} //nolint:gosec // a test's own command
	s.cmd.Dir, s.cmd.Env = dir, env
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.lines)
		r := bufio.NewReader(stdout)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				s.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return s, nil
}

// Run implements Shell.
func (s *shell) Run(ctx context.Context, command string) (output string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := io.WriteString(s.stdin, command+"\x00"); err != nil {
		return "", 0, err
	}
	var out strings.Builder
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return out.String(), 0, errors.New("the shell has ended")
			}
			if code, ok := strings.CutPrefix(line, ended+" "); ok {
				status, err = strconv.Atoi(strings.TrimSpace(code))
				return strings.TrimSuffix(out.String(), "\n"), status, err
			}
			out.WriteString(line)
		case <-ctx.Done():
			return out.String(), 0, fmt.Errorf("no end after %s", patience)
		}
	}
}

// Close implements Shell.
func (s *shell) Close() {
	_ = s.stdin.Close() // the loop ends its jobs
	timer := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	for range s.lines { // until no process has the pipe
	}
	_ = s.cmd.Wait()
}
