package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// checkTimeout is the timeout of a check of a start of lnetd.
const checkTimeout = 30 * time.Second

// start checks with the program lnetd whether it could start. It changes nothing.
func (d *Doctor) start(ctx context.Context) *diagnosis.Start {
	program, err := d.program()
	if err != nil {
		return &diagnosis.Start{Error: "no program lnetd beside lnetdctl or in PATH"}
	}
	s := &diagnosis.Start{Program: program}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	args := []string{"--check", "--json"}
	if file := d.config(); file != "" {
		args = append(args, "--config", file)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.Error = err.Error()
		return s
	}
	var c api.Check
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		s.Error = program + " cannot check a start: " + strings.TrimSpace(problems.String())
		return s
	}
	s.Check = &c
	return s
}

// program returns the path of the program lnetd.
func (d *Doctor) program() (string, error) {
	if d.Program != "" {
		return d.Program, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "lnetd")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	return exec.LookPath("lnetd")
}

// config returns the configuration file to check, or "" for none.
func (d *Doctor) config() string {
	if d.Config != "" {
		return d.Config
	}
	if _, err := os.Lstat(DefaultConfig); err == nil {
		return DefaultConfig
	}
	return ""
}
